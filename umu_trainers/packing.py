"""A person's questions in one sequence: the image once, every question with its answer behind it.

    tokens      <s> USER: <image> … <image> | \n question 1 ASSISTANT: answer 1 </s> | \n question 2 … </s> |
    positions   0   1     2           577   | 578 …                                  | 578 …                |
    attends to  what stands before          | the shared part and question 1         | the shared part and question 2

In LLaVA-1.5's rows 576 of about 640 tokens are the image, and it stands before the question: up to there the rows of a
person are the same tokens. Exact: each row's logits are those it has alone, the same sums in another order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from umu_tasks.backend.probe import image_token_id
from umu_tasks.backend.prompting import PER_TOKEN_PADDING, PromptBuilder
from umu_tasks.backend.shared_prefix import FAMILIES, can_share_prefix
from umu_trainers.data import Row
from umu_trainers.encoding import Tokens
from umu_trainers.outputs import IGNORED

SHARED = 0  # in `Packed.questions`: tokens that all questions see
PADDING = -1
# Attention code that takes a mask of our own, (batch, 1, seq_len, seq_len), and whether that mask is added to scores.
ATTENTION = {"sdpa": False, "eager": True}
MULTIPLE = 8  # sequences are filled up to a multiple: memory-efficient attention copies masks of other widths


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


def pack(rows: Sequence[Tokens], shared: int) -> Packed:
    """Return rows whose first `shared` tokens are equal as one sequence."""
    inputs = {name: [value[:shared]] for name, value in rows[0].inputs.items()}
    positions, questions = [torch.arange(shared)], [torch.full((shared,), SHARED)]
    columns, labels = [], []
    start = shared  # where the next row goes on
    for number, row in enumerate(rows, start=1):
        for name, value in row.inputs.items():
            inputs[name].append(value[shared:])
        positions.append(torch.arange(shared, row.length))
        questions.append(torch.full((row.length - shared,), number))
        own = (row.labels[1:] != IGNORED).nonzero().squeeze(1)  # column j predicts token j + 1
        columns.append(torch.where(own < shared, own, own - shared + start))
        labels.append(row.labels[own + 1])
        start += row.length - shared
    joined = {name: torch.cat(parts) for name, parts in inputs.items()}
    return Packed(joined, torch.cat(positions), torch.cat(questions), columns, labels)


def block_mask(questions: Tensor) -> Tensor:
    """Return (batch, 1, seq_len, seq_len): whether a token (third dimension) attends to another (last one).

    Args:
        questions: (batch, seq_len), see `Packed`; -1 is padding, which attends to something too: a row of scores
            without any would become NaN.
    """
    asks, told = questions.unsqueeze(2), questions.unsqueeze(1)
    order = torch.arange(questions.shape[1])
    before = order.unsqueeze(0) <= order.unsqueeze(1)  # (seq_len, seq_len)
    return (before & ((told == SHARED) | (told == asks))).unsqueeze(1)


def packed_batch(packed: Sequence[Packed], pad_token_id: int, *, is_added: bool) -> dict[str, Any]:
    """Return the batch of one pass over several sequences, without image inputs.

    Args:
        is_added: make a mask of numbers that are added to attention scores, instead of one of truth values.

    Returns:
        `inputs`: (sequences, seq_len) each, `attention_mask` (sequences, 1, seq_len, seq_len); `keep` (kept,): columns
        whose logits are needed in any sequence; `places` (rows, most labels): where among those of all sequences, one
        after the other, a row's are; `labels` (rows, most labels): what each predicts, -100 behind a row's last.
    """
    longest = max(one.length for one in packed)
    longest += -longest % MULTIPLE
    values = {"input_ids": pad_token_id, **PER_TOKEN_PADDING}
    inputs = {name: _filled([one.inputs[name] for one in packed], longest, values[name]) for name in packed[0].inputs}
    inputs["position_ids"] = _filled([one.positions for one in packed], longest, 0)
    seen = block_mask(_filled([one.questions for one in packed], longest, PADDING))
    inputs["attention_mask"] = torch.zeros(seen.shape).masked_fill(~seen, -1e9) if is_added else seen
    keep = torch.cat([columns for one in packed for columns in one.columns]).unique()  # sorted
    places = [
        number * len(keep) + torch.searchsorted(keep, columns)
        for number, one in enumerate(packed)
        for columns in one.columns
    ]
    labels = [own for one in packed for own in one.labels]
    most = max(map(len, labels))
    return {
        "inputs": inputs,
        "keep": keep,
        "places": _filled(places, most, 0),
        "labels": _filled(labels, most, IGNORED),
    }


def _filled(rows: Sequence[Tensor], length: int, value: int) -> Tensor:
    """Return (rows, length), each row filled up with `value` on the right."""
    filled = torch.full((len(rows), length), value, dtype=torch.long)
    for out, row in zip(filled, rows, strict=True):
        out[: len(row)] = row
    return filled


class Packer:
    """Puts the rows of a batch that show the same image into one sequence.

    Args:
        image_token: id of the token that stands for (a piece of) an image.
        pad_token_id: what sequences are filled up with.
        attention: the model's attention code.
    """

    def __init__(self, image_token: int, pad_token_id: int, attention: str) -> None:
        self.image_token = image_token
        self.pad_token_id = pad_token_id
        self.is_added = ATTENTION[attention]

    def shared(self, tokens: Tokens) -> int:
        """Return how many tokens there are up to the image's last one."""
        return int((tokens.inputs["input_ids"] == self.image_token).nonzero()[-1]) + 1

    def groups(self, rows: Sequence[Row], tokens: Sequence[Tokens]) -> list[list[int]]:
        """Return the places of the rows that go into each sequence: those of one person that begin alike."""
        found: dict[Any, list[int]] = {}
        for place, (row, own) in enumerate(zip(rows, tokens, strict=True)):
            beginning = own.inputs["input_ids"][: self.shared(own)].numpy().tobytes()
            found.setdefault((row.person, beginning), []).append(place)
        return list(found.values())

    def batch(self, tokens: Sequence[Tokens], groups: Sequence[Sequence[int]]) -> dict[str, Any]:
        """Return the batch of `packed_batch`, its `places` and `labels` in the order of the rows."""
        packed = [pack([tokens[place] for place in own], self.shared(tokens[own[0]])) for own in groups]
        batch = packed_batch(packed, self.pad_token_id, is_added=self.is_added)
        order = torch.tensor([place for own in groups for place in own]).argsort()
        return {**batch, "places": batch["places"][order], "labels": batch["labels"][order]}


def make_packer(model: Any, builder: PromptBuilder) -> Packer:
    """Return the packer of a model that is about to be trained.

    Raises:
        ValueError: a family whose images do not stand in one causal sequence with plain positions, or attention code
            that takes no mask of our own.
    """
    config, processor = model.config, builder.processor
    token = image_token_id(config, processor)
    if token is None or not can_share_prefix(config, processor):
        raise ValueError(
            f"--pack_by_profile: model type {config.model_type!r} can't be packed; it is for causal models with plain "
            f"positions and full attention, of: {', '.join(FAMILIES)}. Leave it off."
        )
    attention = config.get_text_config()._attn_implementation
    if attention not in ATTENTION:
        raise ValueError(
            f"--pack_by_profile with attn_implementation {attention}: a mask of our own is needed, which only "
            f"{' and '.join(ATTENTION)} take. Choose one of these, or leave pack_by_profile off."
        )
    return Packer(token, builder.pad_token_id, attention)
