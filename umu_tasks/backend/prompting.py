"""The one prompt builder: training and evaluation get the text and the token ids of a prompt here and nowhere else.

Two styles. ``published`` is the frame of the published LLaVA-1.5 scripts (``USER: … ASSISTANT:``, no system prompt);
``chat`` is the checkpoint's own chat template. The style of a model family comes from its config, never from its name.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from umu_tasks.backend.families import mixes_modalities
from umu_tasks.benchmarks.instances import Question
from umu_tasks.tasks.umu import prompts as umu_prompts

if TYPE_CHECKING:
    from PIL.Image import Image

PromptStyle = Literal["published", "chat"]
PROMPT_STYLES: tuple[PromptStyle, ...] = ("published", "chat")
IMAGE_PLACEHOLDER = "<image>"
# Padding value of each per-token input a processor may return; an input that is not listed is not per token.
PER_TOKEN_PADDING = {"attention_mask": 0, "token_type_ids": 0, "mm_token_type_ids": 0, "cross_attention_mask": 0}


def default_style(model_type: str) -> PromptStyle:
    """Return the published frame for LLaVA-1.5 (config `model_type` "llava"), the chat template for all others."""
    return "published" if model_type == "llava" else "chat"


@dataclass(frozen=True, slots=True)
class EncodedExample:
    """A prompt with its completion, one row.

    Attributes:
        input_ids: (seq_len,) prompt and completion, image tokens expanded, no padding.
        completion_start: index of the first completion token in `input_ids`.
        inputs: what else the model takes: per-token inputs (seq_len,), image inputs as the processor returns them for
            this one row (empty for a unimodal row).
    """

    input_ids: Tensor
    completion_start: int
    inputs: dict[str, Tensor]


class PromptBuilder:
    """Builds prompts as text and encodes them for one checkpoint's processor.

    Args:
        processor: the checkpoint's processor (tokenizer and image processor).
        style: ``published`` or ``chat``.

    Raises:
        ValueError: the style does not fit the processor; says which option to change.
    """

    def __init__(self, processor: Any, style: PromptStyle) -> None:
        if style not in PROMPT_STYLES:
            raise ValueError(f"prompt={style}: expected one of {', '.join(PROMPT_STYLES)}.")
        if style == "published" and getattr(processor, "image_token", None) != IMAGE_PLACEHOLDER:
            found = getattr(processor, "image_token", None)
            raise ValueError(
                f"prompt=published: the published frame is LLaVA-1.5's and marks the image with {IMAGE_PLACEHOLDER!r}, "
                f"but this processor's image token is {found!r}. Use prompt=chat."
            )
        if style == "chat" and not getattr(processor, "chat_template", None):
            raise ValueError("prompt=chat: this checkpoint's processor has no chat template. Use prompt=published.")
        self.processor = processor
        self.style = style
        self.mixes_modalities = mixes_modalities(processor)
        added = processor.tokenizer.added_tokens_decoder.values()
        self._end_tokens = tuple(token.content for token in added if token.special)

    # ---- text -------------------------------------------------------------------------------------------------

    def evaluation(self, question: Question) -> str:
        """Return the evaluation prompt of a UMU question."""
        if self.style == "published":
            return umu_prompts.published_prompt(question)
        return self.chat(user_message(umu_prompts.user_text(question), has_image=question.has_image))

    def of_document(
        self, document: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]
    ) -> tuple[str, list[Image]]:
        """Return the evaluation prompt of a task's question, as `umu_hf` sends it, and the images it shows.

        Args:
            document: one of `umu_tasks.tasks.documents`.
            messages: its conversation; a content part is ``{"type": "image", "url": …}`` or a text.
        """
        images = [part["url"] for turn in messages for part in turn["content"] if part["type"] == "image"]
        if self.style == "published":
            return str(document["published_prompt"]), images
        turns = [{**turn, "content": [_without_image(part) for part in turn["content"]]} for turn in messages]
        return self.chat(turns), images

    def training(self, question: str, *, has_image: bool) -> str:
        """Return the prompt of a training pair, up to where the answer starts."""
        if self.style == "published":
            return umu_prompts.published_training_prompt(question, has_image=has_image)
        return self.chat(user_message(question, has_image=has_image))

    def completion(self, question: str, answer: str, *, has_image: bool) -> str:
        """Return what follows the training prompt: the answer and the end-of-turn token(s)."""
        if self.style == "published":
            return f" {answer}{self.processor.tokenizer.eos_token}"
        prompt = self.training(question, has_image=has_image)
        turn = {"role": "assistant", "content": [{"type": "text", "text": answer}]}
        whole: str = self.processor.apply_chat_template(
            [*user_message(question, has_image=has_image), turn], tokenize=False
        )
        if not whole.startswith(prompt):
            raise ValueError(
                "prompt=chat: this checkpoint's chat template writes a finished conversation that does not start with "
                f"its own generation prompt, so the answer can't be told from the prompt.\nPrompt: {prompt!r}\n"
                f"Conversation: {whole!r}"
            )
        # The turn ends with its end token: what a template writes between turns is nothing to learn, and one that
        # writes no end token (LLaVA-1.5's) would teach the model never to stop.
        completion = whole.removeprefix(prompt).rstrip()
        end: str = "" if completion.endswith(self._end_tokens) else self.processor.tokenizer.eos_token
        return completion + end

    @property
    def end_token_id(self) -> int | None:
        """The token that ends an assistant's turn in this style; None if the template can't write a finished turn."""
        try:
            completion = self.completion("?", "!", has_image=False)
        except ValueError:
            return None
        end = max((token for token in self._end_tokens if completion.endswith(token)), key=len)
        token_id: int = self.processor.tokenizer.convert_tokens_to_ids(end)
        return token_id

    def chat(self, messages: Sequence[Mapping[str, Any]]) -> str:
        """Return the generation prompt that the checkpoint's chat template makes of `messages`."""
        text: str = self.processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        return text

    # ---- token ids --------------------------------------------------------------------------------------------

    def groups(self, images: Sequence[Sequence[Image]]) -> list[list[int]]:
        """Return which rows may go through the model in one batch: all of them, or each modality for itself."""
        rows = range(len(images))
        if self.mixes_modalities:
            return [list(rows)]
        kinds = ([row for row in rows if images[row]], [row for row in rows if not images[row]])
        return [kind for kind in kinds if kind]

    def encode(
        self, prompts: Sequence[str], images: Sequence[Sequence[Image]], *, padding_side: Literal["left", "right"]
    ) -> dict[str, Tensor]:
        """Encode a batch that may mix rows with and without images.

        Args:
            prompts: one text a row; images are marked with the processor's image token.
            images: one list of images a row, empty for a row without.
            padding_side: ``left`` to generate, ``right`` to train.

        Returns:
            `input_ids` and `attention_mask` (batch, seq_len) and the processor's image inputs for the rows that have
            images, in row order. Without any image in the batch there is no image input at all.

        Raises:
            ValueError: a batch that mixes modalities, for a model that can't (see `groups`).
        """
        if len(self.groups(images)) > 1:
            raise ValueError("this model can't take rows with and without an image in one batch (see `groups`).")
        with_image = [row for row, own in enumerate(images) if own]
        without = [row for row, own in enumerate(images) if not own]
        # Processors disagree on batches that mix the two kinds (some raise, some shift images between rows): each kind
        # goes through the processor on its own and the token rows are put back in order.
        rows: list[dict[str, Tensor]] = [{} for _ in prompts]
        image_inputs: dict[str, Tensor] = {}
        if with_image:
            tokens, image_inputs = self._process(
                [prompts[r] for r in with_image], [list(images[r]) for r in with_image]
            )
            for row, values in zip(with_image, tokens, strict=True):
                rows[row] = values
        if without:
            tokens, _ = self._process([prompts[r] for r in without], None)
            for row, values in zip(without, tokens, strict=True):
                rows[row] = values
        return {**pad_rows(rows, self.pad_token_id, padding_side=padding_side), **image_inputs}

    def encode_example(self, prompt: str, completion: str, images: Sequence[Image]) -> EncodedExample:
        """Encode one training row; the ids before `completion_start` are those that `encode` gives for the prompt.

        Raises:
            ValueError: the tokenizer merges the prompt's end with the completion's start, so that training would see
                other prompt ids than evaluation.
        """
        own = [list(images)] if images else None
        with images_read_once(self.processor):
            (prompt_tokens,), _ = self._process([prompt], own)
            (whole,), image_inputs = self._process([prompt + completion], own)
        prompt_ids, ids = prompt_tokens["input_ids"], whole["input_ids"]
        start = prompt_ids.numel()
        if start >= ids.numel() or not torch.equal(ids[:start], prompt_ids):
            raise ValueError(
                f"The token ids of the prompt change when the answer follows it. Prompt {prompt!r}, answer "
                f"{completion!r}. Use the other prompt style (prompt: chat or published)."
            )
        per_token = {name: value for name, value in whole.items() if name != "input_ids"}
        return EncodedExample(input_ids=ids, completion_start=start, inputs={**per_token, **image_inputs})

    def completion_ids(self, prompt: str, completion: str) -> Tensor | None:
        """Return a completion's token ids (n,) behind its prompt, by the tokenizer alone: no image is read.

        Returns:
            None where the tokenizer merges the prompt's end with the completion's start.
        """
        before, whole = self.tokenize(prompt), self.tokenize(prompt + completion)
        if not torch.equal(whole[: len(before)], before):
            return None
        return whole[len(before) :]

    @property
    def pad_token_id(self) -> int:
        tokenizer = self.processor.tokenizer
        return tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id

    def tokenize(self, text: str) -> Tensor:
        """Return a prompt's token ids (seq_len,) as `encode` has them, but with one token, its marker, for an image."""
        ids = self.processor.tokenizer(text, add_special_tokens=self._adds_special_tokens(text))["input_ids"]
        return torch.tensor(ids, dtype=torch.long)

    def _adds_special_tokens(self, text: str) -> bool:
        # A chat template writes the begin token itself; adding special tokens would write it twice.
        bos = getattr(self.processor.tokenizer, "bos_token", None)
        return not (bos and text.startswith(bos))

    def _process(
        self, texts: list[str], images: list[list[Image]] | None
    ) -> tuple[list[dict[str, Tensor]], dict[str, Tensor]]:
        """Run the processor without padding; return per-row token inputs and the image inputs of the whole batch."""
        adds = [self._adds_special_tokens(text) for text in texts]
        rows, image_inputs = self._process_alike(texts, images, add_special_tokens=adds[0])
        others = [row for row, own in enumerate(adds) if own != adds[0]]
        if others:  # their images are read already; their tokens are written anew
            own_images = [images[row] for row in others] if images else None
            again, _ = self._process_alike([texts[row] for row in others], own_images, add_special_tokens=not adds[0])
            for row, values in zip(others, again, strict=True):
                rows[row] = values
        return rows, image_inputs

    def _process_alike(
        self, texts: list[str], images: list[list[Image]] | None, *, add_special_tokens: bool
    ) -> tuple[list[dict[str, Tensor]], dict[str, Tensor]]:
        # Rows differ in length, so the processor can't make tensors of the token inputs: lists first, tensors after.
        # Said outright: some processors (Pixtral's) make tensors when not told otherwise.
        encoded = self.processor(
            text=texts,
            **({"images": images} if images else {}),
            padding=False,
            add_special_tokens=add_special_tokens,
            return_tensors=None,
        )
        token_names = {"input_ids", *PER_TOKEN_PADDING} & set(encoded)
        rows = [
            {name: torch.as_tensor(encoded[name][row], dtype=torch.long)[: len(ids)] for name in sorted(token_names)}
            for row, ids in enumerate(encoded["input_ids"])
        ]
        image_inputs = {name: _as_tensor(value) for name, value in encoded.items() if name not in token_names}
        return rows, image_inputs


