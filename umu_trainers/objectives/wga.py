"""Weighted gradient ascent (WGA)."""

from __future__ import annotations

from torch import Tensor

from umu_trainers.objectives._terms import retain_term
from umu_trainers.outputs import Outputs


def loss(forget: Outputs, retain: Outputs | None = None, *, gamma: float = 1.0, wga_alpha: float = 1.0) -> Tensor:
    """Gradient ascent whose tokens count the less, the less likely they are: `mean(p ** wga_alpha * log p)`.

    The weight `p ** wga_alpha` is a constant to the gradient. It takes away what makes gradient ascent run off: tokens
    that are forgotten already have the largest gradients.

    Args:
        forget: outputs on the forget batch, with gradient.
        retain: outputs on a retain batch of as many rows, with gradient; run only where gamma is above 0.
        gamma: weight of the retain term, >= 0, no unit.
        wga_alpha: power of the token's probability, >= 0, no unit. 0 is gradient ascent.

    Returns:
        () nats per answer token: the weighted mean over rows, plus gamma * NLL(retain).

    Raises:
        ValueError: wga_alpha or gamma is negative.

    Source: Wang et al. 2025, arXiv:2502.19301.
    Differs: each row's own token mean before the mean over rows; the usual code takes all tokens of a batch alike
    (`nll_average: tokens`).
    """
    if wga_alpha < 0:
        raise ValueError(f"method_kwargs: wga_alpha {wga_alpha}: a number of 0 or more is expected.")
    logps = forget.token_logps[forget.answered]  # (answer tokens,)
    weight = (wga_alpha * logps.detach()).exp()
    return forget.mean(weight * logps) + retain_term(retain, gamma)
