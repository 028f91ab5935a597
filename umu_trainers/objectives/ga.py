"""Gradient ascent (GA)."""

from __future__ import annotations

from torch import Tensor

from umu_trainers.objectives._terms import retain_term
from umu_trainers.outputs import Outputs


def loss(forget: Outputs, retain: Outputs | None = None, *, gamma: float = 0.0) -> Tensor:
    """Raise the negative log-likelihood of the forget answers: `-NLL(forget) + gamma * NLL(retain)`.

    Unbounded below: nothing stops it from destroying the model. Few steps, a small rate, `max_forget_loss`.

    Args:
        forget: outputs on the forget batch, with gradient.
        retain: outputs on a retain batch of as many rows, with gradient; run only where gamma is above 0.
        gamma: weight of the retain term, >= 0, no unit. 0, the default, is gradient ascent proper.

    Returns:
        () minus the mean over rows of the negative log-likelihood per answer token, nats.

    Raises:
        ValueError: gamma is negative.

    Source: Jang et al. 2023, arXiv:2210.01504; Yao et al. 2023, arXiv:2310.10683.
    Differs: labels on the answer only; UMU-Bench's published script ascends on the question and the image positions
    too (preset `published/umu/ga`).
    """
    return retain_term(retain, gamma) - forget.nll
