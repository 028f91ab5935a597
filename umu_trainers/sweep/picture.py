"""The plot of a sweep: what is left of the forget set against what is kept, one point a trial, and the front."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from umu_tasks.report.canvas import COLOURS, IDEAL, MARKERS, Picture, percent_axes, render
from umu_trainers.sweep.choice import Recommendation, Record, pareto_front
from umu_trainers.sweep.config import START

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw(records: Sequence[Record], chosen: Sequence[Recommendation]) -> Picture:
    """Draw the complete trials. The plot shows two of the three objectives; the front is that of all three."""
    complete = [one for one in records if one.is_complete]
    methods = list(dict.fromkeys(one.method for one in records if one.method != START))
    recommended = {one.record.name for one in chosen if one.record is not None}

    def paint(figure: Figure, ink: str, grid: str) -> None:
        axis = figure.subplots()
        percent_axes(axis, grid)
        axis.set_xlabel("Forget score (%), lower is better")
        axis.set_ylabel("Utility (%), higher is better")
        axis.plot(0, 100, marker="*", markersize=17, color=IDEAL, markeredgecolor=ink, clip_on=False, zorder=2)
        _paint_front(axis, pareto_front(records), ink)
        for one in complete:
            _paint_trial(axis, one, methods, one.name in recommended, ink)
        _paint_legend(figure, methods, ink)

    return render(paint, (7.2, 5.6))


def _place(record: Record) -> tuple[float, float]:
    return 100 * record.scores["forget"], 100 * record.scores["utility"]


def _paint_front(axis: Axes, front: Sequence[Record], ink: str) -> None:
    """A ring around each trial of the front: in three dimensions it is no line."""
    for one in front:
        axis.plot(*_place(one), "o", markersize=15, markerfacecolor="none", markeredgecolor=ink, alpha=0.6, zorder=3)


def _paint_trial(axis: Axes, record: Record, methods: Sequence[str], is_recommended: bool, ink: str) -> None:
    x, y = _place(record)
    colour, marker = _look(record.method, methods)
    if is_recommended:
        _paint_intervals(axis, record, colour)
        axis.annotate(record.name, (x, y), xytext=(9, -11), textcoords="offset points", color=ink, fontsize=9)
    style: Any = {"markersize": 9, "markeredgecolor": ink, "clip_on": False, "zorder": 5, "alpha": 0.9}
    axis.plot(x, y, marker, color=colour, **style)


def _paint_intervals(axis: Axes, record: Record, colour: str) -> None:
    x, y = _place(record)
    forget, utility = record.intervals.get("forget"), record.intervals.get("utility")
    if forget:
        axis.plot([100 * one for one in forget], [y, y], color=colour, linewidth=1.6, zorder=4)
    if utility:
        axis.plot([x, x], [100 * one for one in utility], color=colour, linewidth=1.6, zorder=4)


def _look(method: str, methods: Sequence[str]) -> tuple[str, str]:
    if method == START:
        return "#7f8792", "s"
    index = methods.index(method)
    return COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)]


def _paint_legend(figure: Figure, methods: Sequence[str], ink: str) -> None:
    from matplotlib.lines import Line2D

    handles: list[Any] = []
    for name in (START, *methods):
        colour, marker = _look(name, methods)
        style: Any = {"linestyle": "", "markersize": 9, "markeredgecolor": ink}
        handles.append(Line2D([], [], marker=marker, color=colour, label=name, **style))
    ring: Any = {"linestyle": "", "markersize": 13, "markerfacecolor": "none", "markeredgecolor": ink}
    handles.append(Line2D([], [], marker="o", label="Pareto front", **ring))
    star: Any = {"linestyle": "", "markersize": 14, "color": IDEAL, "markeredgecolor": ink}
    handles.append(Line2D([], [], marker="*", label="ideal", **star))
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 6), frameon=False)
