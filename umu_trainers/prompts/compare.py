"""What the trainer and the evaluator make of the same questions, by the code that each of them runs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from datasets import Dataset

from umu_tasks.backend.generation import GenerationSettings
from umu_tasks.backend.prompting import PromptBuilder
from umu_tasks.backend.umu_hf import Request, write_prompt
from umu_tasks.benchmarks.errors import DataError
from umu_tasks.benchmarks.instances import TASK_NAMES, TASKS, Profile, TrainingPair
from umu_tasks.benchmarks.profiles import ProfileSet
from umu_tasks.benchmarks.sources import variable_of
from umu_tasks.tasks.documents import to_question
from umu_tasks.tasks.umu import hooks
from umu_tasks.tasks.umu.prompts import OWN_FRAMES, published_training_prompt
from umu_tasks.tasks.umu.rows import QA_COLUMNS
from umu_trainers.collator import Collator
from umu_trainers.data import Row
from umu_trainers.encoding import RowEncoder

Document = dict[str, Any]


@dataclass(frozen=True)
class Prompt:
    """A prompt as one of the two sends it to the model.

    Attributes:
        ids: token ids, image tokens expanded, padding left out.
    """

    text: str
    ids: tuple[int, ...]


@dataclass(frozen=True)
class Comparison:
    """One question on both sides.

    Attributes:
        name: what kind of question it is.
        where: split, ID, and key of the question.
        trainer: None where it cannot train on the question; `problem` says why.
        problem: how the two differ though they should not; None if they agree.
        note: a difference that is meant.
    """

    name: str
    where: str
    evaluator: Prompt
    trainer: Prompt | None
    problem: str | None
    note: str | None


@dataclass(frozen=True)
class _Case:
    """A question to compare: how the evaluator knows it, and how the trainer does."""

    name: str
    document: Document
    row: Row

    @property
    def where(self) -> str:
        return f"{self.row.split}, ID {self.row.profile.profile_id}, {self.document['modality']} {self.row.pair.key}"


def compare_prompts(spec: str, profiles: ProfileSet, profile: Profile, builder: PromptBuilder) -> list[Comparison]:
    """Compare the prompts of one person's questions: of each task and of training, one in each modality.

    Args:
        spec: the data source that `profiles` comes from.
        profile: the person, one of `profiles`.
        builder: the checkpoint's prompt builder.

    Raises:
        DataError: the person has no question of some kind; names it.
    """
    with _source(spec):
        cases = [*_evaluation_cases(profiles.split, profile), *_training_cases(profiles.split, profile)]
        prompts = _evaluator_prompts(builder, [case.document for case in cases])
    encoder = RowEncoder(builder)
    return [_compare(case, prompt, encoder) for case, prompt in zip(cases, prompts, strict=True)]


# ---- questions ------------------------------------------------------------------------------------------------------


def _evaluation_cases(split: str, profile: Profile) -> Iterator[_Case]:
    """Yield the first instance of each task, both modalities. The trainer is given the same text as a training pair."""
    for task in TASKS:
        documents = hooks.build_documents(Dataset.from_list([{"split": split, "task": task}]))
        own = [one for one in documents if one["profile_id"] == profile.profile_id]
        if not own:
            raise DataError(
                f"no {TASK_NAMES[task]} question. Choose another person with --id.", row_id=profile.profile_id
            )
        pair_of_first = [one for one in own if one["key"] == own[0]["key"]]
        for document in sorted(pair_of_first, key=lambda one: one["modality"], reverse=True):
            pair = TrainingPair(
                profile.profile_id, document["key"], document["modality"], document["prompt"], document["gold"]
            )
            yield _Case(f"evaluation, {TASK_NAMES[task]}", document, Row(split, profile, pair))


def _training_cases(split: str, profile: Profile) -> Iterator[_Case]:
    """Yield the first training pair of each modality. The evaluator is given its question as a task would give it."""
    for modality, column in reversed(QA_COLUMNS.items()):
        pair = next((one for one in profile.pairs if one.modality == modality), None)
        if pair is None:
            raise DataError(
                "no training pair. Choose another person with --id.", row_id=profile.profile_id, column=column
            )
        document = {
            "profile_id": profile.profile_id,
            "split": split,
            "modality": modality,
            "key": pair.key,
            "question": pair.question,
            "prompt": pair.question,
            "published_prompt": published_training_prompt(pair.question, has_image=pair.has_image),
        }
        yield _Case(f"training, {column}", document, Row(split, profile, pair))


# ---- the two sides --------------------------------------------------------------------------------------------------


def _evaluator_prompts(builder: PromptBuilder, documents: Sequence[Mapping[str, Any]]) -> list[Prompt]:
    """Return what `umu_hf` sends to the model, all questions in as few batches as the model allows."""
    asked = [write_prompt(builder, _request(document)) for document in documents]
    texts, images = [text for text, _ in asked], [own for _, own in asked]
    ids: dict[int, tuple[int, ...]] = {}
    for rows in builder.groups(images):
        inputs = builder.encode([texts[row] for row in rows], [images[row] for row in rows], padding_side="left")
        for row, tokens, mask in zip(rows, inputs["input_ids"], inputs["attention_mask"], strict=True):
            ids[row] = tuple(tokens[mask.bool()].tolist())
    return [Prompt(text, ids[row]) for row, text in enumerate(texts)]


def _request(document: Mapping[str, Any]) -> Request:
    return Request(0, hooks.text(document), hooks.messages, document, GenerationSettings(), "umu")


def _trainer_prompt(row: Row, encoder: RowEncoder) -> Prompt:
    """Return what stands before the answer in the trainer's batch.

    Raises:
        ValueError: the row cannot be trained on.
    """
    batch = Collator(encoder, {}).rows_batch([row, row.answered(f"{row.pair.answer} {row.pair.answer}")])
    ids = batch["inputs"]["input_ids"][0][: encoder.tokens(row).completion_start]  # right-padded: the prompt leads
    return Prompt(encoder.builder.training(row.pair.question, has_image=row.has_image), tuple(ids.tolist()))


def _compare(case: _Case, evaluator: Prompt, encoder: RowEncoder) -> Comparison:
    try:
        trainer = _trainer_prompt(case.row, encoder)
    except ValueError as error:
        return Comparison(case.name, case.where, evaluator, None, f"the trainer cannot use it: {error}", None)
    result = Comparison(case.name, case.where, evaluator, trainer, None, None)
    if evaluator.text != trainer.text:
        if _is_own_frame(case.document, evaluator, encoder.builder):
            return replace(result, note="the published evaluator frames this kind of question in its own way")
        return replace(
            result, problem=f"the texts differ from character {_first_difference(evaluator.text, trainer.text)}"
        )
    if evaluator.ids != trainer.ids:
        place = _first_difference(evaluator.ids, trainer.ids)
        text = f"the token ids differ from position {place}: "
        sides = (("evaluator", evaluator), ("trainer", trainer))
        return replace(result, problem=text + ", ".join(f"{name} {_at(one.ids, place)}" for name, one in sides))
    return result


def _is_own_frame(document: Mapping[str, Any], evaluator: Prompt, builder: PromptBuilder) -> bool:
    if builder.style != "published" or (document.get("task"), document["modality"]) not in OWN_FRAMES:
        return False
    return evaluator.text == builder.evaluation(to_question(document))


def _first_difference(one: Sequence[object], other: Sequence[object]) -> int:
    same = zip(one, other, strict=False)
    return next((place for place, (left, right) in enumerate(same) if left != right), min(len(one), len(other)))


def _at(ids: Sequence[int], place: int) -> str:
    return str(ids[place]) if place < len(ids) else "ends"


@contextmanager
def _source(spec: str) -> Iterator[None]:
    """The evaluator's task files take the source from the environment."""
    name = variable_of(hooks.BENCHMARK)
    before = os.environ.get(name)
    os.environ[name] = spec
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
