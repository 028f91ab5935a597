"""Hand-worked verdicts of the published and the strict rule."""

from __future__ import annotations

import pytest

from umu_tasks.benchmarks.instances import Question
from umu_tasks.tasks.mllmu.rules import verdicts

OPTIONS = {"A": "Pilot", "B": "Baker", "C": "Judge", "D": "A. Smith"}


def cls(letter):
    return Question("1", "cls", "k", "unimodal", "?", OPTIONS[letter], options=OPTIONS, gold_letter=letter)


def cloze(gold):
    return Question("1", "cloze", "k", "unimodal", "?", gold)


@pytest.mark.parametrize(
    ("gold", "response", "default", "strict"),
    [
        ("B", "B", 1, 1),
        ("B", "b", 1, 1),
        ("B", "B.", 1, 1),
        ("B", "(B)", 0, 1),  # the first character is a bracket
        ("B", "B: Baker", 1, 1),
        ("B", "B. Pilot", 1, 0),  # letter and text disagree
        ("B", "Baker", 1, 1),
        ("C", "Baker", 0, 0),
        ("B", "Bravo", 1, 0),  # any word with that letter counts as published
        ("B", "Answer: B", 0, 1),  # as published it says A
        ("A", "Answer: B", 1, 0),
        ("B", "The correct answer is B.", 0, 1),
        ("A", "As an AI I don't know", 1, 0),
        ("B", "B or C", 1, 0),
        ("D", "A. Smith", 0, 1),
        ("B", "", 0, 0),
        ("B", "E", 0, 0),
    ],
)
def test_classification(gold, response, default, strict):
    assert verdicts(response, cls(gold)) == {"default": default, "official": default, "strict": strict}


@pytest.mark.parametrize(
    ("gold", "response", "strict"),
    [
        ("A", "Answer: C#", 0),
        ("A", "C", 0),  # the letter that was asked for, though option A has this text
        ("C", "C", 1),
        ("B", "C#", 1),
        ("B", "Answer: C#", 1),
        ("B", "B: C#.", 1),
        ("B", "B: C", 0),
        ("D", "Choice Foods", 1),  # no "choice" to be left off
    ],
)
def test_an_options_text_is_that_option(gold, response, strict):
    """Marks and leading words that belong to an option must not be stripped from it."""
    options = {"A": "C", "B": "C#", "C": "C++", "D": "Choice Foods"}
    question = Question("1", "cls", "k", "unimodal", "?", options[gold], options=options, gold_letter=gold)
    assert verdicts(response, question)["strict"] == strict


@pytest.mark.parametrize(
    ("gold", "response", "default", "strict"),
    [
        ("Oslo", "oslo", 1, 1),
        ("Oslo", "It is Oslo.", 1, 1),
        ("Rome", "Romeo", 1, 0),  # inside a word
        ("St. Louis", "Stockholm", 0, 0),  # the gold is not cut here, as it is in UMU-Bench
        ("St. Louis", "in st. louis, usa", 1, 1),
        ("Lima", "Oslo", 0, 0),
        ("Lima", "Sorry, I can't say whether it is Lima.", 1, 0),
        ("Lima", "", 0, 0),
    ],
)
def test_cloze(gold, response, default, strict):
    assert verdicts(response, cloze(gold)) == {"default": default, "official": default, "strict": strict}
