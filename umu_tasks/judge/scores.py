"""Factuality of a result folder: means with intervals, what could not be judged, and the file beside the results.

20260102_030405_factuality.json
{"format": 1, "judge": {"model": "…", "url": "…", "rubric_version": 1},
 "tasks": {"mllmu_forget05_gen": {"factuality_mul": {"value": 3.2, "n": 50, "stderr": …, "low": …, "high": …},
                                  "factuality_uni": {…}, "answers": 100, "judged": 98, "unreadable": 1,
                                  "not_judged": 1, "empty": 0, "failed": 0}},
 "answers": [{"task": …, "profile_id": …, "key": …, "modality": …, "score": 7.0, "reason": "…"}, …]}
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from umu_tasks.judge.answers import GeneratedAnswer
from umu_tasks.judge.rubric import VERSION, Verdict
from umu_tasks.scoring.bootstrap import intervals, resampled_means

FORMAT = 1
SUFFIX = "_factuality.json"
_SIDES = {"mul": "multimodal", "uni": "unimodal"}

VerdictOf = Callable[[GeneratedAnswer], Verdict | None]


def task_scores(answers: Sequence[GeneratedAnswer], verdict_of: VerdictOf) -> dict[str, Any]:
    """Return one task's numbers: the mean score (1 to 10) of each modality, and how many answers are behind it."""
    verdicts = [(answer, verdict_of(answer)) for answer in answers]
    scored = [(answer, verdict.score) for answer, verdict in verdicts if verdict and verdict.score is not None]
    means = {
        f"factuality_{side}": _mean([(answer.profile_id, score) for answer, score in scored if answer.modality == name])
        for side, name in _SIDES.items()
    }
    return {
        **means,
        "answers": len(answers),
        "judged": len(scored),
        "unreadable": sum(verdict is not None and verdict.score is None for _, verdict in verdicts),
        "not_judged": sum(verdict is None and not answer.failed for answer, verdict in verdicts),
        "empty": sum(answer.is_empty for answer in answers),
        "failed": sum(answer.failed for answer in answers),
    }


def _mean(scores: Sequence[tuple[str, float]]) -> dict[str, float | None]:
    """Return value, n and the interval by resampling people; None where there is nothing to take a mean of."""
    numbers = [score for _, score in scores]
    if not numbers:
        return {"value": None, "n": 0, "stderr": None, "low": None, "high": None}
    mean: dict[str, float | None] = {"value": math.fsum(numbers) / len(numbers), "n": len(numbers)}
    people = [person for person, _ in scores]
    if len(set(people)) < 2:
        return mean | {"stderr": None, "low": None, "high": None}
    stderr, low, high = intervals(resampled_means(np.array([numbers]).T, people))
    return mean | {"stderr": float(stderr[0]), "low": float(low[0]), "high": float(high[0])}


def factuality(answers: Sequence[GeneratedAnswer], verdict_of: VerdictOf, *, model: str, url: str) -> dict[str, Any]:
    """Return the content of the file for the answers of one run."""
    tasks = {task: [one for one in answers if one.task == task] for task in dict.fromkeys(a.task for a in answers)}
    return {
        "format": FORMAT,
        "judge": {"model": model, "url": url, "rubric_version": VERSION},
        "tasks": {task: task_scores(own, verdict_of) for task, own in tasks.items()},
        "answers": [_line(answer, verdict_of(answer)) for answer in answers],
    }


def _line(answer: GeneratedAnswer, verdict: Verdict | None) -> dict[str, Any]:
    names = ("task", "profile_id", "key", "modality")
    line = {name: getattr(answer, name) for name in names}
    if verdict is None:
        return line | {"score": None, "reason": "failed" if answer.failed else "not judged"}
    return line | {"score": verdict.score, "reason": verdict.reason if verdict.score is not None else "unreadable"}


def write(path: Path, content: dict[str, Any]) -> None:
    """Write the file whole or not at all."""
    partial = path.with_name(f".{path.name}.part")
    partial.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    partial.replace(path)


def read_factuality(folder: Path) -> dict[str, dict[str, Any]]:
    """Return task -> its numbers and its judge, from a result folder's newest file; empty where nothing was judged."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.rglob(f"*{SUFFIX}")):
        content = json.loads(path.read_text(encoding="utf-8"))
        found.update({task: numbers | {"judge": content["judge"]} for task, numbers in content["tasks"].items()})
    return found
