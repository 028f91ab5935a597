"""When a run's scores may be read."""

from __future__ import annotations

import pytest

from umu_tasks.results.validity import judge


def summary(questions, empty=0, failed=0, refusal=0):
    metrics = {"acc_mul": {"value": 0.0}, "acc_uni": {"value": 0.0}}
    return {
        "questions": questions,
        "counts": {"refusal": refusal, "empty": empty, "failed": failed},
        "metrics": metrics,
    }


@pytest.mark.parametrize(
    ("questions", "empty", "failed", "valid"),
    [(100, 0, 0, True), (100, 1, 0, True), (100, 1, 1, False), (100, 0, 2, False), (99, 1, 0, False), (4, 1, 0, False)],
)
def test_more_than_one_percent(questions, empty, failed, valid):
    """Empty and failed outputs together; one percent itself still passes."""
    assert judge({"umu_real_cls": summary(questions, empty, failed)})["valid"] is valid


def test_refusals_are_answers():
    """A model trained to refuse is what unlearning by refusal asks for."""
    assert judge({"umu_forget05_cls": summary(100, refusal=100)}) == {"valid": True, "reasons": []}


def test_reasons_name_task_and_numbers():
    """One bad task among good ones is enough, and is named."""
    found = judge({"umu_real_cls": summary(300), "umu_forget05_gen": summary(100, 7, 3)}, ["the disk is full"])
    assert found == {
        "valid": False,
        "reasons": [
            "umu_forget05_gen: 7 empty and 3 failed of 100 outputs, where at most 1% may be",
            "the disk is full",
        ],
    }


def test_answers_that_were_not_scored():
    """--predict_only: a reader of the file must not take the missing scores for zeros."""
    found = judge({}, (), {"umu_real_cls": "real", "umu_real_gen": "real"})
    assert found["valid"] is False
    assert found["reasons"] == ["nothing was scored, since --predict_only was given: umu_real_cls, umu_real_gen"]


def test_no_score_is_not_a_low_score():
    """One modality only (an odd limit): nothing was measured."""
    nothing = summary(1) | {"metrics": {"acc_mul": {"value": float("nan")}, "acc_uni": {"value": None}}}
    found = judge({"umu_forget05_cls": nothing})
    assert found["valid"] is False
    assert "umu_forget05_cls: no score" in found["reasons"][0]
