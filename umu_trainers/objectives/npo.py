"""Negative preference optimization (NPO)."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from umu_trainers.objectives._terms import check_positive, retain_term
from umu_trainers.outputs import Outputs


def loss(
    forget: Outputs,
    forget_reference: Outputs,
    retain: Outputs | None = None,
    *,
    gamma: float = 0.0,
    npo_beta: float = 0.1,
    published_form: bool = False,
) -> Tensor:
    """Push each forget answer below the probability the reference model gives it.

    `(2 / npo_beta) * mean log(1 + (p / p_reference) ** npo_beta) + gamma * NLL(retain)`, p of a whole answer. Its
    gradient is gradient ascent's, times a weight in (0, 2) that falls as the answer gets less likely.

    Args:
        forget: outputs on the forget batch, with gradient; `logps` is (batch,), nats, summed over answer tokens.
        forget_reference: the same batch under the frozen reference model.
        retain: outputs on a retain batch of as many rows, with gradient; run only where gamma is above 0.
        gamma: weight of the retain term, >= 0, no unit.
        npo_beta: inverse temperature, > 0, no unit. Near 0 the gradient tends to gradient ascent's.
        published_form: take the log-ratio of the batch's mean negative log-likelihoods instead of each answer's summed
            log-probabilities, as the published script; with its `label_scope` and `nll_average`.

    Returns:
        () mean over the batch; (2 / npo_beta) * ln 2 where both models agree (gamma 0).

    Raises:
        ValueError: npo_beta is not positive, or gamma is negative.

    Source: Zhang et al. 2024, arXiv:2404.05868. Published script: unlearn/NPO.py:236-237.
    Differs: from the published script, which takes the batch mean before the sigmoid (preset `published/umu/npo`).
    """
    check_positive("npo_beta", npo_beta)
    # (batch,) nats; () in the published form
    log_ratio = forget_reference.nll - forget.nll if published_form else forget.logps - forget_reference.logps
    return -2 / npo_beta * F.logsigmoid(-npo_beta * log_ratio).mean() + retain_term(retain, gamma)
