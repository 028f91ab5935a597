"""What several objectives share: the optional retain term and checks of settings. No method itself (leading `_`)."""

from __future__ import annotations

import torch
from torch import Tensor

from umu_trainers.outputs import Outputs


def retain_term(retain: Outputs | None, gamma: float) -> Tensor:
    """Return `gamma * NLL(retain)` (), 0 without a retain pass.

    Raises:
        ValueError: gamma is negative.
    """
    check_gamma(gamma)
    return torch.zeros(()) if retain is None else gamma * retain.nll


def check_gamma(gamma: float) -> None:
    """Raise a ValueError if the weight of the retain term is negative."""
    if gamma < 0:
        raise ValueError(f"--gamma {gamma}: the weight of the retain term must be 0 or more.")


def check_positive(name: str, value: float) -> None:
    """Raise a ValueError if a setting that divides or scales is not above 0."""
    if not value > 0:
        raise ValueError(f"method_kwargs: {name} {value}: a number above 0 is expected.")
