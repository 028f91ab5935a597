"""Gradient ascent held by a Kullback-Leibler divergence on retain rows (KL)."""

from __future__ import annotations

import torch
from torch import Tensor

from umu_trainers.objectives._terms import check_gamma
from umu_trainers.outputs import Outputs

DIRECTIONS = ("forward", "reverse")


def loss(
    forget: Outputs,
    retain: Outputs,
    retain_reference: Outputs,
    *,
    gamma: float = 1.0,
    direction: str = "forward",
    retain_nll: float = 0.0,
    published_form: bool = False,
) -> Tensor:
    """Ascend on forget answers, stay near the reference on retain answers: `-NLL(forget) + gamma * KL(retain)`.

    Args:
        forget: outputs on the forget batch, with gradient.
        retain: outputs on a retain batch of as many rows, with gradient.
        retain_reference: the same retain batch under the frozen reference model.
        gamma: weight of the retain term, >= 0, no unit.
        direction: `forward`, KL(reference || current), or `reverse`, KL(current || reference).
        retain_nll: weight of the retain answers' negative log-likelihood, added to the divergence. 1: MLLMU-Bench's
            script.
        published_form: `-gamma * NLL(forget) - mean(sum(p_current * log(p_reference + 1e-12)))`, a cross-entropy over
            all columns at hand (with `label_scope: published` all positions, padding included), as UMU-Bench's script.
            It is neither 0 nor flat where the models agree.

    Returns:
        () nats per answer token, each term a mean over its rows.

    Raises:
        ValueError: gamma is negative, an unknown direction, or one beside published_form.

    Source: Yao et al. 2023, arXiv:2310.10683; Maini et al. 2024 (TOFU), arXiv:2401.06121.
    """
    check_gamma(gamma)
    if direction not in DIRECTIONS:
        raise ValueError(f"method_kwargs: direction {direction}: choose one of {', '.join(DIRECTIONS)}.")
    if published_form and direction != DIRECTIONS[0]:
        raise ValueError(f"method_kwargs: direction {direction}: published_form has one direction only. Leave it out.")
    if published_form:
        held = cross_entropy(retain.logits, retain_reference.logits) + retain_nll * retain.nll
        return held - gamma * forget.nll
    per_token = divergence(retain.answer_logits, retain_reference.answer_logits, direction)  # (answer tokens,)
    return gamma * (retain.mean(per_token) + retain_nll * retain.nll) - forget.nll


def divergence(current: Tensor, reference: Tensor, direction: str = "forward") -> Tensor:
    """Return KL divergences (tokens,), nats, of logits (tokens, vocab).

    Written so that value and gradient are exactly 0 where the logits are equal: the terms that cancel in the sum over
    the vocabulary are kept, and with them every summand and its derivative vanish alone.
    """
    current, reference = current.log_softmax(-1), reference.log_softmax(-1)
    change = current - reference  # (tokens, vocab)
    if direction == "forward":
        return (current.exp() - reference.exp() - reference.exp() * change).sum(-1)
    return (current.exp() * change - current.exp() + reference.exp()).sum(-1)


def cross_entropy(current: Tensor, reference: Tensor) -> Tensor:
    """Return UMU-Bench's published "KL" () of logits (batch, columns, vocab): the mean over all columns."""
    logs = torch.log(reference.float().softmax(-1) + 1e-12)
    return -(current.float().softmax(-1) * logs).sum(-1).mean()
