"""Answers many questions about one portrait with one pass over the portrait.

In LLaVA-1.5's prompts 576 of about 640 tokens are the image, and it stands before the question: up to there all
questions about one person are the same tokens. Their attention states are computed once for each image, many images in
one batch, and every question goes on from them. Exact: the same sums as in a prompt of its own, in another order.

Greedy decoding only, and only for models whose image goes before the question into a causal language model with plain
positions (`supports`); all others are asked the plain way (`generation.generate`).
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from umu_tasks.backend.checkpoint import Checkpoint
from umu_tasks.backend.generation import (
    NOT_FINITE,
    Answer,
    GenerationError,
    GenerationSettings,
    StopStrings,
    count_until,
    cut,
    to_model,
)
from umu_tasks.backend.prefix_cache import PrefixStates
from umu_tasks.backend.probe import image_token_id

if TYPE_CHECKING:
    from PIL.Image import Image

T = TypeVar("T")

# Families whose image features take the place of tokens of one causal sequence with positions 0, 1, 2, …
FAMILIES = ("llava", "llava_next", "vipllava", "llava_onevision", "internvl")
FINISHED_CHECK = 4  # steps between two looks at whether all rows have ended: a look waits for the GPU


class CannotShareError(ValueError):
    """The prompts do not have the form that sharing needs; `generation.generate` can ask them all the same."""


class Asked(NamedTuple):
    """A question with one image: what `generation.generate` takes for one row."""

    prompt: str
    image: Image
    settings: GenerationSettings


@dataclass(slots=True)
class _Portrait:
    """An image with the questions about it.

    Attributes:
        prefix: (prefix_len,) token ids up to the image's last token.
        inputs: the processor's image inputs for this one image.
        suffixes: place in the list of questions -> the token ids after the prefix.
    """

    prefix: Tensor
    inputs: Mapping[str, Tensor]
    suffixes: dict[int, Tensor] = field(default_factory=dict)


def supports(checkpoint: Checkpoint) -> bool:
    """Return whether questions of this checkpoint can share their image."""
    return can_share_prefix(checkpoint.model.config, checkpoint.builder.processor)


def can_share_prefix(config: Any, processor: Any) -> bool:
    """Return whether a model of this config reads an image and what follows as one causal sequence of tokens."""
    known = image_token_id(config, processor) is not None
    return known and config.model_type in FAMILIES and not _slides(config)


def can_share(settings: GenerationSettings) -> bool:
    """Return whether answers under these settings can be decoded here: greedily, one beam."""
    return settings.temperature == 0 and settings.num_beams == 1


class SharedPrefix:
    """Answers questions about images with a model that `supports` finds fit.

    Args:
        batch_size: questions decoded at once.
    """

    def __init__(self, checkpoint: Checkpoint, batch_size: int) -> None:
        self.checkpoint = checkpoint
        self.batch_size = batch_size
        # Their states are held while their questions are answered, and a batch of questions holds its own copy.
        self.portraits = max(1, batch_size // 2)
        token = image_token_id(checkpoint.model.config, checkpoint.builder.processor)
        self._image_token = -1 if token is None else token
        self._checked = False

    @torch.inference_mode()
    def answer(self, asked: Sequence[Asked]) -> Iterator[dict[int, Answer]]:
        """Yield place in `asked` -> answer, batch after batch.

        Raises:
            CannotShareError: before the first answer, if the prompts can't be taken apart behind their image.
            GenerationError: the model's logits are not finite.
        """
        read = self._read(asked)
        self._check_window(read, asked)
        for portraits in _chunks(
            sorted(read, key=_form), self.portraits, lambda one, other: _form(one) == _form(other)
        ):
            states = self._states(portraits)
            rows = [
                (asked[place].settings, suffix.numel(), place, number, suffix)
                for number, portrait in enumerate(portraits)
                for place, suffix in portrait.suffixes.items()
            ]
            rows.sort(key=lambda row: row[:3])
            for batch in _chunks(rows, self.batch_size, lambda one, other: one[0] == other[0]):
                settings, suffixes = batch[0][0], [row[4] for row in batch]
                decoder = _Decoder(self.checkpoint, states, [row[3] for row in batch], suffixes, settings)
                yield dict(zip((row[2] for row in batch), decoder.run(), strict=True))

    def _check_window(self, portraits: Sequence[_Portrait], asked: Sequence[Asked]) -> None:
        """Mistral's decoders may see a window of tokens only: past it, they would have to forget parts of the prefix.

        Raises:
            CannotShareError: a question with its answer may be longer than the window.
        """
        window = getattr(self.checkpoint.model.config.get_text_config(), "sliding_window", None)
        longest = max(
            portrait.prefix.numel() + suffix.numel() + asked[place].settings.max_new_tokens
            for portrait in portraits
            for place, suffix in portrait.suffixes.items()
        )
        if window is not None and longest > window:
            raise CannotShareError(
                f"a question with its answer takes up to {longest} tokens, and the decoder sees {window} at a time "
                f"(sliding_window)"
            )

    # ---- tokens -------------------------------------------------------------------------------------------------

    def _read(self, asked: Sequence[Asked]) -> list[_Portrait]:
        """Encode the questions; an image goes through the processor once."""
        portraits: dict[str, _Portrait] = {}
        pixels: dict[int, str] = {}  # one person's questions hold one image object: it is hashed once
        for place, one in enumerate(asked):
            # The text before the image is part of the key: what stands there must be the same tokens too.
            before = one.prompt.partition(self._marker)[0]
            if id(one.image) not in pixels:
                pixels[id(one.image)] = image_key(one.image)
            key = f"{pixels[id(one.image)]} {before}"
            portrait = portraits.get(key)
            if portrait is None:
                portrait, suffix = self._encode(one)
                portraits[key] = portrait
            else:
                suffix = self._suffix(one, portrait)
            portrait.suffixes[place] = suffix
        return list(portraits.values())

    @property
    def _marker(self) -> str:
        return str(self.checkpoint.builder.processor.image_token)

    def _encode(self, one: Asked) -> tuple[_Portrait, Tensor]:
        inputs = self.checkpoint.builder.encode([one.prompt], [[one.image]], padding_side="left")
        ids = inputs.pop("input_ids")[0]  # (seq_len,)
        inputs.pop("attention_mask")
        suffix = self._after_image(one.prompt)
        end = ids.numel() - suffix.numel()
        if not torch.equal(ids[end:], suffix) or bool((suffix == self._image_token).any()):
            raise CannotShareError("the processor writes the text behind an image differently when it has the image")
        return _Portrait(ids[:end], inputs), suffix

    def _suffix(self, one: Asked, portrait: _Portrait) -> Tensor:
        """Return the ids behind the image without touching the image again."""
        suffix = self._after_image(one.prompt)
        if not self._checked:  # once: is it what the processor itself makes of the whole prompt?
            whole = self.checkpoint.builder.encode([one.prompt], [[one.image]], padding_side="left")["input_ids"][0]
            if not torch.equal(whole, torch.cat((portrait.prefix, suffix))):
                raise CannotShareError("the processor's tokens for an image depend on the text behind it")
            self._checked = True
        return suffix

    def _after_image(self, prompt: str) -> Tensor:
        """Return the token ids of the text behind the image marker."""
        ids = self.checkpoint.builder.tokenize(prompt)  # the marker is one token here
        places = (ids == self._image_token).nonzero()
        if len(places) != 1:
            raise CannotShareError(f"expected one image marker in the prompt, found {len(places)}: {prompt[:300]!r}")
        suffix = ids[int(places[0]) + 1 :]
        if not suffix.numel():
            raise CannotShareError(f"a prompt ends with its image, and nothing is left to go on with: {prompt[:300]!r}")
        return suffix

    # ---- states -------------------------------------------------------------------------------------------------

    def _states(self, portraits: Sequence[_Portrait]) -> PrefixStates:
        model = self.checkpoint.model
        ids = torch.stack([one.prefix for one in portraits]).to(model.device)  # (portraits, prefix_len)
        names = portraits[0].inputs
        images = {name: torch.cat([one.inputs[name] for one in portraits]) for name in names}
        outputs = model(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            use_cache=True,
            logits_to_keep=1,
            **{name: to_model(value, model) for name, value in images.items()},
        )
        return PrefixStates.of(getattr(outputs, _cache_name(model)))


class _Decoder:
    """Greedy decoding of one batch of rows that go on from prefix states."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        states: PrefixStates,
        rows: Sequence[int],
        suffixes: Sequence[Tensor],
        settings: GenerationSettings,
    ) -> None:
        self.model, self.tokenizer = checkpoint.model, checkpoint.builder.processor.tokenizer
        self.settings = settings
        self.ends = torch.tensor(checkpoint.eos_token_ids, device=self.model.device)
        self.pad = checkpoint.builder.pad_token_id
        self.lengths = [states.length + suffix.numel() for suffix in suffixes]
        longest = max(suffix.numel() for suffix in suffixes)
        self.ids = torch.full((len(rows), longest), self.pad)  # (batch, suffix_len), padded on the left
        mask = torch.ones(len(rows), states.length + longest, dtype=torch.long)  # (batch, prefix_len + suffix_len)
        for row, suffix in enumerate(suffixes):
            self.ids[row, longest - suffix.numel() :] = suffix
            mask[row, states.length : states.length + longest - suffix.numel()] = 0
        self.ids, self.mask = self.ids.to(self.model.device), mask.to(self.model.device)
        self.cache = states.for_rows(rows, longest + settings.max_new_tokens)
        self.prefix_length = states.length
        self.cache_name = _cache_name(self.model)

    def run(self) -> list[Answer]:
        """Return the rows' answers."""
        positions = (self.mask.cumsum(dim=1) - 1).clamp(min=0)[:, self.prefix_length :]  # (batch, suffix_len)
        broken = torch.zeros((), dtype=torch.bool, device=self.ids.device)
        done = torch.zeros(len(self.ids), dtype=torch.bool, device=self.ids.device)  # (batch,)
        stopping = StopStrings(self.tokenizer, self.settings.until, 0) if self.settings.until else None
        step, written = self.ids, self.ids[:, :0]  # (batch, new), (batch, so far)
        while True:
            logits = self._logits(step, positions)  # (batch, vocab)
            broken |= ~torch.isfinite(logits).all()
            step = torch.where(done, self.pad, logits.argmax(dim=-1)).unsqueeze(1)
            written = torch.cat((written, step), dim=1)
            done |= torch.isin(step[:, 0], self.ends)
            count = written.shape[1]
            if count == self.settings.max_new_tokens:
                break
            if count % FINISHED_CHECK == 0:
                if stopping is not None:
                    done |= stopping(written, logits)
                if bool(done.all()):
                    break
            positions = positions[:, -1:] + 1
            self.mask = torch.cat((self.mask, torch.ones_like(step)), dim=1)
        if bool(broken):
            raise GenerationError(NOT_FINITE)
        return self._answers(written.tolist())

    def _logits(self, ids: Tensor, positions: Tensor) -> Tensor:
        outputs = self.model(
            input_ids=ids,
            attention_mask=self.mask,
            position_ids=positions,
            use_cache=True,
            logits_to_keep=1,
            **{self.cache_name: self.cache},
        )
        return outputs.logits[:, -1]

    def _answers(self, written: Sequence[Sequence[int]]) -> list[Answer]:
        ends = {*self.ends.tolist(), self.pad}
        texts = self.tokenizer.batch_decode(written, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return [
            Answer(cut(text, self.settings.until), length, self._count(row[: count_until(row, ends)], text))
            for text, length, row in zip(texts, self.lengths, written, strict=True)
        ]

    def _count(self, tokens: Sequence[int], text: str) -> int:
        """Return how many tokens there are up to the one that completes a stop string: between two looks at the rows
        up to FINISHED_CHECK - 1 more are written."""
        count = len(tokens)
        while self._stops(text):
            text = self.tokenizer.decode(
                tokens[: count - 1], skip_special_tokens=True, clean_up_tokenization_spaces=False
            )
            if self._stops(text):
                count -= 1
        return count

    def _stops(self, text: str) -> bool:
        return any(stop in text for stop in self.settings.until)


def image_key(image: Image) -> str:
    """Return what two images with the same pixels, size and mode share."""
    return hashlib.sha256(f"{image.mode}{image.size}".encode() + image.tobytes()).hexdigest()


def _cache_name(model: Any) -> str:
    """Return what this transformers version calls the cache."""
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    return "cache" if "cache" in inspect.signature(base.forward).parameters else "past_key_values"


def _slides(config: Any) -> bool:
    """Return whether some layers attend to a window only: the prefix would have to be cut there."""
    text = config.get_text_config()
    return any(kind != "full_attention" for kind in getattr(text, "layer_types", None) or ())


def _form(one: _Portrait) -> tuple[int, list[tuple[str, tuple[int, ...]]]]:
    """Return what portraits of one batch must have in common: prefixes of one length do not say that the images fit,
    since LLaVA-NeXT cuts an upright and a wide image into other numbers of views that may come to as many tokens."""
    return one.prefix.numel(), sorted((name, tuple(value.shape[1:])) for name, value in one.inputs.items())


def _chunks(items: Iterable[T], size: int, together: Callable[[T, T], bool]) -> Iterator[list[T]]:
    """Yield the items in lists of at most `size`; neighbours that may not go together are in different ones."""
    chunk: list[T] = []
    for item in items:
        if chunk and (len(chunk) == size or not together(chunk[-1], item)):
            yield chunk
            chunk = []
        chunk.append(item)
    if chunk:
        yield chunk
