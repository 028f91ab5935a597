"""Example answers before and after: what the numbers look like in words, picked by a rule and not by taste."""

from __future__ import annotations

import base64
import hashlib
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from umu_tasks.benchmarks.errors import DataError
from umu_tasks.benchmarks.instances import MODALITIES, TASK_NAMES, TASKS, InstanceKey, Modality, Task
from umu_tasks.benchmarks.sources import open_source
from umu_tasks.report.compare import Comparison
from umu_tasks.report.runs import Answer, RunResult
from umu_tasks.scoring.answers import RuleName

if TYPE_CHECKING:
    from PIL.Image import Image

NUMBER: dict[Task, int] = {"cls": 4, "cloze": 3, "gen": 3}
"""How many facts of each task are shown."""
RULE = (
    "Ten facts about the people to forget: the first 4 of classification, 3 of cloze and 3 of generation in the order "
    "of the SHA-256 of person, task and key, among the facts that every run shown has answers to. Invalid runs are "
    "left out."
)
_PORTRAIT = 112
"""Longer side of a portrait in pixels."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What one run wrote for one question.

    Attributes:
        verdicts: rule -> right or wrong; for generation "ROUGE-L" -> its value as text.
    """

    run: str
    output: str
    verdicts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """One question of a fact, and every run's answer."""

    modality: Modality
    question: str
    gold: str
    answers: tuple[Shown, ...]


@dataclass(frozen=True, slots=True)
class Example:
    """One fact, asked in both modalities.

    Attributes:
        portrait: a data URI of the portrait, "" where it is not at hand.
    """

    person: str
    task: str
    field: str
    portrait: str
    asked: tuple[Asked, ...]


@dataclass(frozen=True, slots=True)
class Examples:
    """The examples of one forget set; `note` says why portraits are missing, "" where they are there."""

    split: str
    shown: tuple[Example, ...]
    note: str


def examples(comparison: Comparison, portraits: str | None = None) -> Examples | None:
    """Return examples of the first forget set that two runs or more have answers on, None where there is none.

    Args:
        portraits: data source to take portraits from; None: the one that the runs record, if it is on this machine.
    """
    for split in comparison.forget_splits():
        runs = [
            run
            for run in (comparison.baseline, *comparison.later)
            if not comparison.is_invalid(run) and any(run.tasks[key].answers for key in run.tasks if key[0] == split)
        ]
        if len(runs) < 2:
            continue
        picked = [key for task in TASKS for key in pick(runs, split, task)]
        pictures, note = _portraits(comparison, split, {key.profile_id for key in picked}, portraits)
        return Examples(split, tuple(_example(runs, split, key, pictures, comparison.rules) for key in picked), note)
    return None


def pick(runs: Iterable[RunResult], split: str, task: Task) -> list[InstanceKey]:
    """Return the facts to show, by the rule in `RULE`."""
    known = [set(run.tasks[split, task].pairs()) if (split, task) in run.tasks else set() for run in runs]
    shared: set[InstanceKey] = set.intersection(*known)
    return sorted(shared, key=_order)[: NUMBER[task]]


def _order(key: InstanceKey) -> str:
    return hashlib.sha256("\n".join(key).encode()).hexdigest()


def _example(
    runs: Iterable[RunResult], split: str, key: InstanceKey, portraits: Mapping[str, str], rules: Iterable[RuleName]
) -> Example:
    by_run = {run.name: _answers(run, split, key) for run in runs}
    asked = []
    for modality in MODALITIES:
        first = next(iter(by_run.values()))[modality]
        shown = tuple(_shown(name, answers[modality], rules) for name, answers in by_run.items())
        asked.append(Asked(modality, first.question, first.gold, shown))
    field = str(next(iter(by_run.values()))["unimodal"].record.get("field", key.key)).replace("_", " ")
    return Example(key.profile_id, TASK_NAMES[key.task], field, portraits.get(key.profile_id, ""), tuple(asked))


def _answers(run: RunResult, split: str, key: InstanceKey) -> dict[Modality, Answer]:
    answers = run.tasks[split, key.task].answers or ()
    return {answer.modality: answer for answer in answers if answer.instance_key == key}


def _shown(run: str, answer: Answer, rules: Iterable[RuleName]) -> Shown:
    output = answer.output if answer.output and answer.output.strip() else "(nothing)"
    if answer.task == "gen":
        return Shown(run, output, (("ROUGE-L", f"{100 * answer.score:.0f} %"),))
    known = [(rule, answer.verdicts[rule]) for rule in rules if rule in answer.verdicts]
    return Shown(run, output, tuple((rule, "right" if right else "wrong") for rule, right in known))


# ---- portraits --------------------------------------------------------------------------------------------------


def _portraits(
    comparison: Comparison, split: str, people: Iterable[str], source: str | None
) -> tuple[dict[str, str], str]:
    """Return profile ID -> data URI, and why there are none."""
    recorded = _recorded_data(comparison)
    spec = source or (str(recorded.get("source", "")) if recorded.get("kind") in ("mini", "folder") else "")
    if not spec:
        return {}, "Portraits are not shown: the runs' data is not on this machine. Name it with --portraits SOURCE."
    try:
        profiles = open_source(spec, benchmark=comparison.baseline.benchmark).load(split)
        asked = _fingerprint(recorded, split)
        if asked is not None and asked != profiles.fingerprint:
            return {}, f"Portraits are not shown: {spec} holds other people than the runs were asked about."
        unsure = f"The runs don't record their data; portraits are from {spec}." if asked is None else ""
        return {one: _thumbnail(profiles.by_id(one).open_image()) for one in people}, unsure
    except (DataError, OSError) as error:
        return {}, f"Portraits are not shown: {error}"


def _recorded_data(comparison: Comparison) -> Mapping[str, object]:
    for origin in reversed(comparison.baseline.origins):
        data = origin.provenance.get("data")
        own = data.get(comparison.baseline.benchmark) if isinstance(data, Mapping) else None
        if isinstance(own, Mapping):
            return own
    return {}


def _fingerprint(recorded: Mapping[str, object], split: str) -> object:
    splits = recorded.get("splits")
    return splits.get(split) if isinstance(splits, Mapping) else None


def _thumbnail(image: Image) -> str:
    small = image.convert("RGB")
    small.thumbnail((_PORTRAIT, _PORTRAIT))
    buffer = io.BytesIO()
    small.save(buffer, "JPEG", quality=85)
    return f"data:image/jpeg;base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"
