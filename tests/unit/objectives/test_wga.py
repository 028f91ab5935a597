from __future__ import annotations

import math

import pytest
import torch

from umu_trainers.objectives import ga, wga


def test_hand_worked_value(outputs):
    """Tokens at 1/2 and 1/8: (1/2 ln 1/2 + 1/8 ln 1/8) / 2 = -7/16 ln 2."""
    value = wga.loss(outputs([[0.5, 0.125]]), gamma=0.0)
    assert value.item() == pytest.approx(-7 / 16 * math.log(2), abs=1e-6)


def test_rows_count_alike(outputs):
    value = wga.loss(outputs([[0.5, 0.5], [0.25]]), gamma=0.0, wga_alpha=2.0)
    assert value.item() == pytest.approx((math.log(0.5) / 4 + math.log(0.25) / 16) / 2, abs=1e-6)


def test_power_zero_is_gradient_ascent(outputs):
    forget = outputs([[0.5, 0.125], [0.25]])
    torch.testing.assert_close(wga.loss(forget, gamma=0.0, wga_alpha=0.0), ga.loss(forget))


def test_the_weight_is_a_constant_to_the_gradient(outputs):
    """p log p itself would be least at 1/e and pull unlikely tokens back up."""
    forget = outputs([[0.1]])
    (gradient,) = torch.autograd.grad(wga.loss(forget, gamma=0.0), forget.logits)
    assert gradient[0, 0, 2].item() == pytest.approx(0.1 * (1 - 0.1), abs=1e-6)


def test_retain_term(outputs):
    value = wga.loss(outputs([[0.5]]), outputs([[0.25]]), gamma=2.0)
    assert value.item() == pytest.approx(0.5 * math.log(0.5) + 2 * math.log(4), abs=1e-6)


def test_a_negative_power_is_refused(outputs):
    with pytest.raises(ValueError, match="wga_alpha -1"):
        wga.loss(outputs([[0.5]]), wga_alpha=-1)
