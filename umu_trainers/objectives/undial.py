"""Unlearning by self-distillation on adjusted logits (UNDIAL)."""

from __future__ import annotations

import torch
from torch import Tensor

from umu_trainers.objectives._terms import retain_term
from umu_trainers.outputs import IGNORED, Outputs


def loss(
    forget: Outputs,
    forget_reference: Outputs,
    retain: Outputs | None = None,
    *,
    gamma: float = 0.0,
    strength: float = 10.0,
) -> Tensor:
    """Distil the reference model with the logit of each memorized token taken down by `strength`.

    `mean over tokens of H(softmax(z_reference - strength * onehot(token)), softmax(z))`, H the cross-entropy. The
    target distribution is fixed, so that the loss is bounded below and training converges.

    Args:
        forget: outputs on the forget batch, with gradient.
        forget_reference: the same batch under the frozen reference model.
        retain: outputs on a retain batch of as many rows, with gradient; run only where gamma is above 0.
        gamma: weight of the retain term, >= 0, no unit.
        strength: how far the answer token's logit is taken down, >= 0, in logits.

    Returns:
        () nats per answer token; the entropy of the reference where both models agree and strength is 0.

    Raises:
        ValueError: strength or gamma is negative.

    Source: Dong et al. 2024, arXiv:2402.10052 (strength 3, 10 or 30; no retain term).
    """
    if strength < 0:
        raise ValueError(f"method_kwargs: strength {strength}: a number of 0 or more is expected.")
    tokens = forget.labels[forget.labels != IGNORED].unsqueeze(-1)  # (answer tokens, 1)
    target = forget_reference.answer_logits.detach()  # (answer tokens, vocab)
    target = target.scatter_add(-1, tokens, torch.full_like(tokens, -strength, dtype=target.dtype)).softmax(-1)
    per_token = -(target * forget.answer_logits.log_softmax(-1)).sum(-1)  # (answer tokens,)
    return forget.mean(per_token) + retain_term(retain, gamma)
