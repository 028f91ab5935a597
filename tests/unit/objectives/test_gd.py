from __future__ import annotations

import math

import pytest
import torch

from umu_trainers.objectives import gd


@pytest.mark.parametrize(("gamma", "expected"), [(0.0, -math.log(4)), (1.0, -math.log(2)), (3.0, math.log(2))])
def test_loss_is_gamma_retain_minus_forget(outputs, gamma, expected):
    """Forget answers at 1/4, retain answers at 1/2: gamma ln 2 - ln 4."""
    value = gd.loss(outputs([[0.25], [0.25, 0.25]]), outputs([[0.5, 0.5]]), gamma=gamma)
    assert value.item() == pytest.approx(expected, abs=1e-6)


def test_terms_stand_alone(outputs):
    """In sequential phases a step has forget rows or retain rows, never both."""
    assert gd.loss(outputs([[0.25]])).item() == pytest.approx(-math.log(4), abs=1e-6)
    assert gd.loss(None, outputs([[0.5]]), gamma=3.0).item() == pytest.approx(3 * math.log(2), abs=1e-6)


def test_gradients_pull_apart(outputs):
    forget, retain = outputs([[0.5]]), outputs([[0.5]])
    on_forget, on_retain = torch.autograd.grad(gd.loss(forget, retain, gamma=2.0), [forget.logits, retain.logits])
    torch.testing.assert_close(on_retain, -2.0 * on_forget)
    assert on_forget[0, 0, 2] > 0  # descent lowers the forget answer's logit


def test_negative_gamma_is_refused(outputs):
    with pytest.raises(ValueError, match=r"--gamma -1: the weight of the retain term must be 0 or more"):
        gd.loss(outputs([[0.5]]), outputs([[0.5]]), gamma=-1)
