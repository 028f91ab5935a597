"""Gradient ascent (GA)."""

from __future__ import annotations

from torch import Tensor

from umu_trainers.outputs import Outputs


def loss(forget: Outputs) -> Tensor:
    """Raise the negative log-likelihood of the forget answers: `-NLL(forget)`.

    Unbounded below: nothing stops it from destroying the model. Few steps, a small rate, `max_forget_loss`.

    Args:
        forget: outputs on the forget batch, with gradient.

    Returns:
        () minus the mean over rows of the negative log-likelihood per answer token, nats.

    Source: Jang et al. 2023, arXiv:2210.01504; Yao et al. 2023, arXiv:2310.10683.
    Differs: labels on the answer only; UMU-Bench's published script ascends on the question and the image positions
    too.
    """
    return -forget.nll
