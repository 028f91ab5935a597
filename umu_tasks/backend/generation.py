"""Batches of prompts to answers, by one checkpoint."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from transformers import (
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    StoppingCriteria,
    StoppingCriteriaList,
)

from umu_tasks.backend.checkpoint import Checkpoint
from umu_tasks.backend.probe import image_token_id

if TYPE_CHECKING:
    from PIL.Image import Image

logger = logging.getLogger(__name__)

DEFAULT_MAX_NEW_TOKENS = 1024  # for tasks that name none, as in lmms-eval's own models
NOT_FINITE = (
    "the model's logits are not finite: its weights are broken (a training run that diverged?), or its dtype is too "
    "small (dtype=float32 or bfloat16 in --model_args)."
)


class GenerationError(RuntimeError):
    """A question could not be asked. Never turned into an empty answer."""


class Answer(NamedTuple):
    """What the model wrote after the prompt, special tokens left out, and how many tokens of each there are."""

    text: str
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True, order=True)
class GenerationSettings:
    """How to decode. Requests with equal settings may share a batch.

    Attributes:
        max_new_tokens: at most so many tokens an answer.
        until: the answer ends before the first of these strings.
        temperature: 0 is greedy decoding; above 0 samples.
    """

    max_new_tokens: int = DEFAULT_MAX_NEW_TOKENS
    until: tuple[str, ...] = ()
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    num_beams: int = 1

    @classmethod
    def from_task(cls, kwargs: Mapping[str, Any]) -> GenerationSettings:
        """Read a task's `generation_kwargs`; names without meaning here are ignored, and logged once."""
        values = {name: value for name, value in kwargs.items() if value is not None}
        until = values.pop("until", ())
        until = (until,) if isinstance(until, str) else tuple(until)
        samples = bool(values.pop("do_sample", False))
        temperature = float(values.pop("temperature", 1.0 if samples else 0.0))
        readers = {"max_new_tokens": int, "top_p": float, "top_k": int, "num_beams": int}
        for name in sorted(values.keys() - readers.keys()):
            _log_ignored(name)
        known = {name: read(values[name]) for name, read in readers.items() if name in values}
        return cls(until=tuple(stop for stop in until if stop), temperature=temperature, **known)

    def config(self, base: GenerationConfig) -> GenerationConfig:
        """Return the transformers config; tokens that end and pad come from `base`."""
        sampling: dict[str, Any] = {}
        if self.temperature > 0:
            sampling = {"temperature": self.temperature, "top_p": self.top_p, "top_k": self.top_k}
        return GenerationConfig(
            max_new_tokens=self.max_new_tokens,
            num_beams=self.num_beams,
            do_sample=self.temperature > 0,
            bos_token_id=base.bos_token_id,
            eos_token_id=base.eos_token_id,
            pad_token_id=base.pad_token_id,
            decoder_start_token_id=base.decoder_start_token_id,
            **sampling,
        )


@lru_cache(maxsize=100)
def _log_ignored(name: str) -> None:
    logger.info("umu_hf ignores the generation setting %r.", name)


class StopStrings(StoppingCriteria):
    """Ends a row as soon as its answer holds one of the strings, to save the tokens that would be cut off anyway."""

    def __init__(self, tokenizer: Any, until: Sequence[str], prompt_length: int) -> None:
        self.tokenizer = tokenizer
        self.until = tuple(until)
        self.prompt_length = prompt_length
        # Every token but the first and last of a match is at least one byte of it.
        self.window = max(len(stop.encode()) for stop in until) + 2

    def __call__(self, input_ids: Tensor, scores: Tensor, **kwargs: Any) -> Tensor:
        start = max(self.prompt_length, input_ids.shape[1] - self.window)
        tails = self.tokenizer.batch_decode(input_ids[:, start:], skip_special_tokens=True)
        stopped = [any(stop in tail for stop in self.until) for tail in tails]
        return torch.tensor(stopped, dtype=torch.bool, device=input_ids.device)  # (batch,)


