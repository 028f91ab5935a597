"""Preference optimization towards refusals (PO), also called IDK tuning."""

from __future__ import annotations

from torch import Tensor

from umu_trainers.objectives._terms import retain_term
from umu_trainers.outputs import Outputs


def loss(refusal: Outputs, retain: Outputs | None = None, *, gamma: float = 1.0) -> Tensor:
    """Teach refusals as the answers to forget questions: `NLL(refusal) + gamma * NLL(retain)`.

    Args:
        refusal: outputs on the forget questions, each followed by a refusal drawn anew each epoch, with gradient.
        retain: outputs on a retain batch of as many rows, with gradient; run only where gamma is above 0.
        gamma: weight of the retain term, >= 0, no unit.

    Returns:
        () nats per answer token, each term a mean over its rows.

    Raises:
        ValueError: gamma is negative.

    Source: Maini et al. 2024 (TOFU), arXiv:2401.06121.
    Differs: the refusals are our own (`umu_trainers/refusals.txt`).
    """
    return refusal.nll + retain_term(retain, gamma)
