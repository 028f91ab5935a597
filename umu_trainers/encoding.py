"""Rows as tensors: token ids once a row, portraits once a person."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from torch import Tensor
from tqdm import tqdm

from umu_tasks.backend.prompting import PER_TOKEN_PADDING, PromptBuilder
from umu_trainers.data import Row

ImageInputs = dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class Tokens:
    """Token inputs of one row.

    Attributes:
        inputs: `input_ids` and what else the model takes per token, (seq_len,); image tokens expanded, no padding.
        completion_start: index of the first answer token.
    """

    inputs: dict[str, Tensor]
    completion_start: int

    @property
    def length(self) -> int:
        return self.inputs["input_ids"].numel()


class RowEncoder:
    """Encodes rows with the checkpoint's processor and keeps what will be needed again.

    Token ids are kept for all rows. Image inputs are the same for all rows of a person and are kept for the people seen
    last, up to `cache_mb` MiB.
    """

    def __init__(self, builder: PromptBuilder, *, max_length: int | None = None, cache_mb: int = 512) -> None:
        self.builder = builder
        self.max_length = max_length
        self._tokens: dict[tuple[str, str, str, str], Tokens] = {}
        self._images: OrderedDict[tuple[str, str], ImageInputs] = OrderedDict()
        self._room = cache_mb * 2**20  # bytes left in the image cache

    def encode_all(self, rows: Iterable[Row], *, quiet: bool = False) -> int:
        """Encode rows ahead of training, so that one that cannot be used stops the run at its start.

        Returns:
            The length of the longest row, tokens.
        """
        return max(
            self.length(row) for row in tqdm(rows, desc="Encoding rows", unit=" rows", disable=quiet, leave=False)
        )

    def length(self, row: Row) -> int:
        """Return a row's number of tokens, image tokens and answer included."""
        return self.tokens(row).length

    def tokens(self, row: Row) -> Tokens:
        """Return a row's token inputs.

        Raises:
            ValueError: longer than `max_length`, or a prompt whose token ids change when the answer follows.
        """
        key = (*row.person, row.pair.modality, row.pair.key)
        if key not in self._tokens:
            self._tokens[key] = self._encode(row)[0]
        return self._tokens[key]

    def image_inputs(self, row: Row) -> ImageInputs:
        """Return the image inputs of a row, as its processor makes them for one row; empty without an image."""
        if not row.pair.has_image:
            return {}
        known = self._images.get(row.person)
        if known is None:
            return self._encode(row)[1]
        self._images.move_to_end(row.person)
        return known

    def _encode(self, row: Row) -> tuple[Tokens, ImageInputs]:
        pair = row.pair
        prompt = self.builder.training(pair.question, has_image=pair.has_image)
        completion = self.builder.completion(pair.question, pair.answer, has_image=pair.has_image)
        images = [row.profile.open_image()] if pair.has_image else []
        try:
            example = self.builder.encode_example(prompt, completion, images)
        except ValueError as error:
            raise ValueError(f"{row.name}: {error}") from error
        length = example.input_ids.numel()
        if self.max_length is not None and length > self.max_length:
            raise ValueError(
                f"{row.name}: {length} tokens, image tokens included, but max_length is {self.max_length}. Rows "
                f"are never cut: raise max_length to at least {length}, or leave it out."
            )
        # The attention mask of a row without padding says nothing; the collator makes the batch's.
        per_token = {
            name: value
            for name, value in example.inputs.items()
            if name in PER_TOKEN_PADDING and name != "attention_mask"
        }
        image_inputs = {name: value for name, value in example.inputs.items() if name not in PER_TOKEN_PADDING}
        if image_inputs:
            self._keep(row.person, image_inputs)
        return Tokens({"input_ids": example.input_ids, **per_token}, example.completion_start), image_inputs

    def _keep(self, person: tuple[str, str], inputs: ImageInputs) -> None:
        if person in self._images:
            return
        self._images[person] = inputs
        self._room -= _bytes(inputs)
        while self._room < 0 and len(self._images) > 1:
            self._room += _bytes(self._images.popitem(last=False)[1])


def _bytes(inputs: ImageInputs) -> int:
    return sum(value.numel() * value.element_size() for value in inputs.values())
