"""Where packed rows lie in a pass: sequences behind one another, in as few lines as they need.

    line 1    person A's sequence | person B's sequence | a text row | a text row | padding
    line 2    person C's sequence | …

A token sees what stands before it in its own sequence, and there only its own question and what all questions share. So
the passes of both modalities and of all roles fit into one: a step of few questions is bound by the number of its
passes, not by their tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from umu_tasks.backend.prompting import PER_TOKEN_PADDING
from umu_trainers.image_inputs import concatenate

SHARED = 0  # in `Packed.questions`: tokens that all questions of the sequence see
PADDING = -1
# Attention code that takes a mask of our own, (lines, 1, length, length), and how many tokens a line holds: attention
# costs its square. `eager` also keeps a number for each pair of tokens and head.
LINE = {"sdpa": 4096, "eager": 1024}
MULTIPLE = 8  # lines are filled up to a multiple: memory-efficient attention copies masks of other widths


@dataclass(frozen=True, slots=True)
class Packed:
    """Rows that begin alike, as one sequence.

    Attributes:
        inputs: `input_ids` and what else the model takes per token, (seq_len,).
        positions: (seq_len,) position of each token in its own row.
        questions: (seq_len,) 0 for the shared tokens, i for those of the i-th row (from 1).
        columns: one a row, (labels,): the places in the sequence that predict its labels.
        labels: one a row, (labels,): the tokens they should predict.
    """

    inputs: dict[str, Tensor]
    positions: Tensor
    questions: Tensor
    columns: list[Tensor]
    labels: list[Tensor]

    @property
    def length(self) -> int:
        return self.positions.numel()


@dataclass(frozen=True, slots=True)
class PackedRows:
    """The rows of one batch. It stays in the CPU's memory until it is known what it shares a pass with.

    Attributes:
        sequences: the rows, in the order of their images.
        order: the place in the batch of each row of `sequences`.
        pad_token_id: what lines are filled up with.
        attention: the model's attention code, of `LINE`.
        window: how many tokens of its row a token sees, itself included; None for all before it.
    """

    sequences: list[Packed]
    order: list[int]
    pad_token_id: int
    attention: str
    window: int | None = None


@dataclass(frozen=True, slots=True)
class JointPass:
    """What one pass over several batches takes, and where in its outputs each batch's are.

    Attributes:
        inputs: what the model takes.
        keep: (kept,) columns whose logits are needed in any line.
        places: a batch each, (rows, most labels): where among the kept columns of all lines, one after the other, a
            row's are; 0 behind its last.
        image_keys: what identifies each image shown; None if none is.
    """

    inputs: dict[str, Tensor]
    keep: Tensor
    places: list[Tensor]
    image_keys: list[str] | None


def join(batches: Sequence[Mapping[str, Any]]) -> JointPass:
    """Return the pass over several batches of packed rows.

    Args:
        batches: each `packed` (`PackedRows`), `labels` (rows, most labels), and what there is of images: `inputs`,
            `image_keys`.
    """
    packed: list[PackedRows] = [batch["packed"] for batch in batches]
    sequences = [one for rows in packed for one in rows.sequences]
    device = batches[0]["labels"].device
    starts, width = lay_out([one.length for one in sequences], LINE[packed[0].attention])
    inputs, owners, questions = _lines(sequences, starts, width, packed[0].pad_token_id)
    on_device = torch.stack([*inputs.values(), owners, questions]).to(device)  # one transfer
    *values, owners, questions = on_device
    mask = block_mask(owners, questions)
    if packed[0].window is not None:
        mask &= near(values[list(inputs).index("position_ids")], packed[0].window)
    if packed[0].attention == "eager":
        mask = torch.zeros(mask.shape, device=device).masked_fill(~mask, -1e9)
    keep, places = _kept(sequences, starts, width)
    shown = [batch for batch in batches if batch.get("image_keys")]
    return JointPass(
        inputs={
            **dict(zip(inputs, values, strict=True)),
            "attention_mask": mask,
            **(concatenate([batch["inputs"] for batch in shown]) if shown else {}),
        },
        keep=keep.to(device),
        places=[own.to(device) for own in _by_batch(packed, places)],
        image_keys=[key for batch in shown for key in batch["image_keys"]] or None,
    )


def lay_out(lengths: Sequence[int], room: int) -> tuple[list[int], int]:
    """Return where each sequence starts when all lines stand one after the other, and the length of a line.

    In the given order, since images are told to their tokens by order; a line is full when the next does not fit.

    Args:
        lengths: tokens of each sequence.
        room: tokens a line holds; a longer sequence has a line of its own.
    """
    spots, line, used = [], 0, 0  # (line, place in it)
    for length in lengths:
        if used and used + length > room:
            line, used = line + 1, 0
        spots.append((line, used))
        used += length
    width = max(place + length for (_, place), length in zip(spots, lengths, strict=True))
    width += -width % MULTIPLE
    return [line * width + place for line, place in spots], width


def _lines(
    sequences: Sequence[Packed], starts: Sequence[int], width: int, pad_token_id: int
) -> tuple[dict[str, Tensor], Tensor, Tensor]:
    """Return what the model takes per token, whose sequence each token is of, and its question: (lines, width) each."""
    size = (starts[-1] // width + 1) * width
    fillers = {"input_ids": pad_token_id, **PER_TOKEN_PADDING}
    names = dict.fromkeys(name for one in sequences for name in one.inputs)
    inputs = {name: torch.full((size,), fillers[name]) for name in names}
    inputs["position_ids"] = torch.zeros(size, dtype=torch.long)
    owners, questions = torch.full((size,), PADDING), torch.full((size,), PADDING)
    for number, (one, start) in enumerate(zip(sequences, starts, strict=True)):
        own = slice(start, start + one.length)
        for name, value in one.inputs.items():
            inputs[name][own] = value
        inputs["position_ids"][own] = one.positions
        owners[own], questions[own] = number, one.questions
    lines = {name: value.view(-1, width) for name, value in inputs.items()}
    return lines, owners.view(-1, width), questions.view(-1, width)


def block_mask(owners: Tensor, questions: Tensor) -> Tensor:
    """Return (lines, 1, width, width): whether a token (third dimension) attends to another (last one).

    Args:
        owners: (lines, width) number of the sequence a token is of.
        questions: (lines, width), see `Packed`. Both are -1 in padding, which attends to something too: a row of scores
            without any would become NaN.
    """
    asks, told = questions.unsqueeze(2), questions.unsqueeze(1)
    order = torch.arange(questions.shape[1], device=questions.device)
    before = order.unsqueeze(0) <= order.unsqueeze(1)  # (width, width)
    same = owners.unsqueeze(2) == owners.unsqueeze(1)
    return (before & same & ((told == SHARED) | (told == asks))).unsqueeze(1)


def near(positions: Tensor, window: int) -> Tensor:
    """Return (lines, 1, width, width): whether a token is less than `window` places behind another one in its row.

    Args:
        positions: (lines, width) place of each token in its own row.
    """
    return (positions.unsqueeze(2) - positions.unsqueeze(1) < window).unsqueeze(1)


def _kept(sequences: Sequence[Packed], starts: Sequence[int], width: int) -> tuple[Tensor, list[Tensor]]:
    """Return the columns whose logits are needed in any line, and where among those of all lines each row's are."""
    tokens = [start + columns for one, start in zip(sequences, starts, strict=True) for columns in one.columns]
    keep = (torch.cat(tokens) % width).unique()  # sorted
    return keep, [own // width * len(keep) + torch.searchsorted(keep, own % width) for own in tokens]


def _by_batch(packed: Sequence[PackedRows], places: Sequence[Tensor]) -> list[Tensor]:
    """Return the rows' places as (rows, most labels) for each batch, its rows in its own order."""
    found, first = [], 0
    for rows in packed:
        own = places[first : first + len(rows.order)]
        first += len(rows.order)
        found.append(fill([own[place] for place in invert(rows.order)], 0))
    return found


def invert(order: Sequence[int]) -> list[int]:
    """Return where in `order` each number stands."""
    return sorted(range(len(order)), key=order.__getitem__)


def fill(rows: Sequence[Tensor], value: int) -> Tensor:
    """Return (rows, longest), each row filled up with `value` on the right."""
    return torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True, padding_value=value)
