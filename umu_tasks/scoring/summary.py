"""What one leaf task's records say: every metric with its uncertainty, counts, disagreements, scores by field."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from umu_tasks.benchmarks.instances import Task
from umu_tasks.scoring import unpaired
from umu_tasks.scoring.bootstrap import intervals, resampled_means
from umu_tasks.scoring.counts import counts_and_rates
from umu_tasks.scoring.metrics import (
    INSTANCE_VALUES,
    METRICS,
    ReportedMetric,
    reported_metrics,
    value_of,
)
from umu_tasks.scoring.pairing import Pair, instance_of, leaf_of, pair_by_key

Record = Mapping[str, Any]
RecordPair = tuple[Record, Record]
"""(multimodal, unimodal) of one knowledge instance."""


def summarize(records: Sequence[Record]) -> dict[str, Any]:
    """Return the numbers of one leaf task.

    Args:
        records: of one split and task, in any order; see `umu_tasks.tasks.records` for their form.

    Returns:
        ``split``, ``task``, ``people``, ``instances`` (paired), ``questions``, ``unpaired`` (instances with one
        modality only, which enter no metric);
        ``metrics``: name -> ``value``, ``n`` (instances behind it), ``stderr``, ``low``, ``high`` (95 % interval;
        these three NaN with fewer than two people);
        ``counts`` and ``rates`` of refusals, empty and failed outputs over all questions, and of the one answer given
        most often (``same_output``);
        ``rules_disagree``: on how many questions the rules' verdicts differ (classification and cloze);
        ``fields``: field of knowledge -> ``n`` and the score of each modality.

    Raises:
        ScoringError: no records, records of more than one split or task, or two that contradict each other.
    """
    if records and records[0].get("benchmark") in unpaired.RULE_VERSIONS:
        return unpaired.summarize(records)
    split, task = leaf_of(records)
    pairing = pair_by_key((record, record) for record in records)
    # a fixed order makes the result independent of the order of the records, and so of the number of processes
    pairs = [pair for _, pair in sorted(pairing.pairs.items())]
    questions = list({(instance_of(record), record["modality"]): record for record in records}.values())
    summary = {
        "split": split,
        "task": task,
        "people": len({record["profile_id"] for record in records}),
        "instances": len(pairs),
        "questions": len(questions),
        "unpaired": len(pairing.unpaired),
        "metrics": _metrics(pairs, reported_metrics(task, split)),
        **counts_and_rates(questions),
        "fields": _fields(pairs, task),
    }
    return summary if task == "gen" else summary | {"rules_disagree": disagreements(questions)}


def disagreements(questions: Sequence[Record]) -> dict[str, int]:
    """Return on how many questions the three rules differ at all (``questions``), and each two of them."""
    verdicts = [record["correct"] for record in questions]
    counts = {"questions": sum(len(set(by_rule.values())) > 1 for by_rule in verdicts)}
    for one, other in (("default", "official"), ("default", "strict"), ("official", "strict")):
        counts[f"{one}_{other}"] = sum(by_rule[one] != by_rule[other] for by_rule in verdicts)
    return counts


def _metrics(pairs: Sequence[RecordPair], reported: Sequence[ReportedMetric]) -> dict[str, dict[str, float]]:
    """Return name -> value, n, stderr, low, high."""
    values = {metric.name: _values(pairs, metric.source) for metric in reported}
    spreads = _spreads(pairs, reported, values)
    return {
        metric.name: {"value": METRICS[metric.base](values[metric.name]), "n": len(pairs)} | spread
        for metric, spread in zip(reported, spreads, strict=True)
    }


def _values(pairs: Sequence[RecordPair], source: str) -> list[Pair]:
    return [Pair(value_of(multimodal, source), value_of(unimodal, source)) for multimodal, unimodal in pairs]


def _spreads(
    pairs: Sequence[RecordPair], reported: Sequence[ReportedMetric], values: Mapping[str, Sequence[Pair]]
) -> list[dict[str, float]]:
    """Return stderr, low and high of each metric; NaN where there are not two people to draw from."""
    people = [multimodal["profile_id"] for multimodal, _ in pairs]
    if len(set(people)) < 2:
        return [dict.fromkeys(("stderr", "low", "high"), math.nan) for _ in reported]
    columns = [[INSTANCE_VALUES[metric.base](pair) for pair in values[metric.name]] for metric in reported]
    stderr, low, high = intervals(resampled_means(np.array(columns).T, people))
    return [
        {"stderr": float(s), "low": float(lo), "high": float(hi)} for s, lo, hi in zip(stderr, low, high, strict=True)
    ]


def _fields(pairs: Sequence[RecordPair], task: Task) -> dict[str, dict[str, float]]:
    """Return field -> its instances' number and scores: the default rule's verdicts, or ROUGE-L."""
    prefix, source = ("rl", "rouge_l") if task == "gen" else ("acc", "default")
    by_field: dict[str, list[RecordPair]] = {}
    for pair in pairs:
        by_field.setdefault(pair[0]["field"], []).append(pair)
    return {
        field: {"n": len(some)}
        | {f"{prefix}_{side}": METRICS[f"{prefix}_{side}"](_values(some, source)) for side in ("mul", "uni")}
        for field, some in sorted(by_field.items())
    }
