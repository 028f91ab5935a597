"""What the trainer and the evaluator make of the same questions, by the code that each of them runs."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from umu_tasks.backend.generation import GenerationSettings
from umu_tasks.backend.prompting import PromptBuilder
from umu_tasks.backend.umu_hf import Request, write_prompt
from umu_tasks.benchmarks.errors import DataError
from umu_tasks.benchmarks.instances import MODALITIES, TASK_NAMES, TASKS, Modality, Task, TrainingPair
from umu_tasks.benchmarks.profiles import ProfileSet
from umu_tasks.benchmarks.sources import Source
from umu_tasks.report.leaves import ZERO_SHOT, LeafName
from umu_tasks.tasks.asking import OpenTask, open_task
from umu_tasks.tasks.files import our_tasks
from umu_tasks.tasks.umu.prompts import published_training_prompt
from umu_trainers.collator import Collator
from umu_trainers.data import Row
from umu_trainers.encoding import RowEncoder

Document = Mapping[str, Any]
Frames = frozenset[tuple[Task, Modality]]


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
        trainer: None where it cannot train on the question (`problem` says why), or has nothing like it (`note`).
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
    """A question to compare: how the evaluator knows it, and how the trainer does.

    Attributes:
        to_messages: document -> conversation.
        row: None where the question is only shown.
    """

    name: str
    where: str
    document: Document
    to_messages: Callable[[Mapping[str, Any]], list[dict[str, Any]]]
    row: Row | None


def compare_prompts(
    source: Source, split: str, builder: PromptBuilder, *, benchmark: str = "umu", profile_id: str | None = None
) -> list[Comparison]:
    """Compare the prompts of one question of each task and of training, in each modality.

    A task with few-shot examples is shown with them, and compared without: nobody trains on examples.

    Args:
        source: of `benchmark`.
        split: the canonical name of one that is there (`Source.require`).
        builder: the checkpoint's prompt builder.
        profile_id: who the questions are about; None: whoever comes first that has such a question.

    Raises:
        DataError: no question of some kind; names it.
    """
    frames = importlib.import_module(f"umu_tasks.tasks.{benchmark}.prompts")
    own_frames: Frames = getattr(frames, "OWN_FRAMES", frozenset())
    cases = [
        *_evaluation_cases(source, split, benchmark, profile_id),
        *_training_cases(source, split, profile_id),
    ]
    prompts = _evaluator_prompts(builder, cases)
    encoder = RowEncoder(builder)
    return [_compare(case, prompt, encoder, own_frames) for case, prompt in zip(cases, prompts, strict=True)]


# ---- questions ------------------------------------------------------------------------------------------------------


def _evaluation_cases(source: Source, split: str, benchmark: str, profile_id: str | None) -> Iterator[_Case]:
    """Yield the first fact of each task, in the modalities it is asked in."""
    known = our_tasks()
    leaves = [leaf for task in TASKS if str(leaf := LeafName(benchmark, split, task)) in known]
    if not leaves:
        raise DataError(f"{benchmark} has no task for split {split}. `umu tasks` lists those there are.")
    people = source.load(split)
    if profile_id is not None:
        people.by_id(profile_id)
    for leaf in leaves:
        yield from _task_cases(open_task(str(leaf), source.spec), leaf, people, profile_id)


def _task_cases(task: OpenTask, leaf: LeafName, people: ProfileSet, profile_id: str | None) -> Iterator[_Case]:
    own = [one for one in task.documents if profile_id in (None, one["profile_id"])]
    alone = leaf._replace(form=ZERO_SHOT)
    zero_shot = open_task(str(alone), task.spec) if leaf.has_other_form and not leaf.form else None
    if not own and zero_shot is not None:  # who stands in the examples is not asked about with them
        yield from _task_cases(zero_shot, alone, people, profile_id)
        return
    if not own:
        raise DataError(
            f"no {TASK_NAMES[leaf.task]} question in {leaf}. Choose another person with --id.", row_id=profile_id
        )
    first = own[0]
    fact = [one for one in own if (one["profile_id"], one["key"]) == (first["profile_id"], first["key"])]
    for document in sorted(fact, key=lambda one: str(one["modality"]), reverse=True):
        name, where = f"evaluation, {TASK_NAMES[leaf.task]}", _place(document)
        name += " without examples" if leaf.form else ""
        row = Row(people.split, people.by_id(document["profile_id"]), _as_pair(document))
        if zero_shot is None:
            yield _Case(name, where, document, task.messages, row)
            continue
        yield _Case(f"{name} with examples", where, document, task.messages, None)
        same = next(one for one in zero_shot.documents if _place(one) == where)
        yield _Case(f"{name} without examples", where, same, zero_shot.messages, row)


def _as_pair(document: Mapping[str, Any]) -> TrainingPair:
    """Return the text that a task asks with as a training pair."""
    return TrainingPair(
        document["profile_id"], document["key"], document["modality"], document["prompt"], document["gold"]
    )


def _training_cases(source: Source, split: str, profile_id: str | None) -> Iterator[_Case]:
    """Yield the first training pair of each modality. The evaluator is given its question as a task would give it."""
    people = source.load_for_training(source.rows.SUBSETS.get(split, (split, split))[1])
    asked = people if profile_id is None else [people.by_id(profile_id)]
    columns = source.rows.QA_COLUMNS
    for modality in MODALITIES:
        rows = (Row(split, one, pair) for one in asked for pair in one.pairs if pair.modality == modality)
        row = next(rows, None)
        if row is not None:
            document = _training_document(split, row.pair)
            to_messages = partial(_training_messages, row)
            yield _Case(f"training, {columns.get(modality, modality)}", _place(document), document, to_messages, row)
        elif modality in columns:
            raise DataError(
                "no training pair. Choose another person with --id.",
                row_id=profile_id or people[0].profile_id,
                column=columns[modality],
            )


def _training_document(split: str, pair: TrainingPair) -> Document:
    return {
        "profile_id": pair.profile_id,
        "split": split,
        "modality": pair.modality,
        "key": pair.key,
        "question": pair.question,
        "prompt": pair.question,
        "published_prompt": published_training_prompt(pair.question, has_image=pair.has_image),
    }


def _training_messages(row: Row, document: Mapping[str, Any]) -> list[dict[str, Any]]:
    images = [{"type": "image", "url": row.profile.open_image()}] if row.has_image else []
    return [{"role": "user", "content": [*images, {"type": "text", "text": document["prompt"]}]}]


def _place(document: Mapping[str, Any]) -> str:
    return f"{document['split']}, ID {document['profile_id']}, {document['modality']} {document['key']}"


# ---- the two sides --------------------------------------------------------------------------------------------------


def _evaluator_prompts(builder: PromptBuilder, cases: Sequence[_Case]) -> list[Prompt]:
    """Return what `umu_hf` sends to the model, all questions in as few batches as the model allows."""
    asked = [write_prompt(builder, _request(case)) for case in cases]
    texts, images = [text for text, _ in asked], [own for _, own in asked]
    ids: dict[int, tuple[int, ...]] = {}
    for rows in builder.groups(images):
        inputs = builder.encode([texts[row] for row in rows], [images[row] for row in rows], padding_side="left")
        for row, tokens, mask in zip(rows, inputs["input_ids"], inputs["attention_mask"], strict=True):
            ids[row] = tuple(tokens[mask.bool()].tolist())
    return [Prompt(text, ids[row]) for row, text in enumerate(texts)]


def _request(case: _Case) -> Request:
    document = case.document
    return Request(0, document["prompt"], case.to_messages, document, GenerationSettings(), "umu prompts")


def _trainer_prompt(row: Row, encoder: RowEncoder) -> Prompt:
    """Return what stands before the answer in the trainer's batch.

    Raises:
        ValueError: the row cannot be trained on.
    """
    batch = Collator(encoder, {}).rows_batch([row, row.answered(f"{row.pair.answer} {row.pair.answer}")])
    ids = batch["inputs"]["input_ids"][0][: encoder.tokens(row).completion_start]  # right-padded: the prompt leads
    return Prompt(encoder.builder.training(row.pair.question, has_image=row.has_image), tuple(ids.tolist()))


def _compare(case: _Case, evaluator: Prompt, encoder: RowEncoder, own_frames: Frames) -> Comparison:
    result = Comparison(case.name, case.where, evaluator, None, None, None)
    if case.row is None:
        return replace(result, note="few-shot examples stand before the question; nobody trains on them")
    try:
        trainer = _trainer_prompt(case.row, encoder)
    except ValueError as error:
        return replace(result, problem=f"the trainer cannot use it: {error}")
    result = replace(result, trainer=trainer)
    if evaluator.text != trainer.text:
        if _is_own_frame(case.document, evaluator, encoder.builder, own_frames):
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


def _is_own_frame(document: Mapping[str, Any], evaluator: Prompt, builder: PromptBuilder, own_frames: Frames) -> bool:
    if builder.style != "published" or (document.get("task"), document["modality"]) not in own_frames:
        return False
    return bool(evaluator.text == document["published_prompt"])


def _first_difference(one: Sequence[object], other: Sequence[object]) -> int:
    same = zip(one, other, strict=False)
    return next((place for place, (left, right) in enumerate(same) if left != right), min(len(one), len(other)))


def _at(ids: Sequence[int], place: int) -> str:
    return str(ids[place]) if place < len(ids) else "ends"
