"""Gradient difference (GD)."""

from __future__ import annotations

from torch import Tensor

from umu_trainers.objectives._terms import retain_term
from umu_trainers.outputs import Outputs


def loss(forget: Outputs | None = None, retain: Outputs | None = None, *, gamma: float = 1.0) -> Tensor:
    """Ascend on the forget answers while descending on retain answers: `-NLL(forget) + gamma * NLL(retain)`.

    With `phases: sequential` it is called with one of the two passes at a time.

    Args:
        forget: outputs on the forget batch, with gradient; None in a step that has retain rows only.
        retain: outputs on a retain batch of as many rows, with gradient; None in a step that has forget rows only.
        gamma: weight of the retain term, >= 0, no unit. 0 leaves the retain pass out.

    Returns:
        () nats per answer token, each term a mean over its rows.

    Raises:
        ValueError: gamma is negative.

    Source: Liu et al. 2022, arXiv:2203.12817; Maini et al. 2024 (TOFU), arXiv:2401.06121.
    Differs: both terms in one step and labels on the answer only; MLLMU-Bench's script runs a whole forget pass and
    then a whole retain pass (preset `published/mllmu/gd`).
    """
    term = retain_term(retain, gamma)
    return term if forget is None else term - forget.nll
