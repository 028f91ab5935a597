"""Who the few-shot examples are about, and which portrait of the Test_Set is shown: drawn by seed, the same every time.

The published evaluator draws both without a seed, and from one draw to the next cloze on a small set moves by tens of
points.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from umu_tasks.benchmarks.errors import DataError
from umu_tasks.benchmarks.instances import Question, Task
from umu_tasks.benchmarks.sources import Source
from umu_tasks.tasks.mllmu.profiles import MllmuProfile, as_mllmu
from umu_tasks.tasks.mllmu.splits import forget_split_of, is_test

SEED_VARIABLE = "MLLMU_SEED"


def seed() -> int:
    """Return the seed of all draws: ``MLLMU_SEED``, 0 where it is not set.

    Raises:
        DataError: it is no whole number.
    """
    text = os.environ.get(SEED_VARIABLE) or "0"
    try:
        return int(text)
    except ValueError:
        raise DataError(f"{SEED_VARIABLE}={text}: expected a whole number.") from None


@dataclass(frozen=True)
class Examples:
    """The people whose questions are answered in the prompt, and never scored.

    Attributes:
        people: in the order drawn.
    """

    people: tuple[MllmuProfile, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(person.profile_id for person in self.people)

    def of(self, question: Question) -> list[tuple[MllmuProfile, Question]]:
        """Return whose questions stand before `question`, and which: all of its task and modality."""
        return [(person, example) for person in self.people for example in _alike(person, question)]


def _alike(person: MllmuProfile, question: Question) -> Iterator[Question]:
    return (one for one in person.asked if (one.task, one.modality) == (question.task, question.modality))


def draw_examples(source: Source, split: str, task: Task, count: int, *, with_seed: int) -> Examples:
    """Draw `count` people of `split` as examples.

    The examples of a test split show the people's usual questions and portrait (those of the forget split, which are
    Full_Set's), as published. On every other split they are the rows of the split itself: the published evaluator looks
    up real people's IDs in Full_Set, where some belong to invented people.

    Raises:
        DataError: nobody would be left to score.
    """
    if not count:
        return Examples(())
    people = source.load(examples_of(split))
    if len(people) <= count:
        raise DataError(
            f"split {split} has {len(people)} people; {task} needs {count} for its examples and one more to score. Use "
            f"the zero-shot task (mllmu_{split}_{task}_0shot).",
            file=source.spec,
        )
    drawn = random.Random(f"{with_seed} {split} {task}").sample(sorted(people.ids), count)  # noqa: S311 - no secret
    return Examples(tuple(as_mllmu(people.by_id(one)) for one in drawn))


def examples_of(split: str) -> str:
    """Return the split whose rows the examples of `split` are taken from."""
    return forget_split_of(split) if is_test(split) else split


def draw_portrait(person: MllmuProfile, *, with_seed: int) -> int:
    """Return which of a person's images is shown, counted from 0; the same one for all of the person's questions.

    Raises:
        DataError: there is none.
    """
    count = len(person.portraits)
    if not count:
        person.open_image()  # says where the image is missing
    return random.Random(f"{with_seed} {person.profile_id}").randrange(count)  # noqa: S311 - no secret


def scored(people: Sequence[MllmuProfile], examples: Examples) -> list[MllmuProfile]:
    """Return the people without those of the examples."""
    return [person for person in people if person.profile_id not in examples.ids]
