"""One person of MLLMU-Bench: questions that need not come in pairs, and one portrait or several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from umu_tasks.benchmarks.errors import DataError
from umu_tasks.benchmarks.images import StoredImage
from umu_tasks.benchmarks.instances import Profile, Question, Task

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True, slots=True)
class Portraits:
    """The image cell of a row: one image, or a list of them (Test_Set). Read when asked for, never kept.

    Attributes:
        cell: the cell, or a function that reads it.
        file, row_id, column: where it stands, for messages; a relative path in the cell starts from the file's folder.
    """

    cell: object
    file: str
    row_id: str
    column: str

    def __len__(self) -> int:
        return len(_as_list(self.cell))

    def image(self, number: int) -> StoredImage:
        """Return a function that opens the image `number`, counted from 0."""
        return StoredImage(partial(self._one, number), file=self.file, row_id=self.row_id, column=self.column)

    def _one(self, number: int) -> object:
        cells = _as_list(self.cell)
        if number >= len(cells):
            raise DataError(
                f"image {number} of {len(cells)} asked for. Add the image, or drop the row.",
                file=self.file, row_id=self.row_id, column=self.column, kind="missing image",
            )  # fmt: skip
        return cells[number]


def _as_list(cell: object) -> Sequence[object]:
    cell = cell() if callable(cell) else cell
    return cell if isinstance(cell, list | tuple) else [cell]


@dataclass(frozen=True, slots=True)
class MllmuProfile(Profile):
    """One person.

    Attributes:
        portraits: all images of the row; `open_image` opens the first one.
        asked: every question in stored order, those without a partner in the other modality too. `instances` holds the
            pairs among them.
        fields: question key -> which fact it asks for, of the questions whose wording tells.
    """

    portraits: Portraits
    asked: tuple[Question, ...]
    fields: Mapping[str, str]

    def questions(self, task: Task) -> Iterator[Question]:
        """Yield the questions of `task`, unimodal and multimodal ones by turns, partners side by side."""
        mine = [question for question in self.asked if question.task == task]
        keys = dict.fromkeys(question.key for question in mine)
        for key in keys:
            yield from sorted((one for one in mine if one.key == key), key=lambda one: one.has_image)

    def every_question(self) -> Iterator[Question]:
        """Yield all questions, in stored order."""
        yield from self.asked

    def images(self) -> Iterator[Callable[[], Image]]:
        """Yield a function for each image of the row."""
        yield from (self.portraits.image(number) for number in range(len(self.portraits)))


def as_mllmu(profile: Profile) -> MllmuProfile:
    """Return a profile that came from a source of MLLMU-Bench as what it is.

    Raises:
        TypeError: it came from another benchmark's source.
    """
    if not isinstance(profile, MllmuProfile):
        raise TypeError(f"expected an MLLMU-Bench profile, found {type(profile).__name__}.")
    return profile
