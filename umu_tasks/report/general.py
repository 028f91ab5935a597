"""General ability: what lmms-eval's other tasks say of the models, and how it changed against the start model.

Any results file in a run's folders counts, whoever's tasks it holds::

    "results": {"mmmu_val": {"alias": "mmmu_val", "mmmu_acc,none": 0.36, "mmmu_acc_stderr,none": "N/A"}},
    "higher_is_better": {"mmmu_val": {"mmmu_acc": true}}, "n-samples": …, "versions": …, "n-shot": …

Values stay in the task's own unit, since nothing in the file tells fractions from percentages.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from umu_tasks.report.cells import MINUS, NOT_RUN, NOTHING, Cell, Row, Table
from umu_tasks.report.compare import Comparison
from umu_tasks.report.files import Results, origin_of, part
from umu_tasks.report.intervals import Interval, unpaired_interval
from umu_tasks.report.leaves import is_ours
from umu_tasks.report.runs import GeneralScore, Origin, RunResult, split_model_args

Key = tuple[str, str]
"""Task and metric; the metric with its filter, where lmms-eval applied one: ``exact_match (strict)``."""

_ARROWS = {True: " ↑", False: " ↓", None: ""}
_STDERR = "_stderr"


# ---- reading ----------------------------------------------------------------------------------------------------


def read_general(found: Sequence[Results]) -> dict[Key, GeneralScore]:
    """Return the scores of all tasks and groups but ours; of a task that was run twice, the newest.

    Args:
        found: oldest first.
    """
    scores: dict[Key, GeneralScore] = {}
    for results in found:
        others = {task: values for task, values in results.scores.items() if not is_ours(task)}
        for task, values in others.items():
            own = _scores(results, task, values)
            scores = {key: one for key, one in scores.items() if not own or key[0] != task} | own
    return dict(sorted(scores.items()))


def _scores(results: Results, task: str, values: Mapping[str, Any]) -> dict[Key, GeneralScore]:
    better = part(part(results.content, "higher_is_better"), task)
    origin, settings = origin_of(results), _settings(results, task)
    scores = {}
    for key, value in values.items():
        metric, _, filtered = key.partition(",")
        number = _number(value)
        if _STDERR in metric or number is None:
            continue
        name = metric if filtered in ("", "none") else f"{metric} ({filtered})"
        direction = better.get(metric)
        scores[task, name] = GeneralScore(
            value=number,
            stderr=_number(values.get(f"{metric}{_STDERR},{filtered}")),
            higher_is_better=direction if isinstance(direction, bool) else None,
            settings=settings,
            origin=origin,
        )
    return scores


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _settings(results: Results, task: str) -> dict[str, str]:
    """Return what must be equal for two models' scores on a task to compare, as far as the file tells."""
    content, origin = results.content, origin_of(results)
    arguments = split_model_args(origin.model_args)
    counts = part(part(content, "n-samples"), task)
    told = {
        "version": part(content, "versions").get(task),
        "examples": part(content, "n-shot").get(task),
        "questions": counts.get("effective"),
        "limit": origin.limit or None,
        "backend": origin.model,
        "prompt style": arguments.get("prompt"),
        "system prompt": arguments.get("system_prompt") or content.get("system_instruction"),
        "generation": origin.settings.get("gen_kwargs"),
        "questions' hash": part(content, "task_hashes").get(task),
    }
    return {name: str(value) for name, value in told.items() if value not in (None, "")}


# ---- against the start model ------------------------------------------------------------------------------------


def change_interval(after: GeneralScore, before: GeneralScore) -> Interval | None:
    """Return the 95 % interval of the change from both standard errors, None where one is missing."""
    if after.stderr is None or before.stderr is None:
        return None
    return unpaired_interval(after.value, after.stderr, before.value, before.stderr)


def keys(comparison: Comparison) -> list[Key]:
    """Return the tasks and metrics that any run has."""
    return sorted({key for run in comparison.runs for key in run.general})


def verdict(after: GeneralScore, before: GeneralScore) -> str:
    """Say in a word or two what became of a score: better, worse, within the noise; "" where it can't be told."""
    change, interval = after.value - before.value, change_interval(after, before)
    if change == 0:
        return "same"
    if interval is not None and interval.holds_zero:
        return "within the noise"
    if after.higher_is_better is None:
        return ""
    word = "better" if (change > 0) == after.higher_is_better else "worse"
    return word if interval is not None else f"{word}, noise not known"


def table(comparison: Comparison) -> Table | None:
    """Return a row for each task and metric, None where no run was given other tasks."""
    rows, previous = [], ""
    for key in keys(comparison):
        found = {run.name: run.general[key] for run in comparison.runs if key in run.general}
        first = next(iter(found.values()))
        label = (Cell(key[0] if key[0] != previous else ""), Cell(key[1] + _ARROWS[first.higher_is_better]))
        cells = [_value_cell(run, found) for run in comparison.runs]
        changes = [_change_cell(comparison, run, found) for run in comparison.others]
        rows.append(Row((*label, *cells, *changes), starts_group=key[0] != previous))
        previous = key[0]
    if not rows:
        return None
    return Table(
        title="General ability",
        lead="Other people's tasks in the runs' folders, in each task's own unit. ↑ higher is better, ↓ lower is "
        "better. Small numbers: ± is the standard error; below a change is its 95 % interval, from both standard "
        "errors as if of different questions, so the real one is narrower. No interval: lmms-eval gives no standard "
        "error for this metric.",
        columns=("Task", "Metric", *(run.name for run in comparison.runs), *_change_columns(comparison)),
        rows=tuple(rows),
        labels=2,
    )


