"""Batches: one set of padded tensors for each role and half, with labels on the answer only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from umu_tasks.backend.prompting import pad_rows
from umu_trainers.config import Half
from umu_trainers.data import Row
from umu_trainers.encoding import ImageInputs, RowEncoder
from umu_trainers.outputs import IGNORED
from umu_trainers.plan import Item

Batch = dict[str, Any]


class Collator:
    """Turns the items of a batch into the batches of its passes.

    Every batch has every pass, `{role}_{half}`. Where a batch has no row for one, `fillers` gives a stand-in that
    counts for
    nothing: all processes run the same passes in the same order. Under ZeRO-3 a process with images and one without
    would otherwise wait for each other for ever.

    Args:
        encoder: encodes the rows.
        fillers: `{role}_{half}` -> any row of that kind; its keys say which passes there are.
        keep_empty: give a pass without rows its stand-in; False leaves the pass out, which one process alone may do.

    Returns when called:
        pass name -> batch of that pass (see `rows_batch`), and `counts`: half -> () number of `rows` and of answer
        `tokens` of the first role, stand-ins left out.
    """

    def __init__(self, encoder: RowEncoder, fillers: Mapping[str, Row], *, keep_empty: bool = True) -> None:
        self.encoder = encoder
        self.keep_empty = keep_empty
        self.fillers = dict(fillers)
        self.role = next(iter(self.fillers)).rpartition("_")[0]

    def __call__(self, items: Sequence[Item]) -> Batch:
        batch: Batch = {"counts": {}}
        for name, filler in self.fillers.items():
            rows = [item[name] for item in items if name in item]
            if rows or self.keep_empty:
                batch[name] = self.rows_batch(rows or [filler])
            role, _, half = name.rpartition("_")
            if role == self.role:
                answer_tokens = int((batch[name]["labels"] != IGNORED).sum()) if rows else 0
                batch["counts"][half] = {"rows": torch.tensor(len(rows)), "tokens": torch.tensor(answer_tokens)}
        return batch

    def rows_batch(self, rows: Sequence[Row]) -> Batch:
        """Return the batch of one pass over `rows`, all with or all without an image.

        Returns:
            `inputs`: what the model takes, right-padded (batch, seq_len); `keep` (kept,): columns whose logits
            predict an answer token of any row; `labels` (batch, kept): the token each predicts, -100 outside the
            row's answer.
        """
        tokens = [self.encoder.tokens(row) for row in rows]
        padded = pad_rows(
            [{**one.inputs, "attention_mask": torch.ones_like(one.inputs["input_ids"])} for one in tokens],
            self.encoder.builder.pad_token_id,
            padding_side="right",
        )
        labels = torch.full_like(padded["input_ids"], IGNORED)  # (batch, seq_len)
        for label, one in zip(labels, tokens, strict=True):
            label[one.completion_start : one.length] = one.inputs["input_ids"][one.completion_start :]
        # Column j predicts token j + 1.
        keep = torch.arange(min(one.completion_start for one in tokens) - 1, labels.shape[1] - 1)
        images = concatenate([self.encoder.image_inputs(row) for row in rows])
        return {"inputs": {**padded, **images}, "keep": keep, "labels": labels[:, keep + 1]}


def concatenate(rows: Sequence[ImageInputs]) -> ImageInputs:
    """Join image inputs of rows along their first dimension, others padded with zeros to the largest."""
    return {name: _concatenate([row[name] for row in rows]) for name in rows[0]}


def _concatenate(values: Sequence[Tensor]) -> Tensor:
    largest = [max(sizes) for sizes in zip(*(value.shape[1:] for value in values), strict=True)]
    padded = []
    for value in values:
        missing = [large - size for large, size in zip(largest, value.shape[1:], strict=True)]
        padded.append(F.pad(value, [amount for one in reversed(missing) for amount in (0, one)]))
    return torch.cat(padded)


def fillers(sets: Mapping[str, Mapping[Half, Sequence[Row]] | None]) -> dict[str, Row]:
    """Return a stand-in row for each role and half, unimodal passes first.

    The multimodal ones come last because DDP, where it looks for unused parameters, goes by the last pass of a step.
    """
    return {
        f"{role}_{half}": rows[half][0]
        for half in ("uni", "mul")
        for role, rows in sets.items()
        if rows is not None and half in rows
    }
