"""The tables of a report: which numbers stand where."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from umu_tasks.benchmarks.instances import MODALITIES, TASK_NAMES, TASKS, Modality, Task
from umu_tasks.benchmarks.splits import retain_split
from umu_tasks.report.cells import NOT_RUN, NOTHING, Cell, Row, Table, Tone, gap, number, number_or_nothing, points
from umu_tasks.report.compare import (
    Comparison,
    counts_of,
    headline,
    modality_metric,
    results_of,
    right_answers,
)
from umu_tasks.report.intervals import wilson
from umu_tasks.report.outputs import EMPTY_LIMIT, Counts, count_outputs
from umu_tasks.report.runs import RunResult, TaskResult

SPLIT_TITLES = {
    "forget": "Forget set",
    "test": "Test set",
    "retain": "Retain set",
    "real": "Real people",
    "full": "Full set",
}
SPLIT_LEADS = {
    "forget": "People the model was made to forget. Lower is better.",
    "test": "The forgotten people in new pictures and wordings. Lower is better.",
    "retain": "Invented people the model should go on knowing. Higher is better.",
    "real": "Real people, whom nobody asked to forget: collateral damage shows here. Higher is better.",
    "full": "All invented people, forget set and retain set together: what the model had learned.",
}


def kind(split: str) -> str:
    """Return ``forget`` for ``forget05``, and alike."""
    return next(kind for kind in SPLIT_TITLES if split.startswith(kind))


def _joint(split: str) -> str:
    return f"{headline(split, 'cls')} / {headline(split, 'gen')}"


def _wants_any(split: str) -> bool:
    """Tell whether an instance counts as known by one modality (people to forget) or by both (people to keep)."""
    return headline(split, "cls") == "acc_f"


# ---- summary ----------------------------------------------------------------------------------------------------


def summary(comparison: Comparison) -> list[Table]:
    """Return one table for each forget set: a row a run, right answers in each modality (classification and cloze)."""
    forgets = comparison.forget_splits() or ("",)
    return [_summary(comparison, forget) for forget in forgets]


def _summary(comparison: Comparison, forget: str) -> Table:
    splits = [split for split in (forget, retain_split(forget) if forget else "", "real", "full") if split]
    splits = [split for split in splits if split in comparison.splits]
    columns = ["Run"]
    for split in splits:
        columns += [f"{split} text", f"{split} image"]
        columns += [f"{split} gap"] if split == forget else []
    rows = [
        Row((_run_cell(comparison, run), *_summary_cells(comparison, run, splits, forget)), _invalid(comparison, run))
        for run in comparison.runs
    ]
    return Table(
        title=f"Right answers, {forget}" if forget else "Right answers",
        lead="Percent of questions answered right, mean of classification and cloze. Text: the question names the "
        "person. Image: it shows the portrait. Gap: image minus text, in percentage points. Kept: percent of the start "
        "model's score. †: computed from the answers on other splits.",
        columns=(*columns, "Empty", "Refused"),
        rows=tuple(rows),
    )


def _summary_cells(comparison: Comparison, run: RunResult, splits: Sequence[str], forget: str) -> Iterable[Cell]:
    for split in splits:
        right = {modality: right_answers(run, split, modality) for modality in MODALITIES}
        derived = any(result.derived_from for result in results_of(run, split))
        for modality, fraction in right.items():
            note = "" if split == forget else _kept_note(comparison, run, split, modality)
            yield Cell(NOT_RUN, tone="muted") if fraction is None else Cell(number(fraction) + "†" * derived, note)
        if split == forget:
            yield gap(right["multimodal"], right["unimodal"])
    counts = count_outputs(result for result in run.tasks.values() if not result.derived_from)
    yield from _count_cells(counts)[:2]


def _kept_note(comparison: Comparison, run: RunResult, split: str, modality: Modality) -> str:
    after, before = right_answers(run, split, modality), right_answers(comparison.baseline, split, modality)
    if run not in comparison.later or _invalid(comparison, run) or after is None or not before:
        return ""
    return f"kept {100 * after / before:.1f} %"


# ---- scores -----------------------------------------------------------------------------------------------------


def scores(comparison: Comparison, split: str) -> Table:
    """Return a split's scores: a row for each task and run."""
    columns = ("Task", "Run", "Image", "Text", "Gap", "Any" if _wants_any(split) else "Both", _joint(split))
    rows: list[Row] = []
    for task in TASKS:
        for index, run in enumerate(comparison.runs):
            result = run.tasks.get((split, task))
            cells = (
                Cell(TASK_NAMES[task].capitalize() if index == 0 else ""),
                _run_cell(comparison, run),
                *_score_cells(result, split, task),
            )
            rows.append(Row(cells, _invalid(comparison, run), starts_group=index == 0))
    return Table(
        title=f"{SPLIT_TITLES[kind(split)]} ({split})",
        lead=SPLIT_LEADS[kind(split)],
        columns=(*columns, "n", "Empty", "Refused", "Failed"),
        rows=tuple(rows),
        labels=2,
    )


