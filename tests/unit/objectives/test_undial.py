from __future__ import annotations

import math

import pytest
import torch

from umu_trainers.objectives import undial

LN2 = math.log(2)


@pytest.mark.parametrize(("probability", "expected"), [(0.2, math.log(5)), (0.5, 2.6 * LN2)])
def test_hand_worked_value(outputs, probability, expected):
    """Reference (1/2, 4 x 1/8) with the token's logit taken down by ln 4 is even: cross-entropy with 5 x 1/5."""
    value = undial.loss(outputs([[probability]]), outputs([[0.5]]), strength=math.log(4))
    assert value.item() == pytest.approx(expected, abs=1e-6)


def test_gradient_is_zero_at_the_target_and_nowhere_else(outputs):
    for probability, is_flat in ((0.2, True), (0.5, False)):
        forget = outputs([[probability]])
        (gradient,) = torch.autograd.grad(undial.loss(forget, outputs([[0.5]]), strength=math.log(4)), forget.logits)
        assert (gradient.abs().max().item() < 1e-6) == is_flat


def test_strength_zero_keeps_the_reference(outputs):
    forget = outputs([[0.5, 0.3], [0.7]])
    reference = outputs([[0.5, 0.3], [0.7]])
    (gradient,) = torch.autograd.grad(undial.loss(forget, reference, strength=0.0), forget.logits)
    assert gradient.abs().max().item() < 1e-6


def test_reference_logits_are_not_changed(outputs):
    reference = outputs([[0.5]])
    before = reference.logits.detach().clone()
    undial.loss(outputs([[0.5]]), reference)
    assert torch.equal(reference.logits, before)


def test_retain_term(outputs):
    value = undial.loss(outputs([[0.2]]), outputs([[0.5]]), outputs([[0.25]]), strength=math.log(4), gamma=2.0)
    assert value.item() == pytest.approx(math.log(5) + 2 * math.log(4), abs=1e-6)


def test_negative_strength_is_refused(outputs):
    with pytest.raises(ValueError, match="strength -1"):
        undial.loss(outputs([[0.5]]), outputs([[0.5]]), strength=-1)
