"""What MLLMU-Bench's task files call.

A task file names its line of `selectors.json` (``{"split": "test05", "task": "cls", "examples": 1}``);
`build_documents` gets that line as lmms-eval's data set and puts the questions in its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from datasets import Dataset, Features, List, Value

from umu_tasks.backend.preflight import check_backend
from umu_tasks.benchmarks.errors import DataError, NoQuestionsError
from umu_tasks.benchmarks.instances import Question, Task
from umu_tasks.benchmarks.sources import open_source
from umu_tasks.tasks import documents
from umu_tasks.tasks.abort import aborts_on_error
from umu_tasks.tasks.documents import Document, to_question
from umu_tasks.tasks.mllmu import prompts
from umu_tasks.tasks.mllmu.examples import Examples, draw_examples, draw_portrait, examples_of, scored, seed
from umu_tasks.tasks.mllmu.profiles import MllmuProfile, as_mllmu
from umu_tasks.tasks.mllmu.records import score
from umu_tasks.tasks.records import Number, Record

if TYPE_CHECKING:
    from PIL.Image import Image

BENCHMARK = "mllmu"
FEATURES = Features(
    {**documents.FEATURES, "examples": List(Value("string")), "portrait": Value("int64"), "seed": Value("int64")}
)


@aborts_on_error
def build_documents(selector: Dataset) -> Dataset:
    """Return the questions of the split and task that the selector names, from the source `MLLMU_DATA` names."""
    (row,) = selector
    source, split, task = open_source(benchmark=BENCHMARK), row["split"], row["task"]
    examples = draw_examples(source, split, task, row["examples"], with_seed=seed())
    people = [as_mllmu(person) for person in source.load(split)]
    asked = list(_documents(scored(people, examples), task, split, examples))
    if not asked:
        raise NoQuestionsError(
            f"split {split} has no {task} question to score. Training data (metadata column) has none: point "
            "MLLMU_DATA to the benchmark's own data. Check it with `umu data check SOURCE --benchmark mllmu`.",
            file=source.spec,
        )
    return Dataset.from_list(asked, features=FEATURES)


def _documents(people: Iterable[MllmuProfile], task: Task, split: str, examples: Examples) -> Iterator[Document]:
    drawn_with = seed()
    for person, question in _in_asking_order(people, task):
        before = [example for _, example in examples.of(question)]
        document = documents.to_document(
            question,
            split=split,
            field=person.fields.get(question.key, "other"),
            prompt=prompts.user_text(question),
            published_prompt=prompts.published_prompt(question, before),
        )
        yield document | {
            "question": prompts.shown_question(question),
            "examples": list(examples.ids),
            "portrait": draw_portrait(person, with_seed=drawn_with) if question.has_image else -1,
            "seed": drawn_with,
        }


def _in_asking_order(people: Iterable[MllmuProfile], task: Task) -> Iterator[tuple[MllmuProfile, Question]]:
    """Yield the questions: first those of facts asked in both modalities, pair by pair, then those asked in one.

    So an even `--limit` cuts no pair. Which modality comes first alternates, as in `documents.in_asking_order`.
    """
    alone: list[tuple[MllmuProfile, Question]] = []
    number = 0
    for person in people:
        by_key: dict[str, list[Question]] = {}
        for question in person.questions(task):
            by_key.setdefault(question.key, []).append(question)
        for group in by_key.values():
            if len(group) == 1:
                alone.append((person, group[0]))
                continue
            ordered = group if number.bit_count() % 2 == 0 else list(reversed(group))
            yield from ((person, question) for question in ordered)
            number += 1
    yield from alone


def text(document: Mapping[str, Any]) -> str:
    """Return the user's text: the question and its instruction. Refuses a backend known to answer wrongly."""
    check_backend()
    return str(document["prompt"])


@aborts_on_error
def images(document: Mapping[str, Any]) -> list[Image]:
    """Return the portrait of a multimodal question, nothing for a unimodal one: what a simple model asks for.

    Such a model gets one text and no conversation, so the examples would be lost.
    """
    if document["examples"]:
        raise DataError(
            f"mllmu_{document['split']}_{document['task']} has few-shot examples, and this model takes no "
            f"conversation. Use mllmu_{document['split']}_{document['task']}_0shot, or a chat model such as umu_hf."
        )
    return _own_portrait(document)


def _own_portrait(document: Mapping[str, Any]) -> list[Image]:
    if document["portrait"] < 0:
        return []
    return [_portrait(_spec(), document["split"], document["profile_id"], document["portrait"])]


def _spec() -> str:
    return open_source(benchmark=BENCHMARK).spec


@lru_cache(maxsize=32)  # one person's questions come one after the other, and all show the same examples
def _portrait(spec: str, split: str, profile_id: str, number: int) -> Image:
    (person,) = _people(spec, split, (profile_id,))
    return person.portraits.image(number)()


def _people(spec: str, split: str, ids: tuple[str, ...]) -> tuple[MllmuProfile, ...]:
    people = open_source(spec, benchmark=BENCHMARK).load(split)
    return tuple(as_mllmu(people.by_id(one)) for one in ids)


@aborts_on_error
def messages(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the question as a conversation: the examples, each asked and answered, then the question itself."""
    question, spec, examples_split = to_question(document), _spec(), examples_of(document["split"])
    turns: list[dict[str, Any]] = []
    for person, example in Examples(_people(spec, examples_split, tuple(document["examples"]))).of(question):
        portraits = [_portrait(spec, examples_split, person.profile_id, 0)] if example.has_image else []
        turns.append(_user(portraits, prompts.user_text(example)))
        turns.append({"role": "assistant", "content": [{"type": "text", "text": prompts.answer_text(example)}]})
    return [*turns, _user(_own_portrait(document), document["prompt"])]


def _user(portraits: Sequence[Image], said: str) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "image", "url": portrait} for portrait in portraits]
    return {"role": "user", "content": [*content, {"type": "text", "text": said}]}


def target(document: Mapping[str, Any]) -> str:
    """Return the right answer, in classification its letter."""
    return str(document["gold_letter"] or document["gold"])


@aborts_on_error
def score_answer(document: Mapping[str, Any], outputs: Sequence[str]) -> dict[str, Record | Number]:
    """Return one answered question's record, and metric name -> its number."""
    return score(document, outputs)
