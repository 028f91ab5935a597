"""Simple negative preference optimization (SimNPO)."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from umu_trainers.objectives._terms import check_positive, retain_term
from umu_trainers.outputs import Outputs


def loss(
    forget: Outputs,
    retain: Outputs | None = None,
    *,
    gamma: float = 1.0,
    simnpo_beta: float = 2.5,
    margin: float = 0.0,
) -> Tensor:
    """Push each forget answer's probability per token down, without a reference model.

    `-(2 / simnpo_beta) * mean logsigmoid(simnpo_beta * nll - margin) + gamma * NLL(retain)`, nll of each answer per
    token: dividing by the length keeps long answers from taking over, which NPO's summed log-probabilities let happen.

    Args:
        forget: outputs on the forget batch, with gradient; `row_nll` is (batch,), nats per answer token.
        retain: outputs on a retain batch of as many rows, with gradient; run only where gamma is above 0.
        gamma: weight of the retain term, >= 0, no unit. (The paper calls the margin gamma.)
        simnpo_beta: inverse temperature, > 0, tokens per nat.
        margin: how far, in units of simnpo_beta * nll, answers are to be pushed further, >= 0. As in the paper; the
            authors' code multiplies it by beta.

    Returns:
        () mean over the batch, plus the retain term.

    Raises:
        ValueError: simnpo_beta is not positive, or gamma is negative.

    Source: Fan et al. 2024, arXiv:2410.07163 (their code on TOFU forget 5 %: beta 2.5, margin 0, first term times
    0.1375).
    """
    check_positive("simnpo_beta", simnpo_beta)
    pushed = F.logsigmoid(simnpo_beta * forget.row_nll - margin)  # (batch,)
    return -2 / simnpo_beta * pushed.mean() + retain_term(retain, gamma)
