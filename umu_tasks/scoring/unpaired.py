"""Numbers of a benchmark whose questions need not come in pairs.

MLLMU-Bench asks some facts with a portrait only, some in text only, some in both ways. So a metric of one modality
(`acc_mul`, `rl_uni`, …) is a mean over *all* questions of that modality, and a metric of both (`acc_any`, `acc_all`,
`acc_f`, `modality_gap`, …) a mean over the facts that are asked in both. `umu_tasks.scoring.summary` has the numbers of
a benchmark where every fact is asked twice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from umu_tasks.benchmarks.instances import Modality, Task
from umu_tasks.scoring import metrics
from umu_tasks.scoring.bootstrap import intervals, resampled_means
from umu_tasks.scoring.counts import counts_and_rates
from umu_tasks.scoring.metrics import INSTANCE_VALUES, ReportedMetric, value_of
from umu_tasks.scoring.pairing import Pair, ScoringError, instance_of, leaf_of, pair_by_key

RULE_VERSIONS: dict[str, str] = {"mllmu": "3"}
"""`benchmark` of records that are scored here -> version of its rules, raised by a change that could move a score."""

Record = Mapping[str, Any]
Scored = tuple[Record, float]
"""A record and its number for one metric."""


def reported_metrics(task: Task, split: str) -> tuple[ReportedMetric, ...]:
    """Return every metric that a results file has for a task on a split; the official rule is the default one here."""
    return tuple(one for one in metrics.reported_metrics(task, split) if one.source != "official")


def value(name: str, scored: Sequence[Scored]) -> float:
    """Return the metric `name` of a task's numbers; NaN if there is nothing to take the mean of.

    Raises:
        ScoringError: two records of one question have different numbers.
    """
    numbers = [number for _, number in contributions(name, scored)]
    return math.fsum(numbers) / len(numbers) if numbers else math.nan


def contributions(name: str, scored: Sequence[Scored]) -> list[tuple[str, float]]:
    """Return (person, number) of each question, or each pair of questions, that the metric `name` is the mean of."""
    modality = _modality(name)
    if modality is not None:
        return [(record["profile_id"], number) for record, number in _once(scored) if record["modality"] == modality]
    pairs = pair_by_key(scored).pairs
    return [(key.profile_id, INSTANCE_VALUES[name](Pair(*numbers))) for (_, key), numbers in sorted(pairs.items())]


def _modality(name: str) -> Modality | None:
    """Return the modality whose questions the metric `name` is a mean over; None if it needs both."""
    return {"mul": "multimodal", "uni": "unimodal"}.get(name.rpartition("_")[2])  # type: ignore[return-value]


def _once(scored: Sequence[Scored]) -> list[Scored]:
    """Return each question once, in a fixed order; a data-parallel run may have asked one twice."""
    found: dict[Any, Scored] = {}
    for record, number in scored:
        known = found.setdefault((instance_of(record), record["modality"]), (record, number))
        if known[1] != number:
            raise ScoringError(
                f"{record['split']}, ID {record['profile_id']}, {record['task']} {record['key']}: two records with "
                f"different values, {known[1]} and {number}. Score the results of one run at a time."
            )
    return [found[one] for one in sorted(found)]


def summarize(records: Sequence[Record]) -> dict[str, Any]:
    """Return the numbers of one leaf task, in the form of `umu_tasks.scoring.summary.summarize`.

    ``instances`` counts the facts asked in both modalities, ``unpaired`` those asked in one; ``examples``, ``seed`` and
    ``portraits`` say what was drawn: whose questions stand in the prompts, and which image of a person was shown.

    Raises:
        ScoringError: no records, records of more than one split or task, or two that contradict each other.
    """
    split, task = leaf_of(records)
    questions = [record for record, _ in _once([(record, 0.0) for record in records])]
    pairing = pair_by_key((record, None) for record in questions)
    summary = {
        "split": split,
        "task": task,
        "people": len({record["profile_id"] for record in questions}),
        "instances": len(pairing.pairs),
        "questions": len(questions),
        "unpaired": len(pairing.unpaired),
        "metrics": {
            one.name: _with_interval(contributions(one.base, [(r, value_of(r, one.source)) for r in questions]))
            for one in reported_metrics(task, split)
        },
        **counts_and_rates(questions),
        "fields": _fields(questions, task),
        "examples": sorted({one for record in questions for one in record["examples"]}),
        "seed": questions[0]["seed"],
        "portraits": {r["profile_id"]: r["portrait"] for r in questions if r["portrait"] >= 0},
    }
    return summary if task == "gen" else summary | {"rules_disagree": _disagreements(questions)}


def _with_interval(parts: Sequence[tuple[str, float]]) -> dict[str, float]:
    """Return value, n, stderr, low and high of a mean; the last three NaN where there are not two people to draw."""
    people, numbers = [person for person, _ in parts], [number for _, number in parts]
    mean = math.fsum(numbers) / len(numbers) if numbers else math.nan
    spread = (math.nan, math.nan, math.nan)
    if len(set(people)) > 1:
        stderr, low, high = intervals(resampled_means(np.array([numbers]).T, people))
        spread = (float(stderr[0]), float(low[0]), float(high[0]))
    return {"value": mean, "n": len(numbers), "stderr": spread[0], "low": spread[1], "high": spread[2]}


def _disagreements(questions: Sequence[Record]) -> dict[str, int]:
    """Return on how many questions the two rules differ, in the form of `summary.disagreements`."""
    count = sum(record["correct"]["default"] != record["correct"]["strict"] for record in questions)
    return {"questions": count, "default_official": 0, "default_strict": count, "official_strict": count}


def _fields(questions: Sequence[Record], task: Task) -> dict[str, dict[str, float]]:
    """Return field -> number of facts and the score of each modality, under the default rule or by ROUGE-L."""
    prefix, source = ("rl", "rouge_l") if task == "gen" else ("acc", "default")
    found: dict[str, dict[str, float]] = {}
    for field in sorted({record["field"] for record in questions}):
        own = [(record, value_of(record, source)) for record in questions if record["field"] == field]
        found[field] = {"n": len({instance_of(record) for record, _ in own})}
        for side in ("mul", "uni"):
            score = value(f"{prefix}_{side}", own)
            if score == score:  # a field may be asked in one modality only
                found[field][f"{prefix}_{side}"] = score
    return found
