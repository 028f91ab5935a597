"""Profiles, knowledge instances and questions: what every benchmark's rows become.

A raw row becomes a `Profile` (one person); a profile holds `KnowledgeInstance`s (one fact each); an instance holds one
unimodal question (names the person, no image) and one multimodal question (shows the image, no name) about that fact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from PIL.Image import Image

Modality = Literal["unimodal", "multimodal"]
Task = Literal["cls", "cloze", "gen"]

MODALITIES: tuple[Modality, ...] = ("unimodal", "multimodal")
TASKS: tuple[Task, ...] = ("cls", "cloze", "gen")
TASK_NAMES: dict[Task, str] = {"cls": "classification", "cloze": "cloze", "gen": "generation"}


class InstanceKey(NamedTuple):
    """What identifies a knowledge instance within one split; records are paired by it, never by position."""

    profile_id: str
    task: Task
    key: str


@dataclass(frozen=True, slots=True)
class Question:
    """One question about one fact in one modality.

    Attributes:
        text: the question as stored, without any prompt around it.
        gold: the right answer's text. For classification the text of the right option in *this* modality's options.
        options: option letter -> option text as stored, in stored order; empty unless classification.
        gold_letter: letter of `gold` in `options`; None unless classification.
        stored_letter: the letter this modality's own entry names, None when it names none (it may be missing or wrong
            in the multimodal entry; the gold is decided by the unimodal one).
    """

    profile_id: str
    task: Task
    key: str
    modality: Modality
    text: str
    gold: str
    options: dict[str, str] = field(default_factory=dict)
    gold_letter: str | None = None
    official_gold: str | None = None  # gold under the published evaluator's rule: the unimodal letter in these options
    stored_letter: str | None = None

    @property
    def has_image(self) -> bool:
        return self.modality == "multimodal"

    @property
    def instance_key(self) -> InstanceKey:
        return InstanceKey(self.profile_id, self.task, self.key)


@dataclass(frozen=True, slots=True)
class KnowledgeInstance:
    """One fact of one profile, asked once per modality."""

    unimodal: Question
    multimodal: Question

    @property
    def instance_key(self) -> InstanceKey:
        return self.unimodal.instance_key

    def __iter__(self) -> Iterator[Question]:
        yield self.unimodal
        yield self.multimodal


@dataclass(frozen=True, slots=True)
class TrainingPair:
    """One question and answer of `MM_QA` (multimodal) or `UM_QA` (unimodal): what SFT and unlearning train on."""

    profile_id: str
    key: str
    modality: Modality
    question: str
    answer: str

    @property
    def has_image(self) -> bool:
        return self.modality == "multimodal"


@dataclass(frozen=True, slots=True)
class Profile:
    """One person.

    Attributes:
        open_image: returns the portrait as an RGB image; reads it from the source at each call, keeps nothing.
        pairs: the training question-answer pairs, multimodal ones first, in stored order.
        instances: the knowledge instances in stored order: classification, cloze, generation.
    """

    profile_id: str
    biography: str
    open_image: Callable[[], Image]
    pairs: tuple[TrainingPair, ...]
    instances: tuple[KnowledgeInstance, ...]

    def questions(self, task: Task) -> Iterator[Question]:
        """Yield the questions of `task`, the two modalities of one instance side by side."""
        for instance in self.instances:
            if instance.unimodal.task == task:
                yield from instance

    def every_question(self) -> Iterator[Question]:
        """Yield all questions, in stored order. A benchmark whose questions need not come in pairs has more of them."""
        for instance in self.instances:
            yield from instance

    def images(self) -> Iterator[Callable[[], Image]]:
        """Yield a function for each image of the person."""
        yield self.open_image
