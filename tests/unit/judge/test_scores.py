"""Means of factuality: by modality, with what was left out counted beside them."""

from __future__ import annotations

import dataclasses

import pytest

from umu_tasks.benchmarks.instances import Question
from umu_tasks.judge.answers import GeneratedAnswer
from umu_tasks.judge.judging import needs_judge
from umu_tasks.judge.rubric import Verdict
from umu_tasks.judge.scores import task_scores
from umu_tasks.scoring.answers import is_empty


def answer(person, modality="multimodal", output="text", failed=False):
    return GeneratedAnswer("umu_real_gen", person, "life", modality, "q", "g", output, failed)


def test_hand_worked_numbers():
    """Multimodal 8 and 5, unimodal 2; one unreadable, one never judged, one failed: each is counted, none averaged."""
    verdicts = {
        answer("1"): Verdict(8.0, "", ""),
        answer("2"): Verdict(5.0, "", ""),
        answer("3"): Verdict(None, "", "hm"),
        answer("4"): None,
        answer("5", failed=True): None,
        answer("1", "unimodal"): Verdict(2.0, "", ""),
        answer("2", "unimodal", output=""): Verdict(1.0, "empty answer", ""),
    }
    scores = task_scores(list(verdicts), verdicts.get)
    assert scores["factuality_mul"]["value"] == 6.5
    assert scores["factuality_mul"]["n"] == 2
    assert 5 <= scores["factuality_mul"]["low"] <= 6.5 <= scores["factuality_mul"]["high"] <= 8
    assert scores["factuality_uni"]["value"] == 1.5
    counts = {name: scores[name] for name in ("answers", "judged", "unreadable", "not_judged", "empty", "failed")}
    assert counts == {"answers": 7, "judged": 4, "unreadable": 1, "not_judged": 1, "empty": 1, "failed": 1}


@pytest.mark.parametrize("output", ["", " \n", "!!!", "? \u200b", "___"])
def test_empty_is_what_the_other_scores_count_as_empty(output):
    """One answer must not be empty in the table of scores and something in the judge's."""
    question = Question("1", "gen", "life", "multimodal", "q", "g")
    assert is_empty(output, question)
    assert task_scores([answer("1", output=output)], lambda _: None)["empty"] == 1
    assert not needs_judge(answer("1", output=output))


def test_marks_that_are_the_right_answer_are_judged():
    marks = dataclasses.replace(answer("1", output="?!"), gold="?!")
    assert needs_judge(marks)
    assert task_scores([marks], lambda _: None)["empty"] == 0


def test_nothing_judged_is_no_zero():
    """A zero would read as a score below the scale."""
    scores = task_scores([answer("1")], lambda _: None)
    assert scores["factuality_mul"] == {"value": None, "n": 0, "stderr": None, "low": None, "high": None}
    assert scores["not_judged"] == 1
