from __future__ import annotations

import dataclasses

import pytest
import torch

from umu_trainers.objectives import rmu


@pytest.fixture
def states(outputs):
    """Build outputs whose hidden states, 4 wide, are `value` everywhere."""

    def build(rows, value):
        found = outputs(rows)
        filled = torch.full((*found.labels.shape, 4), float(value), requires_grad=True)
        return dataclasses.replace(found, hidden_states=filled)

    return build


def test_hand_worked_value(states):
    """At the origin the distance to 3 u is 3, squared and averaged over 4 dimensions 9/4; retain rows are 2 off."""
    rows = [[0.5, 0.5], [0.5]]
    value = rmu.loss(states(rows, 0), states(rows, 1), states(rows, 3), hidden_layer=1, steering=3.0, gamma=10.0)
    assert value.item() == pytest.approx(9 / 4 + 10 * 4, abs=1e-5)


def test_padded_positions_do_not_enter(states):
    forget, retain = states([[0.5, 0.5], [0.5]], 0), states([[0.5]], 0)
    forget.hidden_states.data[1, 1] = 1e6
    value = rmu.loss(forget, retain, retain, hidden_layer=1, steering=3.0)
    assert value.item() == pytest.approx(9 / 4, abs=1e-5)


def test_the_direction_is_a_unit_vector_of_its_seed():
    assert rmu.direction(64, 1).norm().item() == pytest.approx(1.0, abs=1e-6)
    assert torch.equal(rmu.direction(64, 1), rmu.direction(64, 1))
    assert not torch.equal(rmu.direction(64, 1), rmu.direction(64, 2))


def test_gradient_steers_towards_the_direction(states):
    forget, retain = states([[0.5]], 0), states([[0.5]], 0)
    (gradient,) = torch.autograd.grad(rmu.loss(forget, retain, retain, hidden_layer=1), forget.hidden_states)
    cosine = torch.nn.functional.cosine_similarity(-gradient[0, 0], rmu.direction(4, 0), dim=0)
    assert cosine.item() == pytest.approx(1.0, abs=1e-6)


def test_outputs_without_hidden_states_are_refused(outputs):
    one = outputs([[0.5]])
    with pytest.raises(ValueError, match="without hidden states"):
        rmu.loss(one, one, one, hidden_layer=1)
