"""Direct preference optimization (DPO) of a refusal over the forget answer."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from umu_trainers.objectives._terms import check_positive, retain_term
from umu_trainers.outputs import Outputs


def loss(
    forget: Outputs,
    refusal: Outputs,
    forget_reference: Outputs,
    refusal_reference: Outputs,
    retain: Outputs | None = None,
    *,
    gamma: float = 1.0,
    dpo_beta: float = 0.1,
) -> Tensor:
    """Prefer a refusal to the forget answer: `-logsigmoid(dpo_beta * (refusal's - forget answer's log-ratio))`.

    A log-ratio is an answer's log-probability under the model minus that under the reference.

    Args:
        forget: outputs on the forget batch (the answer to avoid), with gradient; `logps` is (batch,), nats, summed.
        refusal: outputs on the same questions, each followed by a refusal (the answer to prefer), with gradient.
        forget_reference: the forget batch under the frozen reference model.
        refusal_reference: the refusal batch under the reference model.
        retain: outputs on a retain batch of as many rows, with gradient; run only where gamma is above 0.
        gamma: weight of the retain term, >= 0, no unit.
        dpo_beta: inverse temperature, > 0, no unit.

    Returns:
        () mean over the batch, plus the retain term; ln 2 where both models agree (gamma 0).

    Raises:
        ValueError: dpo_beta is not positive, or gamma is negative.

    Source: Rafailov et al. 2023, arXiv:2305.18290; as an unlearning baseline Zhang et al. 2024, arXiv:2404.05868.
    Differs: code for unlearning often multiplies by 2 / dpo_beta, as NPO does. Alone that changes nothing under Adam;
    beside a retain term, its gamma of 1 is dpo_beta / 2 here.
    """
    check_positive("dpo_beta", dpo_beta)
    preferred = refusal.logps - refusal_reference.logps  # (batch,) nats
    avoided = forget.logps - forget_reference.logps  # (batch,) nats
    return -F.logsigmoid(dpo_beta * (preferred - avoided)).mean() + retain_term(retain, gamma)
