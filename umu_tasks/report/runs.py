"""What a report is made of: runs (one model each), their scores by split and task, the answers behind the scores."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from umu_tasks.benchmarks.instances import InstanceKey, Modality, Task
from umu_tasks.scoring.pairing import Pair


@dataclass(frozen=True, slots=True)
class Answer:
    """One scored question.

    Attributes:
        output: what the model wrote, untouched; None when the run recorded no output for the question.
        score: 0 or 1 for classification and cloze, the ROUGE-L F-measure in [0, 1] for generation.
        gold: the right answer, "" when not recorded.
        question_hash: lmms-eval's hash of the question's document, "" when not recorded.
    """

    profile_id: str
    task: Task
    key: str
    modality: Modality
    output: str | None
    score: float
    gold: str = ""
    question_hash: str = ""

    @property
    def instance_key(self) -> InstanceKey:
        return InstanceKey(self.profile_id, self.task, self.key)


@dataclass(frozen=True)
class TaskResult:
    """The scores of one task on one split.

    Attributes:
        metrics: metric name -> value in [0, 1], as the results file has them (or computed, see `derived_from`).
        questions: number of questions asked.
        answers: the sample file's records, None when there is no sample file.
        derived_from: empty for a task that was run; else the splits whose records these scores were computed from.
    """

    split: str
    task: Task
    metrics: dict[str, float]
    questions: int
    answers: tuple[Answer, ...] | None
    derived_from: tuple[str, ...] = ()

    @cached_property
    def pairs(self) -> dict[InstanceKey, Pair]:
        """The scores by knowledge instance; only instances that were answered in both modalities."""
        scores: dict[InstanceKey, dict[Modality, float]] = {}
        for answer in self.answers or ():
            scores.setdefault(answer.instance_key, {})[answer.modality] = answer.score
        return {key: Pair(own["multimodal"], own["unimodal"]) for key, own in scores.items() if len(own) == 2}

    @property
    def instances(self) -> int:
        """Number of knowledge instances the scores are means over; half the questions when no records are there."""
        return len(self.pairs) if self.answers is not None else self.questions // 2


@dataclass(frozen=True, slots=True)
class Origin:
    """What made one results file, as the file itself says."""

    file: Path
    model: str
    model_args: str
    date: str
    lmms_eval_version: str
    git_hash: str
    limit: str
    task_versions: dict[str, str]
    settings: dict[str, str]

    @property
    def made_by(self) -> str:
        """The model and the weights; two files of one model agree in it whatever the batch size was."""
        weights = split_model_args(self.model_args)
        parts = [f"{name}={weights[name]}" for name in ("pretrained", "peft", "prompt") if name in weights]
        return f"{self.model} {','.join(parts) if parts else self.model_args}"


@dataclass(frozen=True)
class RunResult:
    """All that one model's result folder says about one benchmark."""

    name: str
    folder: Path
    benchmark: str
    tasks: dict[tuple[str, Task], TaskResult]
    origins: tuple[Origin, ...]
    notices: tuple[str, ...] = field(default=())

    @property
    def is_limited(self) -> bool:
        """Only a part of the questions was asked (--limit)."""
        return any(origin.limit for origin in self.origins)

    @property
    def splits(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(split for split, _ in self.tasks))


def split_order(split: str) -> tuple[int, str]:
    """Sort key: forget sets, test sets, retain sets, real people, the full set."""
    kinds = ("forget", "test", "retain", "real", "full")
    return next(index for index, kind in enumerate(kinds) if split.startswith(kind)), split


def split_model_args(model_args: str) -> dict[str, str]:
    """Return the options of ``--model_args`` by name."""
    # As the backend reads it: a comma separates only where `name=` follows, so paths may hold commas.
    parts = (part.partition("=") for part in re.split(r",(?=\s*\w+=|\s*$)", model_args.strip()))
    return {name.strip(): value.strip() for name, equals, value in parts if equals}
