"""Pictures that look behind a score: which way of asking still works, and for which facts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from umu_tasks.benchmarks.instances import TASK_NAMES, TASKS, Task
from umu_tasks.report.canvas import Plot, in_percent, look, percent_axes, render
from umu_tasks.report.compare import ANSWER_TASKS, Comparison
from umu_tasks.report.details import field_scores
from umu_tasks.report.runs import RunResult
from umu_tasks.scoring.metrics import METRICS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PARTS = ("both", "image only", "text only", "neither")
_COLOURS = ("#0072B2", "#56B4E9", "#E69F00", "#9AA5B1")
_HATCHES = ("", "..", "//", "")  # readable without colour


def decomposition(comparison: Comparison, split: str) -> Plot | None:
    """Draw which way of asking brings the facts out, None where no run has the numbers."""
    found = {task: _parts_by_run(comparison, split, task) for task in ANSWER_TASKS}
    if not any(found.values()):
        return None
    runs = comparison.runs

    def paint(figure: Figure, ink: str, grid: str) -> None:
        axes = figure.subplots(1, len(ANSWER_TASKS), sharey=True, squeeze=False)[0]
        for axis, task in zip(axes, ANSWER_TASKS, strict=True):
            percent_axes(axis, grid, vertical=False)
            axis.set_xlim(0, 100)
            axis.set_title(TASK_NAMES[task].capitalize())
            axis.set_xlabel("Knowledge instances (%)")
            for row, run in enumerate(runs):
                _stack(axis, found[task].get(run.name), row, ink, is_invalid=comparison.is_invalid(run))
            axis.set_ylim(len(runs) - 0.4, -0.6)
        axes[0].set_yticks(range(len(runs)), [look(comparison, run).label for run in runs])
        _parts_legend(figure, ink)

    return Plot(
        name=f"decomposition_{split}",
        title=f"Which way of asking still works, {split}",
        caption="Each fact is asked by name and by portrait. Answered right both ways, in the image question only, in "
        "the text question only, or in neither. Only “neither” is forgotten. An invalid run has no bar. Facts "
        "that were asked in one way only are left out.",
        alt=f"Stacked bars of the knowledge instances of {split} by the modalities answered right, for each run.",
        picture=render(paint, (10.5, 1.7 + 0.55 * len(runs))),
        columns=("task", "run", *(f"{part} (%)" for part in PARTS), "invalid"),
        rows=tuple(
            (task, name, *parts, name in comparison.invalid)
            for task, by_run in found.items()
            for name, parts in by_run.items()
        ),
    )


def _parts_by_run(comparison: Comparison, split: str, task: Task) -> dict[str, tuple[float, ...]]:
    found = {run.name: modality_parts(comparison, run, split, task) for run in comparison.runs}
    return {name: parts for name, parts in found.items() if parts is not None}


def modality_parts(comparison: Comparison, run: RunResult, split: str, task: Task) -> tuple[float, ...] | None:
    """Return the percent of instances right in both, image only, text only and neither; None where not recorded."""
    result = run.tasks.get((split, task))
    pairs = {} if result is None else result.pairs(comparison.rule)
    names = ("acc_all", "acc_any", "acc_mul", "acc_uni")
    if result is not None and result.unpaired:  # scores of one modality may have questions in them that have no partner
        found = {name: METRICS[name](list(pairs.values())) if pairs else None for name in names}
    else:
        found = {name: comparison.value(run, split, task, name) for name in names}
    both, either, image, text = (in_percent(found[name]) for name in names)
    if both is None or either is None or image is None or text is None:
        return None
    return tuple(max(one, 0.0) for one in (both, image - both, text - both, 100 - either))


def _stack(axis: Axes, parts: tuple[float, ...] | None, row: int, ink: str, *, is_invalid: bool) -> None:
    if parts is None or is_invalid:
        axis.text(
            50,
            row,
            "invalid" if is_invalid else "no numbers",
            ha="center",
            va="center",
            color=ink,
            alpha=0.6,
            fontsize=9,
        )
        return
    left = 0.0
    for part, colour, hatch in zip(parts, _COLOURS, _HATCHES, strict=True):
        axis.barh(row, part, 0.62, left=left, color=colour, hatch=hatch, edgecolor="white", linewidth=0.5)
        if part >= 7:
            box = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.85}
            style: Any = {"ha": "center", "va": "center", "fontsize": 9, "color": "#1f2933", "bbox": box}
            axis.text(left + part / 2, row, f"{part:.0f}", **style)
        left += part


def _parts_legend(figure: Figure, ink: str) -> None:
    from matplotlib.patches import Patch

    handles = [
        Patch(facecolor=colour, hatch=hatch, edgecolor="white", label=part)
        for part, colour, hatch in zip(PARTS, _COLOURS, _HATCHES, strict=True)
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)


# ---- fields -----------------------------------------------------------------------------------------------------


def field_map(comparison: Comparison, split: str) -> Plot | None:
    """Draw scores by field as a heat map, None where no run has fields."""
    scores = {
        (task, field, run.name, one): 100 * numbers[short]
        for task, field, run, numbers in field_scores(comparison, split)
        for one, short in (("text", "uni"), ("image", "mul"))
        if short in numbers and not comparison.is_invalid(run)
    }
    if not scores:
        return None
    lines = list(dict.fromkeys((task, field) for task, field, _, _ in scores))
    runs = [run for run in comparison.runs if any(name == run.name for _, _, name, _ in scores)]

    def paint(figure: Figure, ink: str, grid: str) -> None:
        tasks = [task for task in TASKS if any(own == task for own, _ in lines)]
        heights = [sum(1 for own, _ in lines if own == task) for task in tasks]
        axes = figure.subplots(len(tasks), 1, squeeze=False, height_ratios=heights, sharex=True)[:, 0]
        for axis, task in zip(axes, tasks, strict=True):
            fields = [field for own, field in lines if own == task]
            _heat(axis, scores, task, fields, runs, ink)
        names = [f"{look(comparison, run).label}\n{one}" for run in runs for one in ("text", "image")]
        axes[-1].set_xticks(range(len(names)), names, fontsize=8)

    return Plot(
        name=f"fields_{split}",
        title=f"Scores by field, {split}",
        caption="What is asked about, by row; each run's text and image questions, by column. Percent right under the "
        "default rule, ROUGE-L for generation. On a forget set dark fields are facts that are still there. Invalid "
        "runs are left out.",
        alt=f"Heat map of the scores on {split} by field of knowledge, run and modality.",
        picture=render(paint, (max(6.0, 2.6 + 1.7 * len(runs)), 1.6 + 0.42 * len(lines))),
        columns=("task", "field", "run", "modality", "score (%)"),
        rows=tuple((*key, score) for key, score in scores.items()),
    )


def _heat(
    axis: Axes,
    scores: dict[tuple[Task, str, str, str], float],
    task: Task,
    fields: list[str],
    runs: list[RunResult],
    ink: str,
) -> None:
    columns = [(run.name, one) for run in runs for one in ("text", "image")]
    grid = [[scores.get((task, field, *column), float("nan")) for column in columns] for field in fields]
    axis.imshow(grid, cmap="Blues", vmin=0, vmax=100, aspect="auto")
    for row, line in enumerate(grid):
        for column, score in enumerate(line):
            known = score == score
            text = f"{score:.0f}" if known else "–"
            colour = ("white" if score > 55 else "#1f2933") if known else ink
            axis.text(column, row, text, ha="center", va="center", fontsize=8.5, color=colour)
    axis.set_yticks(range(len(fields)), [field.replace("_", " ") for field in fields])
    axis.set_ylabel(TASK_NAMES[task].capitalize(), fontweight="bold")
    axis.tick_params(length=0)
