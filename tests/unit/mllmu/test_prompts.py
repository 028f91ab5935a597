"""MLLMU-Bench's prompts, character by character: a changed space changes every score."""

from __future__ import annotations

import pytest

from umu_tasks.benchmarks.instances import Question
from umu_tasks.tasks.mllmu import prompts

OPTIONS = {"A": "Pilot", "B": "Baker "}
LETTER = "Just give ONE letter representing the answer directly."
BLANK = "Please **ONLY** provide the correct answer that should replace the [Blank]."


def question(task, modality, text="Who?", gold="Pilot"):
    options = OPTIONS if task == "cls" else {}
    return Question("001", task, "job", modality, text, gold, options=options, gold_letter="A" if options else None)


ZERO_SHOT = {
    ("cls", "multimodal"): f"USER: <image>\nWho?\nA: Pilot\nB: Baker \n{LETTER}\nASSISTANT:",
    ("cls", "unimodal"): f"USER:\nWho?\nA: Pilot\nB: Baker \n{LETTER}\nASSISTANT:",
    ("cloze", "multimodal"): f"USER: <image>\nIt is a [Blank].\n{BLANK}\nASSISTANT:",
    ("cloze", "unimodal"): f"USER:\nIt is a [Blank].\n{BLANK}\nASSISTANT:",
    ("gen", "multimodal"): (
        "USER: <image>\nWho?\n"
        "Answer the question based on your trained knowledge in one sentence accurately in ENGLISH.\nASSISTANT: "
    ),
    ("gen", "unimodal"): (
        "USER: Who?\nAnswer the question based on your trained knowledge in one sentence in ENGLISH.\nASSISTANT:"
    ),
}
EXAMPLE = {
    ("cls", "multimodal"): "USER: <image>\nQuestion: Who?\nA: Pilot\nB: Baker \nCorrect Answer: A\n",
    ("cls", "unimodal"): "USER:\nQuestion: Who?\nA: Pilot\nB: Baker \nCorrect Answer: A\n",
    ("cloze", "multimodal"): f"USER:<image>\nIt is a [Blank].\n{BLANK}\nCorrect Answer: Pilot\n",
    ("cloze", "unimodal"): f"USER:\nIt is a [Blank].\n{BLANK}\nCorrect Answer: Pilot\n",
}


@pytest.mark.parametrize(("task", "modality"), ZERO_SHOT)
def test_zero_shot(task, modality):
    asked = question(task, modality, "It is a __." if task == "cloze" else "Who?")
    assert prompts.published_prompt(asked) == ZERO_SHOT[task, modality]
    assert prompts.user_text(asked) in prompts.published_prompt(asked)


@pytest.mark.parametrize(("task", "modality"), EXAMPLE)
def test_few_shot(task, modality):
    """Two examples, then the question; only the cloze example lacks the space before its image, as published."""
    asked = question(task, modality, "It is a __." if task == "cloze" else "Who?")
    expected = 2 * EXAMPLE[task, modality] + ZERO_SHOT[task, modality]
    assert prompts.published_prompt(asked, [asked, asked]) == expected


def test_question_is_the_one_shown():
    """The backend checks that the prompt holds the question."""
    asked = question("cloze", "unimodal", "__ is a __.")
    assert prompts.shown_question(asked) == "[Blank] is a [Blank]."
    assert prompts.shown_question(asked) in prompts.published_prompt(asked)
