"""Scores and intervals of answers that stand together in no results file: derived splits, runs without our plugin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from umu_tasks.benchmarks.instances import Task
from umu_tasks.report.runs import RULE_NAMES, Answer, TaskResult
from umu_tasks.scoring.metrics import METRICS, metric_names


def summarize_answers(split: str, answers: Sequence[Answer]) -> dict[str, Any]:
    """Return the summary of one task's answers; empty where the samples are too old to hold whole records."""
    from umu_tasks.scoring.summary import summarize

    if not answers or not all(answer.record for answer in answers):
        return {}
    return summarize([{**answer.record, "split": split} for answer in answers])


def summarized_metrics(summary: Mapping[str, Any]) -> dict[str, float]:
    """Return metric name -> value of a summary, without values that are no numbers (nothing to score)."""
    values = {name: found.get("value") for name, found in summary.get("metrics", {}).items()}
    return {name: float(one) for name, one in values.items() if one is not None and one == one}


def scored_answers(split: str, task: Task, answers: Sequence[Answer], sources: tuple[str, ...]) -> TaskResult:
    """Return the scores of answers that were given on other splits."""
    summary = summarize_answers(split, answers)
    result = TaskResult(split, task, {}, len(answers), tuple(answers), summary, sources)
    for rule in RULE_NAMES:
        pairs = list(result.pairs(rule).values())
        result.metrics.update(
            {result.name_under(m, rule): METRICS[m](pairs) for m in metric_names(task, split) if pairs}
        )
    result.metrics.update(summarized_metrics(summary))
    return result
