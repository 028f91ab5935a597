"""Gradient difference (GD)."""

from __future__ import annotations

from torch import Tensor

from umu_trainers.outputs import Outputs


def loss(forget: Outputs, retain: Outputs, *, gamma: float = 1.0) -> Tensor:
    """Ascend on the forget answers while descending on retain answers: `-NLL(forget) + gamma * NLL(retain)`.

    Args:
        forget: outputs on the forget batch, with gradient.
        retain: outputs on a retain batch of as many rows, with gradient.
        gamma: weight of the retain term, >= 0, no unit.

    Returns:
        () nats per answer token, each term a mean over its rows.

    Raises:
        ValueError: gamma is negative.

    Source: Liu et al. 2022, arXiv:2203.12817; Maini et al. 2024 (TOFU), arXiv:2401.06121.
    Differs: both terms in one step and labels on the answer only; MLLMU-Bench's script runs a whole forget pass and
    then a whole retain pass.
    """
    if gamma < 0:
        raise ValueError(f"--gamma {gamma}: the weight of the retain term must be 0 or more.")
    return gamma * retain.nll - forget.nll
