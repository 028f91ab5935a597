"""The numbers of a report as CSV files, unrounded, for whoever makes tables and pictures of their own."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from umu_tasks.report import factuality, general
from umu_tasks.report.canvas import Plot
from umu_tasks.report.compare import Comparison
from umu_tasks.report.details import disagreements, field_scores
from umu_tasks.report.outputs import count_outputs
from umu_tasks.report.runs import RULE_NAMES, RunResult, TaskResult
from umu_tasks.scoring.answers import suffix

Rows = Iterable[Sequence[object]]

SCORES = (
    "run", "split", "task", "metric", "rule", "value", "low", "high", "stderr", "instances", "people", "computed_from",
    "source", "invalid",
)  # fmt: skip
OUTPUTS = ("run", "split", "task", "questions", "empty", "refused", "failed", "rules_disagree", "invalid")
FIELDS = ("run", "split", "task", "field", "instances", "multimodal", "unimodal", "invalid")


def write_data(comparison: Comparison, plots: Sequence[Plot], out: Path) -> list[Path]:
    """Write ``scores.csv``, ``outputs.csv``, ``fields.csv`` and one file a picture; values are fractions in [0, 1].

    The pictures' files are in percent, as drawn. An empty cell: the run does not say. ``general.csv`` (other people's
    tasks, in their own units) and ``factuality.csv`` (1 to 10) are there where a run has such scores.
    """
    tables: dict[str, tuple[Sequence[str], Rows]] = {
        "scores": (SCORES, _scores(comparison)),
        "outputs": (OUTPUTS, _outputs(comparison)),
        "fields": (FIELDS, _fields(comparison)),
        **({"general": (general.DATA, general.rows_as_data(comparison))} if general.keys(comparison) else {}),
        **({"factuality": (factuality.DATA, factuality.rows_as_data(comparison))} if _is_judged(comparison) else {}),
        **{plot.name: (plot.columns, plot.rows) for plot in plots},
    }
    return [_write(out / f"{name}.csv", columns, rows) for name, (columns, rows) in tables.items()]


def _is_judged(comparison: Comparison) -> bool:
    return any(run.factuality for run in comparison.runs)


def _write(file: Path, columns: Sequence[str], rows: Rows) -> Path:
    with file.open("w", newline="", encoding="utf-8") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
    return file


def _results(comparison: Comparison) -> Iterator[tuple[RunResult, TaskResult]]:
    for run in comparison.runs:
        for result in run.tasks.values():
            yield run, result


def _scores(comparison: Comparison) -> Iterator[Sequence[object]]:
    for run, result in _results(comparison):
        source = "published evaluator" if run.is_published else "lmms-eval"
        where = (result.instances, result.people, " ".join(result.derived_from), source, comparison.is_invalid(run))
        for name, value in result.metrics.items():
            metric, rule = _rule_of(name, result)
            low, high = result.interval(name) or (None, None)
            yield run.name, result.split, result.task, metric, rule, value, low, high, result.stderr(name), *where


def _rule_of(name: str, result: TaskResult) -> tuple[str, str]:
    """Return a metric's name without the rule's suffix, and the rule; "" where no rule is at work."""
    for rule in RULE_NAMES:
        if suffix(rule) and name.endswith(suffix(rule)):
            return name.removesuffix(suffix(rule)), rule
    scored = result.task != "gen" and name.startswith(("acc_", "modality_gap"))
    return name, "default" if scored else ""


def _outputs(comparison: Comparison) -> Iterator[Sequence[object]]:
    for run, result in _results(comparison):
        counts, differing = count_outputs([result]), disagreements(result)
        told = (counts.questions, counts.empty, counts.refused, counts.failed) if counts else (None,) * 4
        differ = differing["questions"] if differing else None
        yield run.name, result.split, result.task, *told, differ, comparison.is_invalid(run)


def _fields(comparison: Comparison) -> Iterator[Sequence[object]]:
    for split in comparison.splits:
        for task, field, run, numbers in field_scores(comparison, split):
            scores = (numbers.get("n"), numbers.get("mul"), numbers.get("uni"))
            yield run.name, split, task, field, *scores, comparison.is_invalid(run)
