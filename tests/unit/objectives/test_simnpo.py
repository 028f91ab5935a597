from __future__ import annotations

import math

import pytest

from umu_trainers.objectives import simnpo


def test_hand_worked_value_is_length_normalised(outputs):
    """Both rows have 2 ln 2 nats a token, whatever their length: 2 ln(1 + 1/4)."""
    value = simnpo.loss(outputs([[0.5, 0.125], [0.25]]), gamma=0.0, simnpo_beta=1.0)
    assert value.item() == pytest.approx(2 * math.log(1.25), abs=1e-6)


def test_beta_and_margin(outputs):
    """beta 2, nll ln 2, margin ln 2: logsigmoid(ln 2), so -2/2 ln(2/3)."""
    value = simnpo.loss(outputs([[0.5]]), gamma=0.0, simnpo_beta=2.0, margin=math.log(2))
    assert value.item() == pytest.approx(math.log(1.5), abs=1e-6)


def test_a_margin_pushes_further(outputs):
    assert simnpo.loss(outputs([[0.1]]), margin=1.0, gamma=0.0) > simnpo.loss(outputs([[0.1]]), gamma=0.0)


def test_retain_term(outputs):
    value = simnpo.loss(outputs([[0.25]]), outputs([[0.5]]), simnpo_beta=1.0, gamma=3.0)
    assert value.item() == pytest.approx(2 * math.log(1.25) + 3 * math.log(2), abs=1e-6)


def test_a_beta_of_zero_is_refused(outputs):
    with pytest.raises(ValueError, match="simnpo_beta 0"):
        simnpo.loss(outputs([[0.5]]), simnpo_beta=0)
