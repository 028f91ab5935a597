"""The exact texts MLLMU-Bench asks with, examples included.

A classification question with two examples of one person, as the published LLaVA evaluator sends it (multimodal):

    USER: <image>
    Question: What is the occupation of this person?
    A: Pilot
    B: Baker
    C: Judge
    D: Poet
    Correct Answer: A
    USER: <image>
    Question: …
    Correct Answer: C
    USER: <image>
    Where does this person live?
    A: Oslo
    …
    Just give ONE letter representing the answer directly.
    ASSISTANT:

Source: MLLMU-Bench commit 0e3098e, eval.py. Generation is asked as in UMU-Bench.
"""

from __future__ import annotations

from collections.abc import Sequence

from umu_tasks.benchmarks.instances import Modality, Question, Task
from umu_tasks.tasks.umu import prompts as umu_prompts

CLASSIFICATION_INSTRUCTION = "Just give ONE letter representing the answer directly."
CLOZE_INSTRUCTION = "Please **ONLY** provide the correct answer that should replace the [Blank]."
# Questions that the published evaluator frames otherwise than the published training frames the same text.
OWN_FRAMES: frozenset[tuple[Task, Modality]] = frozenset(
    {("cls", "unimodal"), ("cloze", "unimodal"), ("gen", "multimodal")}
)


def shown_question(question: Question) -> str:
    """Return the question as the model reads it: every ``__`` of a cloze question is a ``[Blank]``."""
    return question.text.replace("__", "[Blank]") if question.task == "cloze" else question.text


def user_text(question: Question) -> str:
    """Return what the user says, without image placeholder, role names or examples."""
    if question.task == "cls":
        return f"{shown_question(question)}\n{_options(question)}\n{CLASSIFICATION_INSTRUCTION}"
    if question.task == "cloze":
        return f"{shown_question(question)}\n{CLOZE_INSTRUCTION}"
    return umu_prompts.user_text(question)


def answer_text(question: Question) -> str:
    """Return the right answer as an example gives it: a letter in classification."""
    return str(question.gold_letter) if question.task == "cls" else question.gold


def published_prompt(question: Question, examples: Sequence[Question] = ()) -> str:
    """Return the whole LLaVA-1.5 prompt of the published evaluator, each ``<image>`` standing for a portrait.

    Args:
        examples: questions of the same task and modality, answered before the question is asked.
    """
    if question.task == "gen":
        return umu_prompts.published_prompt(question)
    user = "USER: <image>\n" if question.has_image else "USER:\n"
    return f"{''.join(map(_published_example, examples))}{user}{user_text(question)}\nASSISTANT:"


def _published_example(example: Question) -> str:
    if example.task == "cls":
        user = "USER: <image>\n" if example.has_image else "USER:\n"
        asked = f"Question: {example.text}\n{_options(example)}"
    else:
        user = "USER:<image>\n" if example.has_image else "USER:\n"  # sic: no space before this <image>
        asked = user_text(example)
    return f"{user}{asked}\nCorrect Answer: {answer_text(example)}\n"


def _options(question: Question) -> str:
    return "\n".join(f"{letter}: {text}" for letter, text in question.options.items())
