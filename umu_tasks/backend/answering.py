"""Questions to answers, as fast as the checkpoint allows: which questions go through the model together.

Questions about one image share its part of the prompt where the model family can (`shared_prefix`). All others, those
without an image among them, are asked in batches of like settings and length (`generation`). What is too large for the
memory is tried again in smaller batches; no answer is lost.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Protocol, TypeVar

import torch

from umu_tasks.backend import shared_prefix
from umu_tasks.backend.checkpoint import Checkpoint
from umu_tasks.backend.generation import Answer, GenerationSettings, generate
from umu_tasks.backend.shared_prefix import Asked, CannotShareError, SharedPrefix

if TYPE_CHECKING:
    from PIL.Image import Image

logger = logging.getLogger(__name__)

WINDOW = 4  # batches read ahead: from so many, rows that fit together are chosen


class Prompted(Protocol):
    """A question whose prompt is written and whose images are read."""

    @property
    def prompt(self) -> str: ...

    @property
    def images(self) -> Sequence[Image]: ...

    @property
    def settings(self) -> GenerationSettings: ...


P = TypeVar("P", bound=Prompted)


class Answering:
    """Answers questions with one checkpoint.

    Args:
        batch_size: questions decoded at once. Lowered for good when the memory is too small for it.
        share_images: let questions about one image share its part, where the family can.
    """

    def __init__(self, checkpoint: Checkpoint, batch_size: int, *, share_images: bool = True) -> None:
        self.checkpoint = checkpoint
        self.batch_size = batch_size
        self.shares = share_images and shared_prefix.supports(checkpoint)
        if share_images and not self.shares:
            logger.info("model type %s: every question brings its own image.", checkpoint.model.config.model_type)

    def answers(self, questions: Iterable[P]) -> Iterator[list[tuple[P, Answer]]]:
        """Yield each question with its answer, batch after batch, in no particular order.

        Questions about one image are answered fastest when they come one after the other.

        Raises:
            GenerationError: a question can't be asked, or the model's logits are not finite.
            torch.OutOfMemoryError: one question alone is too large.
        """
        queue = iter(questions)
        while window := list(islice(queue, WINDOW * self.batch_size)):
            yield from self._shared([one for one in window if self._can_share(one)])
            yield from self._plain([one for one in window if not self._can_share(one)])

    def _can_share(self, one: Prompted) -> bool:
        return self.shares and len(one.images) == 1 and shared_prefix.can_share(one.settings)

    def _shared(self, questions: Sequence[P]) -> Iterator[list[tuple[P, Answer]]]:
        left = list(questions)
        while left:
            asked = [Asked(one.prompt, one.images[0], one.settings) for one in left]
            done: set[int] = set()
            try:
                for batch in SharedPrefix(self.checkpoint, self.batch_size).answer(asked):
                    done |= batch.keys()
                    yield [(left[place], answer) for place, answer in batch.items()]
            except CannotShareError as reason:
                self.shares = False
                logger.warning("every question brings its own image: %s.", reason)
                yield from self._plain(left)
                return
            except torch.OutOfMemoryError as error:
                self._halve(min(self.batch_size, len(left)), error)
            left = [one for place, one in enumerate(left) if place not in done]

    def _plain(self, questions: Sequence[P]) -> Iterator[list[tuple[P, Answer]]]:
        # The longest first: a batch that is too large for the memory fails at once.
        left = sorted(questions, key=lambda one: (one.settings, bool(one.images), -len(one.prompt)))
        while left:
            first = left[0]
            batch = [one for one in left[: self.batch_size] if one.settings == first.settings]
            if not self.checkpoint.builder.mixes_modalities:
                batch = [one for one in batch if bool(one.images) == bool(first.images)]
            try:
                found = generate(
                    self.checkpoint, [one.prompt for one in batch], [one.images for one in batch], first.settings
                )
            except torch.OutOfMemoryError as error:
                self._halve(len(batch), error)
                continue
            left = left[len(batch) :]
            yield list(zip(batch, found, strict=True))

    def _halve(self, tried: int, error: torch.OutOfMemoryError) -> None:
        """Go on with half the batch size that did not fit; one question that does not fit is the end."""
        if tried <= 1:
            raise error
        self.batch_size = max(1, tried // 2)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        logger.warning("out of memory: going on with batch_size=%d. Nothing is lost.", self.batch_size)