def _change_columns(comparison: Comparison) -> list[str]:
    return [f"{run.name} − {comparison.baseline.name}" for run in comparison.others]


def _value_cell(run: RunResult, found: Mapping[str, GeneralScore]) -> Cell:
    score = found.get(run.name)
    if score is None:
        return Cell(NOT_RUN, tone="muted")
    return Cell(plain_number(score.value), "" if score.stderr is None else f"± {plain_number(score.stderr)}")


def _change_cell(comparison: Comparison, run: RunResult, found: Mapping[str, GeneralScore]) -> Cell:
    after, before = found.get(run.name), found.get(comparison.baseline.name)
    if after is None or before is None:
        return Cell(NOTHING, tone="muted")
    interval, word = change_interval(after, before), verdict(after, before)
    spread = "" if interval is None else f"{signed(interval.low)} to {signed(interval.high)}"
    note = ", ".join(one for one in (spread, word) if one)
    noise = interval is not None and interval.holds_zero
    return Cell(signed(after.value - before.value), note, "muted" if noise else "warning" if word == "worse" else "")


def plain_number(value: float) -> str:
    """Return a number with four figures that count.

    >>> plain_number(0.361234), plain_number(1432.7), plain_number(0.0)
    ('0.3612', '1433', '0')
    """
    return f"{value:.4g}".replace("-", MINUS)


def signed(value: float) -> str:
    """Return a difference with its sign."""
    return plain_number(value) if value <= 0 else f"+{plain_number(value)}"


def rows_as_data(comparison: Comparison) -> Iterator[Sequence[object]]:
    """Yield the table unrounded; an empty cell: lmms-eval does not say."""
    for key in keys(comparison):
        before = comparison.baseline.general.get(key)
        for run in comparison.runs:
            score = run.general.get(key)
            if score is None:
                continue
            other = None if run is comparison.baseline else before
            change = None if other is None else score.value - other.value
            low, high = (other and change_interval(score, other)) or (None, None)
            questions = score.settings.get("questions")
            own = (*key, run.name, score.value, score.stderr, score.higher_is_better, questions)
            yield *own, change, low, high, comparison.is_invalid(run)


DATA = (
    "task", "metric", "run", "value", "stderr", "higher_is_better", "questions", "change", "change_low", "change_high",
    "invalid",
)  # fmt: skip


# ---- what a reader must know ------------------------------------------------------------------------------------


def cautions(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Yield (run, what spoils the comparison); run is "" where it is about several."""
    runs = [run for run in comparison.runs if not run.is_published]
    tasks = dict.fromkeys(task for task, _ in keys(comparison))
    for task in tasks:
        scored = {run.name: _of_task(run, task) for run in runs}
        known = {name: score for name, score in scored.items() if score is not None}
        lacking = [name for name, score in scored.items() if score is None]
        if lacking and (comparison.baseline.name in lacking or not comparison.others or len(known) == 1):
            told = f"The suite {task} was run on {', '.join(known)} and not on {', '.join(lacking)}"
            yield "", f"{told}: what unlearning did to it can't be told. Run it on the start model and on each other."
        elif lacking:
            yield "", f"The suite {task} was not run on {', '.join(lacking)}."
        yield from (("", told) for told in _differences(task, known))
    for run in runs:
        yield from _other_weights(run)
    yield from _shared_weights(runs)


def _of_task(run: RunResult, task: str) -> GeneralScore | None:
    return next((score for (own, _), score in run.general.items() if own == task), None)


def _differences(task: str, known: Mapping[str, GeneralScore]) -> Iterator[str]:
    for name in dict.fromkeys(name for score in known.values() for name in score.settings):
        groups: dict[str, list[str]] = {}
        for run, score in known.items():
            groups.setdefault(score.settings.get(name, "none"), []).append(run)
        if len(groups) > 1:
            told = " / ".join(f"{', '.join(runs)}: {_short(value)}" for value, runs in groups.items())
            yield f"{task} was not run alike on all models ({name}: {told}). Its changes mean little."


def _short(value: str) -> str:
    return value if len(value) < 40 else f"{value[:12]}…"


def _other_weights(run: RunResult) -> Iterator[tuple[str, str]]:
    ours = {origin.weights for origin in run.origins} - {()}
    for origin in _origins(run):
        if ours and origin.weights and origin.weights not in ours:
            theirs, own = " + ".join(origin.weights), " + ".join(next(iter(ours)))
            told = f"its general ability was measured on {theirs}, its forgetting on {own}: is that the same model?"
            yield run.name, told
            return


def _shared_weights(runs: Sequence[RunResult]) -> Iterator[tuple[str, str]]:
    """The folder of one model's general ability, given for two models, would show that nothing was lost."""
    found: dict[Path, list[str]] = {}
    for run in runs:
        for file in dict.fromkeys(origin.file.resolve() for origin in _origins(run)):
            found.setdefault(file, []).append(run.name)
    for file, names in found.items():
        if len(names) > 1:
            yield "", f"{' and '.join(names)} were given the same results of other tasks ({file}). Run them on each."


def _origins(run: RunResult) -> list[Origin]:
    return list({score.origin.file: score.origin for score in run.general.values()}.values())
