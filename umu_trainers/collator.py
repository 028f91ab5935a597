"""Batches: one set of padded tensors for each role and half, with labels on the answer only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor

from umu_tasks.backend.prompting import pad_rows
from umu_trainers.config import Half
from umu_trainers.data import Row
from umu_trainers.encoding import RowEncoder, Tokens
from umu_trainers.image_inputs import concatenate
from umu_trainers.outputs import IGNORED
from umu_trainers.packing import Packer
from umu_trainers.plan import Item
from umu_trainers.stored import STORED, StoredReference

Batch = dict[str, Any]


class Collator:
    """Turns the items of a batch into the batches of its passes.

    Every batch has every pass, `{role}_{half}`, of the roles that its items name (of all roles where they are empty).
    Where a batch has no row for one, `fillers` gives a stand-in that counts for nothing: all processes run the same
    passes in the same order. Under ZeRO-3 a process with images and one without would otherwise wait for each other for
    ever.

    Args:
        encoder: encodes the rows.
        fillers: `{role}_{half}` -> any row of that kind; its keys say which passes there are.
        keep_empty: give a pass without rows its stand-in; False leaves the pass out, which one process alone may do.
        packer: given, rows that show the same image share one sequence.

    Returns when called:
        pass name -> batch of that pass (see `rows_batch`), and `counts`: half -> () number of `rows` of the half that
        is trained on, and of their answer `tokens`, stand-ins left out. Rows that belong together, such as a forget row
        and the retain row beside it, count once. `present` (passes,): number of rows of each pass of `fillers`.
    """

    def __init__(
        self,
        encoder: RowEncoder,
        fillers: Mapping[str, Row],
        *,
        keep_empty: bool = True,
        packer: Packer | None = None,
    ) -> None:
        self.encoder = encoder
        self.packer = packer
        self.keep_empty = keep_empty
        self.fillers = dict(fillers)
        self.stored: StoredReference | None = None  # set once training begins, if it is used

    def __call__(self, items: Sequence[Item]) -> Batch:
        named = {role_of(name) for item in items for name in item}
        present = []
        batch: Batch = {"counts": {half: _count(0, 0) for half in dict.fromkeys(map(half_of, self.fillers))}}
        for name, filler in self.fillers.items():
            rows = [row for item in items if (row := item.get(name)) is not None]
            present.append(len(rows))
            if named and role_of(name) not in named:
                continue
            if rows or self.keep_empty:
                batch[name] = self.rows_batch(rows or [filler])
                if self.stored is not None and role_of(name) in self.stored.roles:
                    batch[name][STORED] = self.stored.token_logps(rows or [filler], batch[name]["labels"])
            counted = batch["counts"][half_of(name)]
            if rows and not counted["rows"]:
                counted.update(_count(len(rows), int((batch[name]["labels"] != IGNORED).sum())))
        batch["present"] = torch.tensor(present)
        return batch

    def rows_batch(self, rows: Sequence[Row]) -> Batch:
        """Return the batch of one pass over `rows`, all with or all without an image.

        Returns:
            `inputs`: what the model takes, right-padded (batch, seq_len); `keep` (kept,): columns whose logits
            predict an answer token of any row (all columns with label_scope `published`); `labels` (batch, kept): the
            token each predicts, -100 outside the row's answer; with images `image_keys`. Of packed rows, what
            `Packer.batch` says; `inputs` are then those of images.
        """
        tokens = [self.encoder.tokens(row) for row in rows]
        shown = [row for row in rows if row.has_image]
        if self.packer is not None:
            groups = self.packer.groups(rows, tokens)
            batch = self.packer.batch(tokens, groups)
            shown = [rows[own[0]] for own in groups if rows[own[0]].has_image]
        else:
            batch = self._padded(tokens)
        if shown:
            batch.setdefault("inputs", {}).update(concatenate([self.encoder.image_inputs(row) for row in shown]))
            batch["image_keys"] = [self.encoder.image_key(row) for row in shown]
        return batch

    def _padded(self, tokens: Sequence[Tokens]) -> Batch:
        """Return the batch of rows one beside the other, without image inputs."""
        padded = pad_rows(
            [{**one.inputs, "attention_mask": torch.ones_like(one.inputs["input_ids"])} for one in tokens],
            self.encoder.builder.pad_token_id,
            padding_side="right",
        )
        longest = padded["input_ids"].shape[1]
        # Column j predicts token j + 1; the last column predicts none.
        predicted = torch.full((len(tokens), longest), IGNORED)  # (batch, seq_len)
        for labels, one in zip(predicted, tokens, strict=True):
            labels[: one.length - 1] = one.labels[1:]
        keep = torch.arange(longest)
        if self.encoder.label_scope != "published":
            keep = keep[(predicted != IGNORED).any(dim=0)]
        return {"inputs": padded, "keep": keep, "labels": predicted[:, keep]}


def role_of(name: str) -> str:
    """Return the role in a pass name `{role}_{half}`."""
    return name.rpartition("_")[0]


def half_of(name: str) -> Half:
    """Return the half in a pass name `{role}_{half}`."""
    return cast(Half, name.rpartition("_")[2])


def _count(rows: int, tokens: int) -> dict[str, Tensor]:
    return {"rows": torch.tensor(rows), "tokens": torch.tensor(tokens)}


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
