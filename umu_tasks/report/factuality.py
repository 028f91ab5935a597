"""Factuality of generated sentences, from 1 to 10, as a judge model scored them with `umu judge`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from umu_tasks.benchmarks.errors import DataError
from umu_tasks.benchmarks.instances import Task
from umu_tasks.judge.scores import SUFFIX, read_factuality
from umu_tasks.report.cells import MINUS, NOTHING, Cell, Row, Table
from umu_tasks.report.compare import Comparison
from umu_tasks.report.files import Results
from umu_tasks.report.intervals import Interval, unpaired_interval
from umu_tasks.report.leaves import LeafName
from umu_tasks.report.runs import RunResult

Judged = dict[tuple[str, Task], Mapping[str, Any]]
NOT_JUDGED = "not judged"
SIDES = {"Image": "factuality_mul", "Text": "factuality_uni"}
COUNTS = ("judged", "answers", "unreadable", "not_judged", "empty", "failed")


def read_judged(folders: Sequence[Path], newest: Mapping[LeafName, Results]) -> tuple[Judged, list[str]]:
    """Return the judge's numbers of the tasks that a report shows, and notices on those left out.

    Args:
        newest: leaf task -> the results file that its scores are from.

    Raises:
        DataError: a file of the judge can't be read.
    """
    found: dict[str, dict[str, Any]] = {}
    for folder in folders:
        try:
            found |= read_factuality(folder)
        except (ValueError, KeyError, TypeError, OSError) as error:
            problem = f"a file *{SUFFIX} can't be read ({error}). Delete it and run `umu judge` again."
            raise DataError(problem, file=str(folder)) from error
    own = {leaf: found[str(leaf)] for leaf in newest if str(leaf) in found}
    fresh = {leaf for leaf in own if newest[leaf].file.with_name(f"{newest[leaf].stamp}{SUFFIX}").is_file()}
    old = [str(leaf) for leaf in own if leaf not in fresh]
    notices = (
        [f"{', '.join(old)}: only an older evaluation's answers were judged. Run `umu judge` again."] if old else []
    )
    return {(leaf.split, leaf.task): numbers for leaf, numbers in own.items() if leaf in fresh}, notices


def table(comparison: Comparison) -> Table | None:
    """Return a row for each split and run, None where no run was judged.

    MLLMU-Bench has such a score, so its reports say that nobody judged.
    """
    runs = [run for run in comparison.runs if not run.is_published]
    if not any(run.factuality for run in runs) and comparison.baseline.benchmark != "mllmu":
        return None
    rows = []
    for split in comparison.splits:
        asked = [run for run in runs if _is_asked(run, split)]
        for index, run in enumerate(asked):
            label = (Cell(split if index == 0 else ""), _name(comparison, run))
            cells = (*label, *_cells(comparison, run, split))
            rows.append(Row(cells, comparison.is_invalid(run), starts_group=index == 0))
    if not rows:
        return None
    return Table(
        title="Factuality by a judge",
        lead="Mean score, 1 to 10, that a judge model gave the generated sentences (`umu judge`), with the 95 % "
        "interval over people; on people to forget lower is better, elsewhere higher. An empty answer scores 1. "
        "Changes against the start model have the interval of two independent means. Scores of different judges do not "
        "compare.",
        columns=("Split", "Run", "Image", "Text", "Image change", "Text change", "Judged", "Unreadable", "Not judged"),
        rows=tuple(rows),
        labels=2,
    )


def _is_asked(run: RunResult, split: str) -> bool:
    result = run.tasks.get((split, "gen"))
    return result is not None and not result.derived_from


def _name(comparison: Comparison, run: RunResult) -> Cell:
    if comparison.is_invalid(run):
        return Cell(run.name, "invalid", "warning")
    return Cell(run.name, "start model" if run is comparison.baseline else "")


def _cells(comparison: Comparison, run: RunResult, split: str) -> list[Cell]:
    numbers = run.factuality.get((split, "gen"))
    if numbers is None:
        return [Cell(NOT_JUDGED, tone="muted"), *[Cell(NOTHING, tone="muted")] * 6]
    before = comparison.baseline.factuality.get((split, "gen"))
    scores = [_score(numbers[side]) for side in SIDES.values()]
    changes = [_change(numbers[side], None if run is comparison.baseline or before is None else before[side])
               for side in SIDES.values()]  # fmt: skip
    counts = [Cell(f"{numbers['judged']} of {numbers['answers']}"), Cell(str(numbers["unreadable"]))]
    waiting = int(numbers["not_judged"])
    return [*scores, *changes, *counts, Cell(str(waiting), tone="warning" if waiting else "")]


def _score(mean: Mapping[str, float | None]) -> Cell:
    value, low, high = (mean.get(name) for name in ("value", "low", "high"))
    if value is None:
        return Cell(NOT_JUDGED, tone="muted")
    return Cell(f"{value:.2f}", "" if low is None or high is None else f"{low:.1f}–{high:.1f}")


def _change(after: Mapping[str, float | None], before: Mapping[str, float | None] | None) -> Cell:
    new, old = after.get("value"), None if before is None else before.get("value")
    if before is None or new is None or old is None:
        return Cell(NOTHING, tone="muted")
    spreads = after.get("stderr"), before.get("stderr")
    text = f"{new - old:+.2f}".replace("-", MINUS)
    if spreads[0] is None or spreads[1] is None:
        return Cell(text)
    interval: Interval = unpaired_interval(new, spreads[0], old, spreads[1])
    note = f"{interval.low:.1f} to {interval.high:.1f}".replace("-", MINUS)
    return Cell(f"≈ {text}" if interval.holds_zero else text, note, "muted" if interval.holds_zero else "")


DATA = ("run", "split", "modality", "value", "low", "high", "stderr", *COUNTS, "judge", "invalid")


def rows_as_data(comparison: Comparison) -> Iterator[Sequence[object]]:
    """Yield the scores unrounded, a row a modality; the counts are of both modalities together."""
    for run in comparison.runs:
        for (split, _), numbers in run.factuality.items():
            for modality, side in (("multimodal", SIDES["Image"]), ("unimodal", SIDES["Text"])):
                mean = [numbers[side].get(name) for name in ("value", "low", "high", "stderr")]
                counts = [numbers.get(name) for name in COUNTS]
                yield run.name, split, modality, *mean, *counts, judge_of(numbers), comparison.is_invalid(run)


def judge_of(numbers: Mapping[str, Any]) -> str:
    """Return the judge's model, address and rubric in a line, "" when the file does not say."""
    judge = numbers.get("judge")
    return ", ".join(f"{name} {value}" for name, value in judge.items()) if isinstance(judge, Mapping) else ""


def cautions(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Yield (run, what spoils the factuality scores)."""
    judges: dict[str, list[str]] = {}
    for run in comparison.runs:
        for judge in {judge_of(numbers) for numbers in run.factuality.values()} - {""}:
            judges.setdefault(judge, []).append(run.name)
        waiting = sum(int(numbers["not_judged"]) for numbers in run.factuality.values())
        if waiting:
            yield run.name, f"{waiting} answers wait for the judge: run `umu judge` again to complete them."
    if len(judges) > 1:
        told = " / ".join(f"{', '.join(names)}: {judge}" for judge, names in judges.items())
        yield "", f"Factuality was scored by different judges ({told}). Their scores do not compare."
    judged = [run.name for run in comparison.runs if run.factuality]
    rest = [run.name for run in comparison.runs if not run.factuality and not run.is_published]
    if judged and rest:
        yield "", f"Factuality was judged for {', '.join(judged)} and not for {', '.join(rest)}."
