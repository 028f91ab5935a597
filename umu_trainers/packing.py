"""A person's questions in one sequence: the image once, every question with its answer behind it.

    tokens      <s> USER: <image> … <image> | \n question 1 ASSISTANT: answer 1 </s> | \n question 2 … </s> |
    positions   0   1     2           577   | 578 …                                  | 578 …                |
    attends to  what stands before          | the shared part and question 1         | the shared part and question 2

In LLaVA-1.5's rows 576 of about 640 tokens are the image, and it stands before the question: up to there the rows of a
person are the same tokens. Exact: each row's logits are those it has alone, the same sums in another order. A row
without an image is a sequence of its own; `layout.py` puts all of a step into one pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from umu_tasks.backend.probe import image_token_id
from umu_tasks.backend.prompting import PromptBuilder
from umu_tasks.backend.shared_prefix import FAMILIES, can_share_prefix
from umu_trainers.data import Row
from umu_trainers.encoding import Tokens
from umu_trainers.layout import LINE, SHARED, Packed, PackedRows, fill, invert
from umu_trainers.outputs import IGNORED


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


class Packer:
    """Puts the rows of a batch that show the same image into one sequence.

    Args:
        image_token: id of the token that stands for (a piece of) an image.
        pad_token_id: what sequences are filled up with.
        attention: the model's attention code.
        window: how many tokens of its row a token sees, itself included; None for all before it.
    """

    def __init__(self, image_token: int, pad_token_id: int, attention: str, window: int | None = None) -> None:
        self.image_token = image_token
        self.pad_token_id = pad_token_id
        self.attention = attention
        self.window = window

    def shared(self, tokens: Tokens) -> int:
        """Return how many tokens there are up to the image's last one; 0 without an image."""
        places = (tokens.inputs["input_ids"] == self.image_token).nonzero()
        return int(places[-1]) + 1 if len(places) else 0

    def groups(self, rows: Sequence[Row], tokens: Sequence[Tokens]) -> list[list[int]]:
        """Return the places of the rows that go into each sequence: those of one person that begin alike.

        Each row without an image has one of its own.
        """
        found: dict[Any, list[int]] = {}
        for place, (row, own) in enumerate(zip(rows, tokens, strict=True)):
            if not row.has_image:
                found[place] = [place]
                continue
            beginning = own.inputs["input_ids"][: self.shared(own)].numpy().tobytes()
            found.setdefault((row.person, beginning), []).append(place)
        return list(found.values())

    def batch(self, tokens: Sequence[Tokens], groups: Sequence[Sequence[int]]) -> dict[str, Any]:
        """Return the batch of rows without image inputs.

        Returns:
            `packed` (`PackedRows`), and `labels` (rows, most labels): the answer tokens of each row, in the order of
            the rows, -100 behind its last.
        """
        sequences = [pack([tokens[place] for place in own], self.shared(tokens[own[0]])) for own in groups]
        order = [place for own in groups for place in own]
        labels = [own for one in sequences for own in one.labels]
        return {
            "packed": PackedRows(sequences, order, self.pad_token_id, self.attention, self.window),
            "labels": fill([labels[place] for place in invert(order)], IGNORED),
        }


def make_packer(model: Any, builder: PromptBuilder) -> Packer:
    """Return the packer of a model that is about to be trained.

    Raises:
        ValueError: a family whose images do not stand in one causal sequence with plain positions, or attention code
            that takes no mask of our own.
    """
    config, processor = model.config, builder.processor
    text = config.get_text_config()
    token = image_token_id(config, processor)
    if token is None or not can_share_prefix(config, processor):
        raise ValueError(
            f"--pack_by_profile: model type {config.model_type!r} can't be packed; it is for causal models with plain "
            f"positions and full attention, of: {', '.join(FAMILIES)}. Leave it off."
        )
    attention = text._attn_implementation
    if attention not in LINE:
        raise ValueError(
            f"--pack_by_profile with attn_implementation {attention}: a mask of our own is needed, which only "
            f"{' and '.join(LINE)} take. Choose one of these, or leave pack_by_profile off."
        )
    # Mistral's layers see a window of their row; families that say so layer by layer were refused above.
    window = None if getattr(text, "layer_types", None) else getattr(text, "sliding_window", None)
    return Packer(token, builder.pad_token_id, attention, window)
