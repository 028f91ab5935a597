"""Representation misdirection for unlearning (RMU)."""

from __future__ import annotations

import torch
from torch import Tensor

from umu_trainers.objectives._terms import check_gamma
from umu_trainers.outputs import Outputs


def loss(
    forget: Outputs,
    retain: Outputs,
    retain_reference: Outputs,
    *,
    hidden_layer: int,
    gamma: float = 100.0,
    steering: float = 20.0,
    direction_seed: int = 0,
) -> Tensor:
    """Steer a layer's activations on forget rows to a random direction, hold them on retain rows.

    `|h(forget) - steering * u|^2 + gamma * |h(retain) - h_reference(retain)|^2`, u a fixed random unit vector, squares
    averaged over the hidden dimensions, then like all our losses over answer tokens and rows. Layers above
    `hidden_layer` get no gradient.

    Args:
        forget: outputs on the forget batch, with gradient, with `hidden_states`.
        retain: outputs on a retain batch of as many rows, with gradient, with `hidden_states`.
        retain_reference: the same retain batch under the frozen reference model, with `hidden_states`.
        hidden_layer: decoder layer whose activations are steered, from 1. The authors steer the 8th of 32 (7 from 0).
        gamma: weight of the retain term, >= 0, no unit (the paper's alpha, 1200 for Zephyr-7B).
        steering: length of the vector that activations are steered to, in units of the activations (the paper's c;
            6.5 for Zephyr-7B).
        direction_seed: seed of the random direction; the same on all processes and in all steps.

    Returns:
        () squared activation units, each term a mean over its rows.

    Raises:
        ValueError: gamma is negative.

    Source: Li et al. 2024 (WMDP), arXiv:2403.03218.
    Differs: activations where answer tokens are predicted, not at all text tokens; which weights are trained is the
    trainer's setting, not the method's.
    """
    check_gamma(gamma)
    states = _states(forget)  # (answer tokens, hidden)
    target = steering * direction(states.shape[-1], direction_seed).to(states.device)
    steered = (states - target).square().mean(-1)  # (answer tokens,)
    held = (_states(retain) - _states(retain_reference)).square().mean(-1)
    return forget.mean(steered) + gamma * retain.mean(held)


def direction(size: int, seed: int) -> Tensor:
    """Return a random unit vector (size,) with entries of 0 or more, the same for the same seed on every machine."""
    vector = torch.rand(size, generator=torch.Generator().manual_seed(seed))
    return vector / vector.norm()


def _states(outputs: Outputs) -> Tensor:
    if outputs.hidden_states is None:
        raise ValueError("rmu: the pass came without hidden states; run it with hidden_layer.")
    return outputs.hidden_states[outputs.answered].float()
