from __future__ import annotations

import math

import pytest
import torch

from umu_trainers.objectives import dpo


def test_hand_worked_value(outputs):
    """The refusal got twice as likely, the forget answer half as likely: -logsigmoid(2 ln 2)."""
    value = dpo.loss(
        outputs([[0.25]]), outputs([[0.5, 0.5]]), outputs([[0.5]]), outputs([[0.25, 0.5]]), gamma=0.0, dpo_beta=1.0
    )
    assert value.item() == pytest.approx(math.log(1.25), abs=1e-6)


@pytest.mark.parametrize("dpo_beta", [0.1, 1.0])
def test_ln_2_where_both_models_agree(outputs, dpo_beta):
    forget, refusal = [[0.5, 0.125], [0.25]], [[0.1], [0.3, 0.3]]
    value = dpo.loss(outputs(forget), outputs(refusal), outputs(forget), outputs(refusal), gamma=0.0, dpo_beta=dpo_beta)
    assert value.item() == pytest.approx(math.log(2), rel=1e-6)


def test_gradient_lowers_the_answer_and_raises_the_refusal(outputs):
    forget, refusal = outputs([[0.5]]), outputs([[0.5]])
    value = dpo.loss(forget, refusal, outputs([[0.5]]), outputs([[0.5]]), gamma=0.0)
    on_forget, on_refusal = torch.autograd.grad(value, [forget.logits, refusal.logits])
    assert on_forget[0, 0, 2] > 0 > on_refusal[0, 0, 2]


def test_retain_term(outputs):
    one = [[0.5]]
    value = dpo.loss(*(outputs(one) for _ in range(4)), outputs([[0.25]]), gamma=2.0)
    assert value.item() == pytest.approx(math.log(2) + 2 * math.log(4), abs=1e-6)
