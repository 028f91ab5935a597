"""What one forward pass over one batch gives to an objective; the masking of prompt, image and padding lives here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

IGNORED = -100  # label of every position that is not an answer token: prompt, image, padding


@dataclass(frozen=True, slots=True)
class Outputs:
    """A model's outputs on one batch of question-answer rows, restricted to the columns that predict answer tokens.

    Attributes:
        logits: (batch, kept, vocab); column j predicts the token `labels[:, j]`.
        labels: (batch, kept) answer token ids (end token included), -100 where the row has no answer token.
        token_logps: (batch, kept) log-probability of each label, nats; 0 where the label is -100.
        logps: (batch,) log-probability of each whole answer, nats, summed over its tokens.
        answer_tokens: (batch,) number of answer tokens of each row.
        row_nll: (batch,) negative log-probability per answer token, nats, averaged over the row's own tokens.
    """

    logits: Tensor
    labels: Tensor
    token_logps: Tensor
    logps: Tensor
    answer_tokens: Tensor
    row_nll: Tensor

    @classmethod
    def from_logits(cls, logits: Tensor, labels: Tensor) -> Outputs:
        """Compute the log-probabilities from logits (batch, kept, vocab) and labels (batch, kept)."""
        answered = labels != IGNORED  # (batch, kept)
        # In float32: a bf16 log-sum-exp over a large vocabulary loses what unlearning changes.
        scored = -F.cross_entropy(logits[answered].float(), labels[answered], reduction="none")  # (answer tokens,)
        token_logps = torch.zeros_like(labels, dtype=scored.dtype).masked_scatter(answered, scored)  # (batch, kept)
        answer_tokens = answered.sum(dim=1)  # (batch,)
        logps = token_logps.sum(dim=1)  # (batch,)
        return cls(logits, labels, token_logps, logps, answer_tokens, row_nll=-logps / answer_tokens)

    @property
    def nll(self) -> Tensor:
        """() negative log-likelihood per answer token, nats: the mean over rows of each row's own token mean.

        Rows count alike whatever the length of their answers, so a row's share does not depend on its batch mates.
        """
        return self.row_nll.mean()


def run_pass(model: Callable[..., Any], batch: Mapping[str, Any]) -> Outputs:
    """Run `model` on one batch of the collator.

    Args:
        model: the (wrapped) model; called once.
        batch: `inputs` (what the model takes), `keep` (kept,) the columns that predict an answer token in any row, and
            `labels` (batch, kept) the tokens they should predict.
    """
    # The language head runs on the answer columns only: with 576 image tokens before the question that is most of it.
    logits = model(**batch["inputs"], logits_to_keep=batch["keep"], use_cache=False).logits  # (batch, kept, vocab)
    return Outputs.from_logits(logits, batch["labels"])
