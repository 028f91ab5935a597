"""The tables of a report: which numbers stand where."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from umu_tasks.benchmarks.instances import MODALITIES, TASK_NAMES, TASKS, Modality, Task
from umu_tasks.benchmarks.splits import is_to_be_forgotten, retain_split
from umu_tasks.report.cells import (
    MINUS,
    NOT_RUN,
    NOTHING,
    Cell,
    Row,
    Table,
    Tone,
    number,
    number_or_nothing,
    points,
)
from umu_tasks.report.compare import (
    ANSWER_TASKS,
    Comparison,
    counts_of,
    headline,
    modality_metric,
    results_of,
)
from umu_tasks.report.intervals import Interval
from umu_tasks.report.outputs import EMPTY_LIMIT, Counts, count_outputs
from umu_tasks.report.published import MISSING
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


def test_split(forget: str) -> str:
    """Return the test set about the people of a forget set: ``forget05`` -> ``test05``."""
    return f"test{forget.removeprefix('forget')}"


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
    same_people = (test_split(forget), retain_split(forget)) if forget else ()
    splits = [split for split in (forget, *same_people, "real", "full") if split in comparison.splits]
    columns = ["Run"]
    for split in splits:
        columns += [f"{split} text", f"{split} image"]
        columns += [f"{split} gap"] if split == forget else []
    rows = []
    for run in comparison.runs:
        measured = [result for result in run.tasks.values() if not result.derived_from]
        scores = struck(_summary_cells(comparison, run, splits, forget), is_invalid=comparison.is_invalid(run))
        cells = (run_cell(comparison, run), *scores, *_count_cells(run, count_outputs(measured))[:2])
        rows.append(Row(cells, comparison.is_invalid(run)))
    return Table(
        title=f"Right answers, {forget}" if forget else "Right answers",
        lead=f"Percent of questions answered right under the {comparison.rule} rule, mean of classification and cloze. "
        "Text: the question names the person. Image: it shows the portrait. Gap: image minus text, in percentage "
        "points. Kept: percent of the start model's score. †: computed from the answers on other splits.",
        columns=(*columns, "Empty", "Refused"),
        rows=tuple(rows),
    )


def _summary_cells(comparison: Comparison, run: RunResult, splits: Sequence[str], forget: str) -> Iterable[Cell]:
    for split in splits:
        right = {modality: comparison.right_answers(run, split, modality) for modality in MODALITIES}
        derived = any(result.derived_from for result in results_of(run, split))
        for modality, fraction in right.items():
            note = "" if split == forget else _kept_note(comparison, run, split, modality)
            if fraction is None:
                yield _partly(comparison, run, split, modality)
            else:
                yield Cell(number(fraction) + "†" * derived, note)
        if split == forget:
            yield points(comparison.gap(run, split))


def _partly(comparison: Comparison, run: RunResult, split: str, modality: Modality) -> Cell:
    """Say what there is of a split on which not both classification and cloze were scored."""
    scored = {task: comparison.modality_value(run, split, task, modality) for task in ANSWER_TASKS}
    known = [f"{TASK_NAMES[task]} {number(one)}" for task, one in scored.items() if one is not None]
    if known:
        return Cell("in part", f"{', '.join(known)} only", "muted")
    if any((split, task) in run.tasks for task in TASKS) and not run.is_published:
        others = [TASK_NAMES[task] for task in TASKS if (split, task) in run.tasks]
        return Cell("in part", f"{', '.join(others)} only", "muted")
    return missing(run)


def _kept_note(comparison: Comparison, run: RunResult, split: str, modality: Modality) -> str:
    after, before = (comparison.right_answers(one, split, modality) for one in (run, comparison.baseline))
    mixed = split == "full" or is_to_be_forgotten(split)  # people to forget are in it
    if mixed or run not in comparison.later or comparison.is_invalid(run) or after is None or not before:
        return ""
    return f"kept {100 * after / before:.1f} %"


# ---- scores -----------------------------------------------------------------------------------------------------


def scores(comparison: Comparison, split: str) -> Table:
    """Return a split's scores: a row for each task and run."""
    columns = ("Task", "Run", "Image", "Text", "Gap", "Any" if _wants_any(split) else "Both", _joint(split))
    rows: list[Row] = []
    for task in TASKS:
        for index, run in enumerate(comparison.runs):
            cells = (
                Cell(TASK_NAMES[task].capitalize() if index == 0 else ""),
                run_cell(comparison, run),
                *_score_cells(comparison, run, split, task),
            )
            rows.append(Row(cells, comparison.is_invalid(run), starts_group=index == 0))
    return Table(
        title=f"{SPLIT_TITLES[kind(split)]} ({split})",
        lead=SPLIT_LEADS[kind(split)],
        columns=(*columns, "n", "Empty", "Refused", "Failed"),
        rows=tuple(rows),
        labels=2,
    )


