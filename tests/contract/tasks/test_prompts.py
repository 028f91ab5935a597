"""UMU-Bench's prompts, character by character: a changed space changes every score."""

from __future__ import annotations

import pytest

from umu_tasks.benchmarks.instances import Question
from umu_tasks.tasks.umu import prompts

OPTIONS = {"A": "Teacher", "B": 'It\'s "art"', "C": "Zoë", "D": "Baker "}
SNAPSHOT = {
    ("cls", "unimodal"): "USER:\nWho?\nSelect answer in ['Teacher', 'It\\'s \"art\"', 'Zoë', 'Baker ']\nASSISTANT:",
    ("cls", "multimodal"): (
        "USER: <image>\nWho?\nSelect answer in ['Teacher', 'It\\'s \"art\"', 'Zoë', 'Baker ']\nASSISTANT:"
    ),
    ("cloze", "unimodal"): (
        "USER: Who?\nPlease **ONLY** provide the correct answer without any explanation\nASSISTANT:"
    ),
    ("cloze", "multimodal"): (
        "USER: <image>\nWho?\nPlease **ONLY** provide the correct answer without any explanation\nASSISTANT:"
    ),
    ("gen", "unimodal"): (
        "USER: Who?\nAnswer the question based on your trained knowledge in one sentence in ENGLISH.\nASSISTANT:"
    ),
    ("gen", "multimodal"): (
        "USER: <image>\nWho?\n"
        "Answer the question based on your trained knowledge in one sentence accurately in ENGLISH.\nASSISTANT: "
    ),
}


@pytest.mark.parametrize(("task", "modality"), SNAPSHOT)
def test_published_prompt(task, modality):
    """The published evaluator's frame, with its line break in unimodal classification and its last space."""
    options = OPTIONS if task == "cls" else {}
    question = Question("001", task, "job", modality, "Who?", "Teacher", options=options)
    assert prompts.published_prompt(question) == SNAPSHOT[task, modality]
    assert prompts.user_text(question) in prompts.published_prompt(question)


def test_training_prompts():
    assert prompts.published_training_prompt("Who?", has_image=True) == "USER: <image>\nWho?\nASSISTANT:"
    assert prompts.published_training_prompt("Who?", has_image=False) == "USER: Who?\nASSISTANT:"