def _score_cells(result: TaskResult | None, split: str, task: Task) -> tuple[Cell, ...]:
    if result is None:
        return (Cell(NOT_RUN, tone="muted"), *(Cell(NOTHING, tone="muted") for _ in range(8)))
    image, text = (result.metrics.get(modality_metric(task, modality)) for modality in ("multimodal", "unimodal"))
    both = result.metrics.get("acc_any" if _wants_any(split) else "acc_all")
    joint = result.metrics.get(headline(split, task))
    counts = count_outputs([result])
    return (
        _score(image, result),
        _score(text, result),
        gap(image, text),
        _score(both, result) if task != "gen" else Cell(NOTHING, tone="muted"),
        _score(joint, result),
        Cell(str(result.instances) + ("†" if result.derived_from else "")),
        *_count_cells(counts),
    )


def _score(fraction: float | None, result: TaskResult) -> Cell:
    if fraction is None:
        return Cell(NOTHING, tone="muted")
    if not result.instances:
        return Cell(number(fraction))
    low, high = wilson(fraction, result.instances)
    return Cell(number(fraction), f"{100 * low:.0f}–{100 * high:.0f}")


# ---- against the start model ------------------------------------------------------------------------------------


def changes(comparison: Comparison, split: str) -> Table | None:
    """Return a split's changes against the start model, None where nothing can be compared."""
    rows: list[Row] = []
    for task in TASKS:
        runs = [run for run in comparison.others if (split, task) in run.tasks]
        if (split, task) not in comparison.baseline.tasks:
            continue
        for index, run in enumerate(runs):
            label = Cell(TASK_NAMES[task].capitalize() if index == 0 else "")
            cells = (label, _run_cell(comparison, run), *_change_cells(comparison, run, split, task))
            rows.append(Row(cells, _invalid(comparison, run), starts_group=index == 0))
    if not rows:
        return None
    joint = _joint(split)
    changed = ("Image change", "Text change", f"{joint} change")
    kept = ("Image kept", "Text kept", f"{joint} kept")
    return Table(
        title=f"{SPLIT_TITLES[kind(split)]} ({split}) against {comparison.baseline.name}",
        lead="Change in percentage points, and what is kept, as percent of the start model's score. "
        "≈ marks a change that is within the noise of so few questions.",
        columns=("Task", "Run", *changed, *kept),
        rows=tuple(rows),
        labels=2,
    )


def _change_cells(comparison: Comparison, run: RunResult, split: str, task: Task) -> list[Cell]:
    metrics = (modality_metric(task, "multimodal"), modality_metric(task, "unimodal"), headline(split, task))
    moved = []
    for metric in metrics:
        noise = comparison.is_noise(run, split, task, metric)
        cell = points(comparison.change(run, split, task, metric))
        moved.append(Cell(f"≈ {cell.text}" if noise else cell.text, tone="muted" if noise else cell.tone))
    left = [number_or_nothing(comparison.kept(run, split, task, metric)) for metric in metrics]
    return [*moved, *left]


# ---- outputs -------------------------------------------------------------------------------------------------------


def outputs(comparison: Comparison) -> Table:
    """Return how many outputs were no answers: a row for each run and split it was asked on."""
    rows = []
    for run in comparison.runs:
        measured = [split for split in run.splits if not any(result.derived_from for result in results_of(run, split))]
        for index, split in enumerate(measured):
            counts = counts_of(run, split)
            questions = Cell(str(counts.questions)) if counts else Cell("not counted", tone="muted")
            label = _run_cell(comparison, run) if index == 0 else Cell("")
            cells = (label, Cell(split), questions, *_count_cells(counts))
            rows.append(Row(cells, _invalid(comparison, run), starts_group=index == 0))
    lead = (
        "Percent of the questions. The nearest-option rule scores some empty outputs as right. A run with more than "
        f"{100 * EMPTY_LIMIT:.0f} % empty or failed outputs on a split is called invalid."
    )
    columns = ("Run", "Split", "Questions", "Empty", "Refused", "Failed")
    return Table("Outputs that are no answers", lead, columns, tuple(rows), labels=2)


# ---- cells ---------------------------------------------------------------------------------------------------------


def _run_cell(comparison: Comparison, run: RunResult) -> Cell:
    note = "start model" if run is comparison.baseline else ""
    if _invalid(comparison, run):
        return Cell(run.name, "invalid", "warning")
    return Cell(run.name, note)


def _invalid(comparison: Comparison, run: RunResult) -> bool:
    return run.name in comparison.invalid


def _count_cells(counts: Counts | None) -> tuple[Cell, Cell, Cell]:
    if counts is None:
        unknown = Cell("?", tone="muted")
        return unknown, unknown, unknown
    spoilt: Tone = "warning" if counts.is_broken else ""
    return (
        Cell(number(counts.share(counts.empty)), tone=spoilt if counts.empty else ""),
        Cell(number(counts.share(counts.refused))),
        Cell(number(counts.share(counts.failed)), tone=spoilt if counts.failed else ""),
    )
