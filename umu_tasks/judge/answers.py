"""The generated answers in a result folder: the records in the samples files of generation tasks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from umu_tasks.benchmarks.errors import DataError
from umu_tasks.benchmarks.names import ANY_BENCHMARK
from umu_tasks.scoring.texts import says_nothing

_SAMPLES = re.compile(rf"(?P<stamp>.+?)_samples_(?P<task>(?:{ANY_BENCHMARK})_\w+_gen)\.jsonl")


@dataclass(frozen=True, slots=True)
class SamplesFile:
    """One generation task's samples.

    Attributes:
        stamp: the run's date, with which its files start.
    """

    path: Path
    stamp: str
    task: str


@dataclass(frozen=True, slots=True)
class GeneratedAnswer:
    """One answer to judge."""

    task: str
    profile_id: str
    key: str
    modality: str
    question: str
    gold: str
    output: str
    failed: bool

    @property
    def is_empty(self) -> bool:
        """Whether it says nothing, marks alone included; a failed answer is none."""
        return not self.failed and says_nothing(self.output, (self.gold,))


def find_samples(folder: Path) -> list[SamplesFile]:
    """Return the newest samples file of each generation task of each model in a result folder.

    Raises:
        DataError: the folder is missing or has none.
    """
    if not folder.is_dir():
        raise DataError("no such folder. Give the --output_path of an evaluation.", file=str(folder))
    newest: dict[tuple[Path, str], SamplesFile] = {}
    for path in sorted(folder.rglob("*_samples_*.jsonl")):
        match = _SAMPLES.fullmatch(path.name)
        if match is not None:  # names start with the date, so the last one in order is the newest
            newest[path.parent, match["task"]] = SamplesFile(path, match["stamp"], match["task"])
    if not newest:
        raise DataError(
            "no samples of a generation task here. Evaluate one (umu_forget05_gen, mllmu_forget05_gen, a suite) with "
            "--log_samples, and give its --output_path.",
            file=str(folder),
        )
    return list(newest.values())


def read_answers(samples: SamplesFile) -> Iterator[GeneratedAnswer]:
    """Yield each question's answer once.

    Raises:
        DataError: a line that is no sample of ours.
    """
    seen: set[tuple[str, str, str]] = set()
    with samples.path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            answer = _answer(line, samples.task, f"{samples.path}, line {number}")
            question = (answer.profile_id, answer.key, answer.modality)
            if question not in seen:  # a data-parallel run may have asked twice
                seen.add(question)
                yield answer


def _answer(line: str, task: str, where: str) -> GeneratedAnswer:
    record = _record(line)
    names = ("profile_id", "key", "modality", "question", "gold", "parsed")
    missing = [name for name in names if name not in record]
    if missing:
        problem = f"the sample's record has no {', '.join(missing)}. Evaluate again, without --predict_only."
        raise DataError(problem, file=where)
    profile_id, key, modality, question, gold, output = (str(record[name]) for name in names)
    failed = bool(record.get("failed", False))
    return GeneratedAnswer(task, profile_id, key, modality, question, gold, output, failed)


def _record(line: str) -> dict[str, Any]:
    try:
        record = json.loads(line).get("record")
    except (ValueError, AttributeError):
        return {}
    return record if isinstance(record, dict) else {}