def _without_image(part: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "image"} if part["type"] == "image" else dict(part)


def user_message(text: str, *, has_image: bool) -> list[dict[str, Any]]:
    """Return a one-turn conversation in the chat-template format; a question without image carries no image entry."""
    image = [{"type": "image"}] if has_image else []
    return [{"role": "user", "content": [*image, {"type": "text", "text": text}]}]


def pad_rows(
    rows: Sequence[Mapping[str, Tensor]], pad_token_id: int, *, padding_side: Literal["left", "right"]
) -> dict[str, Tensor]:
    """Pad per-token inputs of rows (seq_len, …) of different length to (batch, longest, …).

    A row that lacks an input which another has (a row without an image) gets its padding value throughout.
    """
    values = {"input_ids": pad_token_id, **PER_TOKEN_PADDING}
    names = set().union(*rows)
    longest = max(row["input_ids"].numel() for row in rows)
    padded: dict[str, Tensor] = {}
    for name in sorted(names):
        shapes = [row[name].shape[1:] for row in rows if name in row]
        more = [max(sizes) for sizes in zip(*shapes, strict=True)]  # Mllama's mask has images and tiles behind
        out = torch.full((len(rows), longest, *more), values[name], dtype=torch.long)
        for index, row in enumerate(rows):
            length = row["input_ids"].numel()
            where = slice(longest - length, longest) if padding_side == "left" else slice(0, length)
            if name in row:
                out[index, where] = _grown(row[name], more, values[name])
        padded[name] = out
    return padded


def _grown(value: Tensor, more: Sequence[int], padding: int) -> Tensor:
    """Pad what is behind the first dimension to the sizes `more`."""
    missing = [large - size for large, size in zip(more, value.shape[1:], strict=True)]
    return F.pad(value, [amount for one in reversed(missing) for amount in (0, one)], value=padding)


@contextmanager
def images_read_once(processor: Any) -> Iterator[None]:
    """Have `processor` reuse the first images it processes for all calls inside: encode one row's texts only."""
    inner = processor.image_processor
    processor.image_processor = _FirstResult(inner)
    try:
        yield
    finally:
        processor.image_processor = inner


class _FirstResult:
    """An image processor that does its work once."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._result: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._result is None:
            self._result = self._inner(*args, **kwargs)
        return copy.copy(self._result)  # processors take entries out of it

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def _as_tensor(value: Any) -> Tensor:
    if isinstance(value, Tensor):
        return value
    if isinstance(value, list) and value and isinstance(value[0], Tensor):
        return torch.stack(value)
    import numpy as np

    return torch.as_tensor(np.asarray(value))
