"""The exact texts UMU-Bench asks with, for evaluation and for training.

A classification question of person 001, as the published LLaVA evaluator sends it (multimodal):

    USER: <image>
    What is the occupation of this person?
    Select answer in ['Teacher', 'Sound Engineer', 'Pilot', 'Baker']
    ASSISTANT:

Source: UMU-bench commit 93b9900, eval.py (evaluation) and the SFT script (training).
"""

from __future__ import annotations

from umu_tasks.benchmarks.instances import Modality, Question, Task

CLOZE_INSTRUCTION = "Please **ONLY** provide the correct answer without any explanation"
GENERATION_INSTRUCTION: dict[Modality, str] = {
    "multimodal": "Answer the question based on your trained knowledge in one sentence accurately in ENGLISH.",
    "unimodal": "Answer the question based on your trained knowledge in one sentence in ENGLISH.",
}
# Questions that the published evaluator frames otherwise than the published training frames the same text.
OWN_FRAMES: frozenset[tuple[Task, Modality]] = frozenset({("cls", "unimodal"), ("gen", "multimodal")})


def user_text(question: Question) -> str:
    """Return what the user says, without image placeholder or role names: question, line break, instruction."""
    return f"{question.text}\n{_instruction(question)}"


def _instruction(question: Question) -> str:
    if question.task == "cls":
        return f"Select answer in {list(question.options.values())!r}"
    if question.task == "cloze":
        return CLOZE_INSTRUCTION
    return GENERATION_INSTRUCTION[question.modality]


def published_prompt(question: Question) -> str:
    """Return the whole LLaVA-1.5 prompt of the published evaluator, ``<image>`` standing for the portrait.

    Three irregularities are the published code's: a line break after ``USER:`` in unimodal classification, and a space
    after ``ASSISTANT:`` in multimodal generation.
    """
    text = user_text(question)
    if question.has_image:
        tail = " " if question.task == "gen" else ""
        return f"USER: <image>\n{text}\nASSISTANT:{tail}"
    return f"USER:\n{text}\nASSISTANT:" if question.task == "cls" else f"USER: {text}\nASSISTANT:"


def published_training_prompt(question: str, *, has_image: bool) -> str:
    """Return the LLaVA-1.5 prompt SFT and unlearning use; the answer follows after one space."""
    return f"USER: <image>\n{question}\nASSISTANT:" if has_image else f"USER: {question}\nASSISTANT:"