class NumberCheck(LogitsProcessor):
    """Notes logits that are no numbers: argmax turns them into token 0, and that into an empty answer.

    The note stays on the device until the batch is done, so that decoding does not wait for it.
    """

    def __init__(self) -> None:
        self.broken: Tensor | None = None  # ()

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        # Other processors rule tokens out by -inf.
        broken = torch.isnan(scores).any() | torch.isposinf(scores).any()
        self.broken = broken if self.broken is None else self.broken | broken
        return scores

    def require_numbers(self) -> None:
        if self.broken is not None and bool(self.broken):
            raise GenerationError(NOT_FINITE)


@torch.inference_mode()
def generate(
    checkpoint: Checkpoint,
    prompts: Sequence[str],
    images: Sequence[Sequence[Image]],
    settings: GenerationSettings,
) -> list[Answer]:
    """Answer a batch of prompts; rows with and without images may stand in one batch.

    Args:
        prompts: texts with the image marked by the processor's image token.
        images: each row's images, empty for a row without.

    Raises:
        GenerationError: a prompt does not have the images it should have, or the model's logits are not finite.
    """
    answers: dict[int, Answer] = {}
    for rows in checkpoint.builder.groups(images):  # one group, but for models that can't mix modalities
        found = _generate(checkpoint, [prompts[row] for row in rows], [images[row] for row in rows], settings)
        answers.update(zip(rows, found, strict=True))
    return [answers[row] for row in range(len(prompts))]


def _generate(
    checkpoint: Checkpoint,
    prompts: Sequence[str],
    images: Sequence[Sequence[Image]],
    settings: GenerationSettings,
) -> list[Answer]:
    model, builder = checkpoint.model, checkpoint.builder
    tokenizer = builder.processor.tokenizer
    inputs = builder.encode(prompts, images, padding_side="left")
    _require_images(inputs["input_ids"], images, prompts, image_token_id(model.config, builder.processor))
    prompt_length = 0 if model.config.is_encoder_decoder else inputs["input_ids"].shape[1]
    stopping = [StopStrings(tokenizer, settings.until, prompt_length)] if settings.until else []
    numbers = NumberCheck()
    output_ids = model.generate(
        **{name: to_model(value, model) for name, value in inputs.items()},
        generation_config=settings.config(model.generation_config),
        stopping_criteria=StoppingCriteriaList(stopping),
        logits_processor=LogitsProcessorList([numbers]),
    )[:, prompt_length:]  # (batch, new_tokens)
    numbers.require_numbers()
    texts = tokenizer.batch_decode(output_ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    input_counts = inputs["attention_mask"].sum(dim=1).tolist()
    ends = set(checkpoint.eos_token_ids) | {builder.pad_token_id}
    return [
        Answer(cut(text, settings.until), input_count, count_until(row, ends))
        for text, input_count, row in zip(texts, input_counts, output_ids.tolist(), strict=True)
    ]


def cut(text: str, until: Sequence[str]) -> str:
    """Return `text` up to the first of the strings in `until`."""
    for stop in until:
        text = text.split(stop, 1)[0]
    return text


def to_model(value: Tensor, model: Any) -> Tensor:
    """Return an input on the model's device, in its dtype if it is no integer."""
    return value.to(model.device, model.dtype) if value.is_floating_point() else value.to(model.device)


def count_until(tokens: Sequence[int], ends: set[int]) -> int:
    """Return how many tokens stand before the first one of `ends`."""
    return next((index for index, token in enumerate(tokens) if token in ends), len(tokens))


def _require_images(
    input_ids: Tensor, images: Sequence[Sequence[Image]], prompts: Sequence[str], token: int | None
) -> None:
    """A template that drops the image marker, or a stray marker in a text-only prompt, must not pass in silence."""
    if token is None:
        return
    counts = (input_ids == token).sum(dim=1).tolist()
    for count, own, prompt in zip(counts, images, prompts, strict=True):
        if bool(count) != bool(own):
            raise GenerationError(
                f"a prompt with {len(own)} images has {count} image tokens. Prompt: {prompt[:300]!r}. Check the "
                "checkpoint's chat template, or use the other prompt style (prompt=published or prompt=chat)."
            )
