"""What one forward pass over one batch gives to an objective; the masking of prompt, image and padding lives here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from umu_trainers.image_features import showing
from umu_trainers.layout import join

IGNORED = -100  # label of every position that is not an answer token: prompt, image, padding

Average = Literal["rows", "tokens"]
AVERAGES: tuple[Average, ...] = ("rows", "tokens")


@dataclass(frozen=True, slots=True)
class Outputs:
    """A model's outputs on one batch of question-answer rows, restricted to the columns that predict answer tokens.

    "Answer tokens" are those that `labels` names; with a wider `label_scope` these are more than the answer's.

    Attributes:
        logits: (batch, kept, vocab); column j predicts the token `labels[:, j]`.
        labels: (batch, kept) answer token ids (end token included), -100 where the row has no answer token.
        token_logps: (batch, kept) log-probability of each label, nats; 0 where the label is -100.
        logps: (batch,) log-probability of each whole answer, nats, summed over its tokens.
        answer_tokens: (batch,) number of answer tokens of each row.
        row_nll: (batch,) negative log-probability per answer token, nats, averaged over the row's own tokens.
        hidden_states: (batch, kept, hidden) activations that a layer passes on at the same columns; None unless the
            objective asks for them.
        average: how `mean` weighs tokens: `rows` alike (default) or all `tokens` of the batch alike (published).
    """

    logits: Tensor
    labels: Tensor
    token_logps: Tensor
    logps: Tensor
    answer_tokens: Tensor
    row_nll: Tensor
    hidden_states: Tensor | None = None
    average: Average = "rows"

    @classmethod
    def from_logits(
        cls, logits: Tensor, labels: Tensor, *, hidden_states: Tensor | None = None, average: Average = "rows"
    ) -> Outputs:
        """Compute the log-probabilities from logits (batch, kept, vocab) and labels (batch, kept)."""
        answered = labels != IGNORED  # (batch, kept)
        # In float32: a bf16 log-sum-exp over a large vocabulary loses what unlearning changes.
        scored = -F.cross_entropy(logits[answered].float(), labels[answered], reduction="none")  # (answer tokens,)
        token_logps = torch.zeros_like(labels, dtype=scored.dtype).masked_scatter(answered, scored)  # (batch, kept)
        answer_tokens = answered.sum(dim=1)  # (batch,)
        logps = token_logps.sum(dim=1)  # (batch,)
        row_nll = -logps / answer_tokens
        return cls(logits, labels, token_logps, logps, answer_tokens, row_nll, hidden_states, average)

    @property
    def nll(self) -> Tensor:
        """() negative log-likelihood per answer token, nats: see `mean`."""
        return self.row_nll.mean() if self.average == "rows" else -self.logps.sum() / self.answer_tokens.sum()

    @property
    def answered(self) -> Tensor:
        """(batch, kept) whether the column predicts an answer token."""
        return self.labels != IGNORED

    @property
    def answer_logits(self) -> Tensor:
        """(answer tokens, vocab) logits of the answer tokens of all rows, row after row, float32."""
        return self.logits[self.answered].float()

    def mean(self, values: Tensor) -> Tensor:
        """Return the mean () of values (answer tokens,), given row after row.

        Over `rows`: each row's own token mean, then the mean of these. Rows count alike whatever the length of their
        answers, so a row's share does not depend on its batch mates.
        """
        if self.average == "tokens":
            return values.mean()
        spread = torch.zeros_like(self.labels, dtype=values.dtype).masked_scatter(self.answered, values)
        return (spread.sum(dim=1) / self.answer_tokens).mean()


def concatenate(parts: Sequence[Outputs]) -> Outputs:
    """Return the outputs of several batches as those of one, their columns filled up to the longest.

    The columns added have the label -100 and zeros for logits and hidden states.
    """
    if len(parts) == 1:
        return parts[0]
    kept = max(one.labels.shape[1] for one in parts)

    def join(tensors: Sequence[Tensor], value: float = 0.0) -> Tensor:
        """Columns are the second dimension of all these."""
        padded = [F.pad(one, (0, 0) * (one.dim() - 2) + (0, kept - one.shape[1]), value=value) for one in tensors]
        return torch.cat(padded)

    states = [one.hidden_states for one in parts if one.hidden_states is not None]
    return Outputs(
        logits=join([one.logits for one in parts]),
        labels=join([one.labels for one in parts], IGNORED),
        token_logps=join([one.token_logps for one in parts]),
        logps=torch.cat([one.logps for one in parts]),
        answer_tokens=torch.cat([one.answer_tokens for one in parts]),
        row_nll=torch.cat([one.row_nll for one in parts]),
        hidden_states=join(states) if states else None,
        average=parts[0].average,
    )


def run_pass(
    model: Callable[..., Any], batch: Mapping[str, Any], *, hidden_layer: int | None = None, average: Average = "rows"
) -> Outputs:
    """Run `model` on one batch of the collator.

    Args:
        model: the (wrapped) model; called once.
        batch: `inputs` (what the model takes), `keep` (kept,) the columns that predict an answer token in any row, and
            `labels` (batch, kept) the tokens they should predict; `image_keys`, if there, say which images are shown.
            Or packed rows, see `run_joint`.
        hidden_layer: decoder layer, from 1, whose activations are wanted too.
        average: see `Outputs`.

    Raises:
        ValueError: the decoder has no such layer.
    """
    if "packed" in batch:
        return run_joint(model, [batch], hidden_layer=hidden_layer, average=average)[0]
    logits, states = _run(model, batch["inputs"], batch["keep"], batch.get("image_keys"), hidden_layer)
    return Outputs.from_logits(logits, batch["labels"], hidden_states=states, average=average)


def run_joint(
    model: Callable[..., Any],
    batches: Sequence[Mapping[str, Any]],
    *,
    hidden_layer: int | None = None,
    average: Average = "rows",
) -> list[Outputs]:
    """Run `model` once on several batches of packed rows; return the outputs of each.

    Args:
        batches: each `packed`, `labels` (rows, most labels) and, with images, `inputs` and `image_keys`.

    Others and errors: as `run_pass`.
    """
    joint = join(batches)
    logits, states = _run(model, joint.inputs, joint.keep, joint.image_keys, hidden_layer)
    return [
        Outputs.from_logits(
            _by_row(logits, places),
            batch["labels"],
            hidden_states=None if states is None else _by_row(states, places),
            average=average,
        )
        for batch, places in zip(batches, joint.places, strict=True)
    ]


def _run(
    model: Callable[..., Any],
    inputs: Mapping[str, Tensor],
    keep: Tensor,
    image_keys: Sequence[str] | None,
    hidden_layer: int | None,
) -> tuple[Tensor, Tensor | None]:
    """Return the logits (batch, kept, vocab) and a layer's activations (batch, kept, hidden) at the kept columns."""
    # The language head runs on the answer columns only: with 576 image tokens before the question that is most of it.
    wanted = {} if hidden_layer is None else {"output_hidden_states": True}
    with showing(image_keys):
        found = model(**inputs, logits_to_keep=keep, use_cache=False, **wanted)
    return found.logits, None if hidden_layer is None else _layer(found.hidden_states, hidden_layer)[:, keep]


def _by_row(values: Tensor, places: Tensor) -> Tensor:
    """Return values (lines, kept, n) of packed rows as (rows, labels, n)."""
    return values.flatten(0, 1).index_select(0, places.flatten()).unflatten(0, places.shape)


def _layer(hidden_states: Sequence[Tensor], layer: int) -> Tensor:
    """Return (batch, seq_len, hidden): what decoder layer `layer` passes on; entry 0 holds the embeddings."""
    if not 1 <= layer < len(hidden_states):
        raise ValueError(
            f"method_kwargs: hidden_layer {layer}: this model's decoder has layers 1 to {len(hidden_states) - 1}."
        )
    return hidden_states[layer]
