"""The pictures of a report: what was forgotten against what was kept, the modality gap, knowledge by split."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from umu_tasks.benchmarks.instances import MODALITIES, TASK_NAMES, TASKS, Modality, Task
from umu_tasks.benchmarks.splits import is_forget, retain_split
from umu_tasks.report.canvas import IDEAL, Plot, in_percent, legend, look, percent_axes, render
from umu_tasks.report.cautions import collapsed
from umu_tasks.report.cells import points
from umu_tasks.report.compare import Comparison, headline, modality_metric
from umu_tasks.report.plots_detail import decomposition, field_map
from umu_tasks.report.plots_training import training_curves
from umu_tasks.report.runs import RunResult
from umu_tasks.report.story import NOUNS
from umu_tasks.report.training import Curves

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MODALITY_MARKERS: dict[Modality, str] = {"unimodal": "s", "multimodal": "o"}


def draw(comparison: Comparison, curves: Mapping[str, Curves] | None = None) -> list[Plot]:
    """Draw every picture that the runs have numbers for.

    Args:
        curves: run name -> the log of its training.
    """
    plots: list[Plot | None] = []
    for forget in comparison.forget_splits():
        if _has(comparison, retain_split(forget)):
            plots.append(_tradeoff(comparison, forget))
    for split in comparison.splits_to_forget():
        plots += [_gap(comparison, split), decomposition(comparison, split), field_map(comparison, split)]
    plots += [_knowledge(comparison)] if comparison.splits else []
    plots += [training_curves(comparison, curves or {})]
    return [plot for plot in plots if plot is not None]


def _has(comparison: Comparison, split: str) -> bool:
    return any(split in run.splits for run in comparison.runs)


# ---- forgetting against keeping ---------------------------------------------------------------------------------


def _tradeoff(comparison: Comparison, forget: str) -> Plot:
    retain = retain_split(forget)
    found = {task: _tradeoff_points(comparison, (forget, retain), task) for task in TASKS}
    damaged = comparison.invalid.keys() | collapsed(comparison).keys()
    fronts = {
        task: pareto_front({name: point for name, point in by_run.items() if name not in damaged})
        for task, by_run in found.items()
    }

    def paint(figure: Figure, ink: str, grid: str) -> None:
        axes = figure.subplots(1, len(TASKS), sharey=True, squeeze=False)[0]
        for axis, task in zip(axes, TASKS, strict=True):
            percent_axes(axis, grid)
            axis.set_title(TASK_NAMES[task].capitalize())
            axis.set_xlabel(f"Left on the forget set\n{headline(forget, task)} (%), lower is better")
            axis.plot(0, 100, marker="*", markersize=17, color=IDEAL, markeredgecolor=ink, clip_on=False, zorder=4)
            _paint_front(axis, [found[task][name] for name in fronts[task]], ink)
            for run in comparison.runs:
                _tradeoff_point(axis, comparison, run, found[task], ink)
        axes[0].set_ylabel("Kept on the retain set\nacc_r / rl_r (%), higher is better")
        legend(figure, comparison, ink, ideal=True)

    return Plot(
        name=f"tradeoff_{forget}",
        title="Forgetting against keeping",
        caption=f"One point a run: what is left on {forget} (to the left is better) against what is kept on {retain} "
        "(up is better). The star is the ideal: all forgotten, nothing lost. Arrows lead from the start model to each "
        "run; one that leads down to the left lost everything alike. The dashed line is the Pareto front: no run is "
        "better than those on it in both. Hollow points are invalid runs; neither they nor collapsed runs are on it.",
        alt=f"Scatter plot of the scores on {retain} over the scores on {forget} for each run and task.",
        picture=render(paint, (10.5, 4.6)),
        columns=("task", "run", f"{forget} (%)", f"{retain} (%)", "on the Pareto front", "invalid"),
        rows=tuple(
            (task, name, *point, name in fronts[task], name in comparison.invalid)
            for task, by_run in found.items()
            for name, point in by_run.items()
        ),
    )


def _tradeoff_points(comparison: Comparison, splits: tuple[str, str], task: Task) -> dict[str, tuple[float, float]]:
    """Return run name -> (left on the forget set, kept on the retain set) in percent."""
    found = {}
    for run in comparison.runs:
        x, y = (in_percent(comparison.value(run, split, task, headline(split, task))) for split in splits)
        if x is not None and y is not None:
            found[run.name] = (x, y)
    return found


def pareto_front(found: dict[str, tuple[float, float]]) -> list[str]:
    """Return the names of the points that no other beats, from left to right: x low and y high are good."""

    def beaten(x: float, y: float) -> bool:
        return any(one <= x and other >= y and (one, other) != (x, y) for one, other in found.values())

    return sorted((name for name, point in found.items() if not beaten(*point)), key=lambda name: found[name])


def _paint_front(axis: Axes, front: list[tuple[float, float]], ink: str) -> None:
    xs, ys = [x for x, _ in front], [y for _, y in front]
    axis.step(xs, ys, where="post", linestyle="--", color=ink, alpha=0.45, linewidth=1.1, zorder=1)


def _tradeoff_point(
    axis: Axes, comparison: Comparison, run: RunResult, found: dict[str, tuple[float, float]], ink: str
) -> None:
    if run.name not in found:
        return
    own, (x, y) = look(comparison, run), found[run.name]
    start, invalid = found.get(comparison.baseline.name), comparison.is_invalid(run)
    if run in comparison.later and not invalid and start is not None:
        arrow = {"arrowstyle": "->", "color": own.colour, "alpha": 0.55, "lw": 1.3, "shrinkA": 7, "shrinkB": 6}
        axis.annotate("", (x, y), start, arrowprops=arrow, zorder=2)
    style: Any = {"markersize": 10, "markeredgecolor": ink, "clip_on": False, "zorder": 5, "alpha": 0.95}
    axis.plot(x, y, own.marker, markerfacecolor="none" if invalid else own.colour, **style)


# ---- the modality gap -------------------------------------------------------------------------------------------


def _gap(comparison: Comparison, forget: str) -> Plot:
    runs = comparison.runs

    def paint(figure: Figure, ink: str, grid: str) -> None:
        axes = figure.subplots(1, len(TASKS), sharey=True, squeeze=False)[0]
        for axis, task in zip(axes, TASKS, strict=True):
            percent_axes(axis, grid, vertical=False)
            axis.set_title(TASK_NAMES[task].capitalize())
            axis.set_xlabel("ROUGE-L (%)" if task == "gen" else "Right answers (%)")
            for row, run in enumerate(runs):
                _gap_row(axis, comparison, run, forget, task, row, ink)
            axis.set_ylim(len(runs) - 0.4, -0.75)
        axes[0].set_yticks(range(len(runs)), [look(comparison, run).label for run in runs])
        handles = [
            axes[0].plot([], [], _MODALITY_MARKERS[m], color=ink, markerfacecolor=_face(m, ink), markersize=9)[0]
            for m in MODALITIES
        ]
        names = ["text question (names the person)", "image question (shows the portrait)"]
        figure.legend(handles, names, loc="outside lower center", ncols=2, frameon=False)

    return Plot(
        name=f"modality_gap_{forget}",
        title=f"Modality gap on the {'forget' if is_forget(forget) else 'test'} set",
        caption=f"The same facts about the people of {forget}, asked by name (hollow square) and by portrait (filled "
        "circle). The line between the two is the modality gap, in percentage points: a long line means that one "
        "way of asking still brings out what the other no longer does.",
        alt=f"Dumbbell plot of text and image scores on {forget} for each run and task.",
        picture=render(paint, (10.5, 1.9 + 0.62 * len(runs))),
        columns=("task", "run", "text (%)", "image (%)", "gap (percentage points)", "invalid"),
        rows=tuple(_gap_data(comparison, forget)),
    )


def _gap_data(comparison: Comparison, forget: str) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for task in TASKS:
        for run in comparison.runs:
            text, image = (in_percent(comparison.paired_value(run, forget, task, one)) for one in MODALITIES)
            if text is not None and image is not None:
                rows.append((task, run.name, text, image, image - text, comparison.is_invalid(run)))
    return rows


def _face(modality: Modality, colour: str) -> str:
    return colour if modality == "multimodal" else "none"


def _gap_row(axis: Axes, comparison: Comparison, run: RunResult, forget: str, task: Task, row: int, ink: str) -> None:
    text, image = (in_percent(comparison.paired_value(run, forget, task, modality)) for modality in MODALITIES)
    if image is None or text is None:
        axis.text(50, row, absent(run), ha="center", va="center", color=ink, alpha=0.6, fontsize=9)
        return
    colour = look(comparison, run).colour
    style = ":" if comparison.is_invalid(run) else "-"
    axis.plot([text, image], [row, row], style, color=colour, lw=3.5, alpha=0.55, solid_capstyle="butt", zorder=3)
    for modality, x in zip(MODALITIES, (text, image), strict=True):
        marker: Any = {"markersize": 9, "markeredgecolor": colour, "markeredgewidth": 2, "clip_on": False}
        marker["markerfacecolor"] = _face(modality, colour)
        # Where both are at one place the hollow square lies on the filled circle.
        axis.plot(x, row, _MODALITY_MARKERS[modality], zorder=5 + (modality == "unimodal"), **marker)
    middle = min(max((text + image) / 2, 12), 88)
    label = "invalid" if comparison.is_invalid(run) else gap_label(image, text)
    axis.text(middle, row - 0.2, label, ha="center", va="bottom", color=ink, fontsize=9)


def gap_label(image: float, text: float) -> str:
    """Return the gap in words; both in percent.

    >>> gap_label(60.0, 60.04), gap_label(60.0, 20.0)
    ('no gap', 'gap +40.0')
    """
    told = points((image - text) / 100).text
    return "no gap" if told == "0.0" else f"gap {told}"


def absent(run: RunResult) -> str:
    """Say why a picture has no number of a run."""
    return "not in the file" if run.is_published else "not run"


# ---- knowledge by split -----------------------------------------------------------------------------------------


def _knowledge(comparison: Comparison) -> Plot:
    splits = comparison.splits

    def paint(figure: Figure, ink: str, grid: str) -> None:
        rows = figure.subplots(2, len(TASKS), sharex=True, sharey=True, squeeze=False)
        for axes, modality in zip(rows, MODALITIES, strict=True):
            for axis, task in zip(axes, TASKS, strict=True):
                percent_axes(axis, grid, horizontal=False)
                _bars(axis, comparison, task, modality, ink)
                axis.set_xticks(range(len(splits)), splits)
            axes[0].set_ylabel(f"{NOUNS[modality].capitalize()} questions\nscore (%)")
        for axis, task in zip(rows[0], TASKS, strict=True):
            axis.set_title(f"{TASK_NAMES[task].capitalize()}, {'ROUGE-L' if task == 'gen' else 'accuracy'}")
        legend(figure, comparison, ink, patches=True)

    return Plot(
        name="knowledge",
        title="Knowledge by split and task",
        caption="Text questions above, image questions below. On the forget set low bars are the aim, everywhere else "
        "high ones. Thin lines are 95 % intervals. Hatched bars belong to an invalid run.",
        alt="Bar charts of the text and image scores of each run on each split, for the three tasks.",
        picture=render(paint, (11.5, 6.2)),
        columns=("task", "modality", "split", "run", "score (%)", "low (%)", "high (%)", "invalid"),
        rows=tuple(_knowledge_data(comparison)),
    )


def _knowledge_data(comparison: Comparison) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for task in TASKS:
        for modality in MODALITIES:
            for split in comparison.splits:
                for run in comparison.runs:
                    score = in_percent(comparison.modality_value(run, split, task, modality))
                    interval = comparison.interval(run, split, task, modality_metric(task, modality))
                    low, high = (None, None) if interval is None else (100 * interval.low, 100 * interval.high)
                    if score is not None:
                        rows.append((task, modality, split, run.name, score, low, high, comparison.is_invalid(run)))
    return rows


def _bars(axis: Axes, comparison: Comparison, task: Task, modality: Modality, ink: str) -> None:
    width = 0.84 / len(comparison.runs)
    for index, run in enumerate(comparison.runs):
        for position, split in enumerate(comparison.splits):
            x = position + (index - (len(comparison.runs) - 1) / 2) * width
            score = comparison.modality_value(run, split, task, modality)
            if score is None:
                axis.text(x, 2, absent(run), rotation=90, ha="center", va="bottom", color=ink, alpha=0.6, fontsize=7)
                continue
            interval = comparison.interval(run, split, task, modality_metric(task, modality)) or (score, score)
            _bar(axis, comparison, run, (x, width * 0.92), score, interval, ink)


def _bar(
    axis: Axes,
    comparison: Comparison,
    run: RunResult,
    place: tuple[float, float],
    score: float,
    interval: tuple[float, float],
    ink: str,
) -> None:
    colour, invalid = look(comparison, run).colour, comparison.is_invalid(run)
    low, high = interval
    axis.bar(
        place[0],
        100 * score,
        place[1],
        color=colour,
        yerr=[[100 * max(score - low, 0)], [100 * max(high - score, 0)]],
        error_kw={"ecolor": ink, "elinewidth": 0.8, "alpha": 0.8},
        hatch="////" if invalid else None,
        edgecolor=ink if invalid else colour,
        linewidth=0.6,
    )
