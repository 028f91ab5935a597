from __future__ import annotations

import math

import pytest

from umu_trainers.data import load_refusals
from umu_trainers.objectives import po


def test_loss_teaches_the_refusal_and_the_retain_answer(outputs):
    value = po.loss(outputs([[0.25, 0.25]]), outputs([[0.5]]), gamma=3.0)
    assert value.item() == pytest.approx(math.log(4) + 3 * math.log(2), abs=1e-6)


def test_without_retain_term(outputs):
    assert po.loss(outputs([[0.25]]), gamma=0.0).item() == pytest.approx(math.log(4), abs=1e-6)


def test_there_are_about_a_hundred_different_refusals():
    refusals = load_refusals()
    assert 90 <= len(refusals) == len(set(refusals))
    for text in refusals:
        assert text == text.strip()
        assert text.endswith(".")
        assert len(text) < 80
