from __future__ import annotations

import math

import pytest
import torch

from umu_trainers.objectives import npo

LN2 = math.log(2)


@pytest.mark.parametrize(("npo_beta", "expected"), [(1.0, 2 * math.log(1.25)), (0.5, 4 * math.log(1.5))])
def test_hand_worked_ratio_of_whole_answers(outputs, npo_beta, expected):
    """The answer has probability 1/2 x 1/8 = 1/16, under the reference 1/2 x 1/2 = 1/4: ratio 1/4."""
    value = npo.loss(outputs([[0.5, 0.125]]), outputs([[0.5, 0.5]]), npo_beta=npo_beta)
    assert value.item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("npo_beta", [0.1, 0.4, 2.0])
def test_value_where_both_models_agree(outputs, npo_beta):
    rows = [[0.5, 0.125], [0.25], [0.9, 0.9, 0.01]]
    assert npo.loss(outputs(rows), outputs(rows), npo_beta=npo_beta).item() == pytest.approx(
        2 / npo_beta * LN2, rel=1e-6
    )


def test_each_answer_has_its_own_ratio(outputs):
    """Ratios 1 and 1/4: the mean of the losses, not the loss of the mean."""
    value = npo.loss(outputs([[0.5], [0.125]]), outputs([[0.5], [0.5]]), npo_beta=1.0)
    assert value.item() == pytest.approx(math.log(2) + math.log(1.25), abs=1e-6)


def test_gradient_fades_as_the_answer_is_forgotten(outputs):
    gradients = []
    for probability in (0.5, 0.05, 0.0005):
        forget = outputs([[probability]])
        (gradient,) = torch.autograd.grad(npo.loss(forget, outputs([[0.5]]), npo_beta=1.0), forget.logits)
        gradients.append(gradient.abs().sum().item() / (1 - probability))  # gradient ascent's would stay alike
    assert gradients[0] > 5 * gradients[1] > 25 * gradients[2] > 0


def test_extreme_ratios_stay_finite(outputs):
    """exp(β · 700) is no float32 number; the loss of a collapsed or a never-forgotten answer must be one."""
    certain, hopeless = outputs([[1 - 1e-7] * 3]), outputs([[1e-38] * 8])
    collapsed = npo.loss(hopeless, outputs([[1 - 1e-7] * 8]), npo_beta=1.0)
    stubborn = npo.loss(certain, outputs([[1e-38] * 3]), npo_beta=1.0)
    assert collapsed.item() == pytest.approx(0.0, abs=1e-6)
    assert stubborn.item() == pytest.approx(2 * 3 * 38 * math.log(10), rel=1e-3)


def test_near_zero_beta_gives_the_gradient_of_ascent(outputs):
    forget = outputs([[0.5, 0.125], [0.25]])
    reference = outputs([[0.7, 0.7], [0.7]])
    (gradient,) = torch.autograd.grad(npo.loss(forget, reference, npo_beta=1e-4), forget.logits, retain_graph=True)
    (ascent,) = torch.autograd.grad(forget.logps.mean(), forget.logits)
    torch.testing.assert_close(gradient, ascent, rtol=1e-3, atol=1e-4)


def test_retain_term(outputs):
    rows = [[0.5]]
    value = npo.loss(outputs(rows), outputs(rows), outputs([[0.25]]), npo_beta=1.0, gamma=0.5)
    assert value.item() == pytest.approx(2 * LN2 + 0.5 * math.log(4), abs=1e-6)


@pytest.mark.parametrize("npo_beta", [0, -0.1])
def test_a_beta_that_is_not_positive_is_refused(outputs, npo_beta):
    with pytest.raises(ValueError, match=r"npo_beta .*: a number above 0"):
        npo.loss(outputs([[0.5]]), outputs([[0.5]]), npo_beta=npo_beta)