def _score_cells(comparison: Comparison, run: RunResult, split: str, task: Task) -> tuple[Cell, ...]:
    result = run.tasks.get((split, task))
    if result is None:
        return (missing(run), *(Cell(NOTHING, tone="muted") for _ in range(8)))
    shown = ["acc_any" if _wants_any(split) else "acc_all"] if task != "gen" else []
    metrics = [modality_metric(task, "multimodal"), modality_metric(task, "unimodal"), "modality_gap", *shown]
    cells = [score_cell(comparison, run, split, task, metric) for metric in (*metrics, headline(split, task))]
    cells[3:3] = [] if shown else [Cell(NOTHING, tone="muted")]
    if all(cell.text == NOTHING for cell in cells):
        cells[0] = missing(run)
    n = missing(run) if result.instances is None else _instances_cell(result)
    return (*struck(cells, is_invalid=comparison.is_invalid(run)), n, *_count_cells(run, count_outputs([result])))


def _instances_cell(result: TaskResult) -> Cell:
    alone = f"{result.unpaired} asked one way" if result.unpaired else ""
    return Cell(str(result.instances) + "†" * bool(result.derived_from), alone)


def score_cell(comparison: Comparison, run: RunResult, split: str, task: Task, metric: str) -> Cell:
    """Return a metric under the report's rule with its interval."""
    value = comparison.value(run, split, task, metric)
    if metric == "modality_gap" and value is None:
        image, text = (comparison.modality_value(run, split, task, one) for one in ("multimodal", "unimodal"))
        value = None if image is None or text is None else image - text
    cell = points(value) if metric == "modality_gap" else number_or_nothing(value)
    return replace(cell, note="" if value is None else range_note(comparison.interval(run, split, task, metric)))


def range_note(interval: Interval | None) -> str:
    """Return an interval as ``71–93``, with words where a bound is negative."""
    if interval is None:
        return ""
    low, high = (f"{round(100 * bound)}".replace("-", MINUS) for bound in interval)
    return f"{low} to {high}" if MINUS in low + high else f"{low}–{high}"


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
            moved = _change_cells(comparison, run, split, task)
            if comparison.is_invalid(run) or comparison.is_invalid(comparison.baseline):
                moved = [Cell("invalid", tone="muted"), *[Cell(NOTHING, tone="muted")] * (len(moved) - 1)]
            cells = (label, run_cell(comparison, run), *moved)
            rows.append(Row(cells, comparison.is_invalid(run), starts_group=index == 0))
    if not rows:
        return None
    joint = _joint(split)
    changed = ("Image change", "Text change", f"{joint} change")
    kept = ("Image kept", "Text kept", f"{joint} kept")
    return Table(
        title=f"{SPLIT_TITLES[kind(split)]} ({split}) against {comparison.baseline.name}",
        lead="Change in percentage points, and what is kept, as percent of the start model's score. "
        "≈ marks a change that is within the noise of so few people. Invalid runs have no change to show.",
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
        note = range_note(comparison.change_interval(run, split, task, metric))
        moved.append(Cell(f"≈ {cell.text}" if noise else cell.text, note, "muted" if noise else cell.tone))
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
            questions = (
                Cell(str(counts.questions))
                if counts
                else Cell(MISSING if run.is_published else "not counted", tone="muted")
            )
            label = run_cell(comparison, run) if index == 0 else Cell("")
            cells = (label, Cell(split), questions, *_count_cells(run, counts))
            rows.append(Row(cells, comparison.is_invalid(run), starts_group=index == 0))
    lead = (
        "Percent of the questions. The nearest-option rule scores some empty outputs as right. A run with more than "
        f"{100 * EMPTY_LIMIT:.0f} % empty or failed outputs on a task is called invalid."
    )
    columns = ("Run", "Split", "Questions", "Empty", "Refused", "Failed")
    return Table("Outputs that are no answers", lead, columns, tuple(rows), labels=2)


# ---- cells ---------------------------------------------------------------------------------------------------------


def run_cell(comparison: Comparison, run: RunResult) -> Cell:
    """Return a run's name, with the word that a reader must not miss."""
    if comparison.is_invalid(run):
        return Cell(run.name, "invalid", "warning")
    return Cell(run.name, "start model" if run is comparison.baseline else "")


def missing(run: RunResult) -> Cell:
    """Say why there is no score: it was not run, or the file it was read from has none."""
    return Cell(MISSING if run.is_published else NOT_RUN, tone="muted")


def struck(cells: Iterable[Cell], *, is_invalid: bool) -> list[Cell]:
    """Return the cells, numbers struck out where the run is invalid."""
    return [replace(cell, tone="struck") if is_invalid and not cell.tone else cell for cell in cells]


def _count_cells(run: RunResult, counts: Counts | None) -> tuple[Cell, Cell, Cell]:
    if counts is None:
        unknown = Cell(MISSING if run.is_published else "?", tone="muted")
        return unknown, unknown, unknown
    spoilt: Tone = "warning" if counts.is_broken else ""
    return (
        Cell(number(counts.share(counts.empty)), tone=spoilt if counts.empty else ""),
        Cell(number(counts.share(counts.refused))),
        Cell(number(counts.share(counts.failed)), tone=spoilt if counts.failed else ""),
    )
