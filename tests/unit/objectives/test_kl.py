from __future__ import annotations

import math

import pytest
import torch

from umu_trainers.objectives import kl
from umu_trainers.outputs import IGNORED, Outputs

LN2 = math.log(2)


@pytest.mark.parametrize(
    ("direction", "expected"), [("forward", 0.5 * math.log(4 / 3)), ("reverse", 0.75 * math.log(1.5) - 0.25 * LN2)]
)
def test_hand_worked_divergence(outputs, direction, expected):
    """Reference (1/2, 4 x 1/8), current (1/4, 4 x 3/16)."""
    forget, retain, reference = outputs([[0.5]]), outputs([[0.25]]), outputs([[0.5]])
    value = kl.loss(forget, retain, reference, gamma=2.0, direction=direction)
    assert value.item() == pytest.approx(2 * expected - LN2, abs=1e-6)


def test_rows_count_alike(outputs):
    """Averaged over a row's answer tokens, then over rows: the long row of no divergence is half the batch."""
    retain, reference = outputs([[0.5, 0.5, 0.5], [0.25]]), outputs([[0.5, 0.5, 0.5], [0.5]])
    value = kl.loss(outputs([[0.5]]), retain, reference)
    assert value.item() == pytest.approx(0.25 * math.log(4 / 3) - LN2, abs=1e-6)


@pytest.mark.parametrize("direction", kl.DIRECTIONS)
def test_zero_with_zero_gradient_where_the_models_agree(direction):
    """The published cross-entropy pulls at a model that has not moved; a divergence must not, not even by rounding."""
    logits = 5 * torch.randn(3, 4, 50, generator=torch.Generator().manual_seed(1))
    labels = torch.randint(50, (3, 4), generator=torch.Generator().manual_seed(2))
    labels[1, 2:] = IGNORED
    retain = Outputs.from_logits(logits.clone().requires_grad_(), labels)
    reference = Outputs.from_logits(logits.clone(), labels)
    value = retain.mean(kl.divergence(retain.answer_logits, reference.answer_logits, direction))
    assert value.item() == 0.0
    (gradient,) = torch.autograd.grad(value, retain.logits)
    assert torch.equal(gradient, torch.zeros_like(gradient))


@pytest.mark.parametrize("direction", kl.DIRECTIONS)
def test_gradient_is_that_of_the_textbook_form(direction):
    generator = torch.Generator().manual_seed(3)
    current, reference = (torch.randn(6, 9, generator=generator, requires_grad=True) for _ in range(2))
    p, q = current.log_softmax(-1), reference.detach().log_softmax(-1)
    textbook = (q.exp() * (q - p) if direction == "forward" else p.exp() * (p - q)).sum(-1).mean()
    ours = kl.divergence(current, reference.detach(), direction).mean()
    torch.testing.assert_close(ours, textbook)
    torch.testing.assert_close(*(torch.autograd.grad(value, current)[0] for value in (ours, textbook)))


def test_padded_columns_do_not_enter(outputs):
    retain, reference = outputs([[0.25], [0.5, 0.5]]), outputs([[0.5], [0.5, 0.5]])
    before = kl.loss(outputs([[0.5]]), retain, reference)
    reference.logits.data[0, 1] = torch.tensor([9.0, 0, 0, 0, 0])
    torch.testing.assert_close(kl.loss(outputs([[0.5]]), retain, reference), before)


def test_retain_nll_is_added_to_the_divergence(outputs):
    """MLLMU-Bench's script: KL plus NLL on the retain rows."""
    same = outputs([[0.25]]), outputs([[0.25]])
    value = kl.loss(outputs([[0.5]]), *same, gamma=1.0, retain_nll=1.0)
    assert value.item() == pytest.approx(math.log(4) - LN2, abs=1e-6)


def test_unknown_direction_is_named(outputs):
    one = outputs([[0.5]])
    with pytest.raises(ValueError, match="direction sideways: choose one of forward, reverse"):
        kl.loss(one, one, one, direction="sideways")
