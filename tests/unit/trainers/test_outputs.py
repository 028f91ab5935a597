from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from umu_trainers.outputs import IGNORED, Outputs

LN2 = math.log(2)


def test_hand_worked_row():
    """Answer tokens at probability 1/2 and 1/8 and one prompt column: 4 ln 2 nats in all, 2 ln 2 a token."""
    logits = torch.log(torch.tensor([[[0.1, 0.9], [0.5, 0.5], [0.875, 0.125]]]))
    found = Outputs.from_logits(logits, torch.tensor([[IGNORED, 0, 1]]))
    torch.testing.assert_close(found.logps, torch.tensor([-4 * LN2]))
    torch.testing.assert_close(found.token_logps, torch.tensor([[0.0, -LN2, -3 * LN2]]))
    assert found.answer_tokens.tolist() == [2]
    assert found.nll.item() == pytest.approx(2 * LN2)


@given(st.integers(0, 2**31 - 1), st.integers(1, 4), st.integers(1, 5))
def test_a_row_does_not_depend_on_its_batch_mates(seed, batch, kept):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(batch, kept, 6, generator=generator)
    labels = torch.randint(6, (batch, kept), generator=generator)
    labels[:, 1:][torch.rand(batch, kept - 1, generator=generator) < 0.4] = IGNORED
    together = Outputs.from_logits(logits, labels)
    for row in range(batch):
        alone = Outputs.from_logits(logits[row : row + 1], labels[row : row + 1])
        torch.testing.assert_close(alone.logps[0], together.logps[row])
        torch.testing.assert_close(alone.nll, together.row_nll[row])
    torch.testing.assert_close(together.nll, together.row_nll.mean())


def test_ignored_columns_carry_no_gradient():
    logits = torch.randn(2, 3, 4, requires_grad=True)
    labels = torch.tensor([[1, IGNORED, 2], [IGNORED, IGNORED, 3]])
    Outputs.from_logits(logits, labels).nll.backward()
    assert logits.grad is not None
    assert bool((logits.grad[labels == IGNORED] == 0).all())
    assert bool((logits.grad[labels != IGNORED] != 0).any(dim=-1).all())


def test_half_precision_logits_are_scored_in_single():
    logits = torch.randn(1, 2, 1000)
    labels = torch.tensor([[3, 4]])
    half = Outputs.from_logits(logits.bfloat16(), labels)
    assert half.logps.dtype == torch.float32
    torch.testing.assert_close(half.logps, Outputs.from_logits(logits.bfloat16().float(), labels).logps)
