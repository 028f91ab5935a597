from __future__ import annotations

import math

import pytest
import torch

from umu_trainers.objectives import ga


def test_loss_is_minus_the_mean_over_rows_of_the_token_mean(outputs):
    """A long answer counts like a short one: rows (1/2, 1/8) and (1/4) have 2 ln 2 nats a token each."""
    value = ga.loss(outputs([[0.5, 0.125], [0.25]]))
    assert value.item() == pytest.approx(-2 * math.log(2), abs=1e-6)


def test_rows_count_alike(outputs):
    value = ga.loss(outputs([[0.5, 0.5, 0.5, 0.5], [0.25]]))
    assert value.item() == pytest.approx(-(math.log(2) + math.log(4)) / 2, abs=1e-6)


def test_the_optional_retain_term_is_added(outputs):
    value = ga.loss(outputs([[0.25]]), outputs([[0.5, 0.5]]), gamma=3.0)
    assert value.item() == pytest.approx(3 * math.log(2) - math.log(4), abs=1e-6)


def test_a_step_down_its_gradient_lowers_the_answers_probability(outputs):
    forget = outputs([[0.5, 0.125], [0.25]])
    (gradient,) = torch.autograd.grad(ga.loss(forget), forget.logits)
    moved = forget.logits - 0.1 * gradient
    before, after = forget.logits.softmax(-1)[..., 2], moved.softmax(-1)[..., 2]
    answered = forget.labels == 2
    assert bool((after[answered] < before[answered]).all())
