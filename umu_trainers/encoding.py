"""Rows as tensors: token ids once a row, portraits once a person."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from umu_tasks.backend.prompting import PER_TOKEN_PADDING, PromptBuilder
from umu_trainers.config import LabelScope
from umu_trainers.data import Row
from umu_trainers.image_inputs import ImageInputs
from umu_trainers.outputs import IGNORED


@dataclass(frozen=True, slots=True)
class Tokens:
    """Token inputs of one row.

    Attributes:
        inputs: `input_ids` and what else the model takes per token, (seq_len,); image tokens expanded, no padding.
        completion_start: index of the first answer token.
        labels: (seq_len,) the ids that count in the loss, -100 elsewhere; see `label_scope`.
    """

    inputs: dict[str, Tensor]
    completion_start: int
    labels: Tensor

    @property
    def length(self) -> int:
        return self.inputs["input_ids"].numel()


class RowEncoder:
    """Encodes rows with the checkpoint's processor and keeps what will be needed again.

    Token ids are kept for all rows. Image inputs are the same for all rows of a person and are kept for the people seen
    last, up to `cache_mb` MiB.

    Args:
        builder: prompt builder of the checkpoint.
        max_length: longest row allowed, tokens; None for no limit.
        cache_mb: memory for prepared images, MiB.
        label_scope: which tokens count: the `answer` with its end token; `all_text`, the question too but no image
            token or other special token of the prompt; `published`, the whole sequence.
    """

    def __init__(
        self,
        builder: PromptBuilder,
        *,
        max_length: int | None = None,
        cache_mb: int = 512,
        label_scope: LabelScope = "answer",
    ) -> None:
        self.builder = builder
        self.max_length = max_length
        self.label_scope = label_scope
        self._tokens: dict[tuple[Any, ...], Tokens] = {}
        self._answered: dict[tuple[str, ...], tuple[Tokens, Row]] = {}  # prompt with an image -> its first answer
        self._written_alike: dict[tuple[str, ...], bool] = {}  # prompt -> whether the tokenizer alone gives its ids
        self._images: OrderedDict[tuple[str, str], ImageInputs] = OrderedDict()
        self._image_keys: dict[tuple[str, str], str] = {}
        self._room = cache_mb * 2**20  # bytes left in the image cache

    def encode_all(self, rows: Iterable[Row], *, quiet: bool = False) -> int:
        """Encode rows ahead of training, so that one that cannot be used stops the run at its start.

        Returns:
            The length of the longest row, tokens.

        Raises:
            ValueError: a row longer than `max_length`.
        """
        longest = 0
        for row in tqdm(rows, desc="Encoding rows", unit=" rows", disable=quiet, leave=False):
            longest = max(longest, self.length(row))
            if self.max_length is not None and longest > self.max_length:
                raise ValueError(
                    f"{row.name}, answer {row.pair.answer!r}: {longest} tokens, image tokens included, but max_length "
                    f"is {self.max_length}. Rows are never cut: raise it to at least {longest}, or leave it out."
                )
        return longest

    def fits(self, row: Row) -> bool:
        """Return whether a row is within `max_length` with its whole answer.

        Raises:
            ValueError: its image alone is longer.
        """
        if self.max_length is None or self.length(row) <= self.max_length:
            return True
        image = self._image_tokens(row)
        if image >= self.max_length:
            raise ValueError(
                f"{row.name}: its image alone takes {image} tokens, the whole row {self.length(row)}, but max_length "
                f"is {self.max_length}. Raise max_length to at least {self.length(row)}, or leave it out."
            )
        return False

    def _image_tokens(self, row: Row) -> int:
        if not row.has_image:
            return 0
        tokens = self.tokens(row)
        marker = getattr(self.builder.processor, "image_token_id", None)
        prompt = tokens.inputs["input_ids"][: tokens.completion_start]
        return int((prompt == marker).sum()) if marker is not None else len(prompt)

    def length(self, row: Row) -> int:
        """Return a row's number of tokens, image tokens and answer included."""
        return self.tokens(row).length

    def tokens(self, row: Row) -> Tokens:
        """Return a row's token inputs.

        Raises:
            ValueError: a prompt whose token ids change when the answer follows.
        """
        key = (*row.person, row.has_image, row.pair.question, row.pair.answer)
        if key not in self._tokens:
            self._tokens[key] = self._with_other_answer(row) or self._encode(row)[0]
        return self._tokens[key]

    def _with_other_answer(self, row: Row) -> Tokens | None:
        """Return a row's token inputs where its prompt is known from another answer.

        Refusals are drawn anew in each epoch; without this each would read its portrait again for a few words.

        Returns:
            None for the first answer, and where this processor writes an answer in another way than its tokenizer.
        """
        prompt = _prompt_of(row)
        if prompt not in self._answered:
            return None
        tokens, first = self._answered[prompt]
        start = tokens.completion_start
        if prompt not in self._written_alike:
            ids = self._answer_ids(first)
            self._written_alike[prompt] = ids is not None and torch.equal(ids, tokens.inputs["input_ids"][start:])
        own = self._answer_ids(row) if self._written_alike[prompt] else None
        if own is None:
            return None
        inputs = {
            # Of the other per-token inputs, an answer's tokens all have the same.
            name: torch.cat([value[:start], value[start : start + 1].expand(len(own), *value.shape[1:])])
            for name, value in tokens.inputs.items()
        }
        inputs["input_ids"][start:] = own
        return Tokens(inputs, start, self._labels(inputs["input_ids"], start))

    def _answer_ids(self, row: Row) -> Tensor | None:
        """Return the token ids (n,) of a row's answer by the tokenizer alone; None where they can't be told apart."""
        question, has_image = row.pair.question, row.has_image
        completion = self.builder.completion(question, row.pair.answer, has_image=has_image)
        return self.builder.completion_ids(self.builder.training(question, has_image=has_image), completion)

    def image_inputs(self, row: Row) -> ImageInputs:
        """Return the image inputs of a row, as its processor makes them for one row; empty without an image."""
        if not row.has_image:
            return {}
        known = self._images.get(row.person)
        if known is None:
            return self._encode(row)[1]
        self._images.move_to_end(row.person)
        return known

    def image_key(self, row: Row) -> str:
        """Return what the rows with the same image, as the model gets it, have in common."""
        if row.person not in self._image_keys:
            digest = hashlib.sha256()
            for name, value in sorted(self.image_inputs(row).items()):
                digest.update(f"{name} {value.shape}".encode() + value.contiguous().numpy().tobytes())
            self._image_keys[row.person] = digest.hexdigest()
        return self._image_keys[row.person]

    def _encode(self, row: Row) -> tuple[Tokens, ImageInputs]:
        pair = row.pair
        prompt = self.builder.training(pair.question, has_image=row.has_image)
        completion = self.builder.completion(pair.question, pair.answer, has_image=row.has_image)
        images = [row.profile.open_image()] if row.has_image else []
        try:
            example = self.builder.encode_example(prompt, completion, images)
        except ValueError as error:
            raise ValueError(f"{row.name}: {error}") from error
        # The attention mask of a row without padding says nothing; the collator makes the batch's.
        per_token = {
            name: value
            for name, value in example.inputs.items()
            if name in PER_TOKEN_PADDING and name != "attention_mask"
        }
        image_inputs = {name: value for name, value in example.inputs.items() if name not in PER_TOKEN_PADDING}
        if image_inputs:
            self._keep(row.person, image_inputs)
        labels = self._labels(example.input_ids, example.completion_start)
        tokens = Tokens({"input_ids": example.input_ids, **per_token}, example.completion_start, labels)
        if row.has_image:
            self._answered.setdefault(_prompt_of(row), (tokens, row))
        return tokens, image_inputs

    def _labels(self, ids: Tensor, completion_start: int) -> Tensor:
        """Return the labels (seq_len,) of a row's ids. Nothing predicts the first token, so it never counts."""
        counts = torch.ones_like(ids, dtype=torch.bool)
        if self.label_scope != "published":
            counts[:completion_start] = False
        if self.label_scope == "all_text":
            known = self.builder.processor.tokenizer.added_tokens_decoder
            special = torch.tensor([number for number, token in known.items() if token.special])
            counts[:completion_start] = ~torch.isin(ids[:completion_start], special)
        counts[0] = False
        return ids.masked_fill(~counts, IGNORED)

    def _keep(self, person: tuple[str, str], inputs: ImageInputs) -> None:
        if person in self._images:
            return
        self._images[person] = inputs
        self._room -= _bytes(inputs)
        while self._room < 0 and len(self._images) > 1:
            self._room += _bytes(self._images.popitem(last=False)[1])


def _prompt_of(row: Row) -> tuple[str, ...]:
    """Return what the rows have in common that differ in their answers only."""
    return (*row.person, row.pair.question)


def _bytes(inputs: ImageInputs) -> int:
    return sum(value.numel() * value.element_size() for value in inputs.values())
