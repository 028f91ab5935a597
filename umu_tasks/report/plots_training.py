"""Training curves, with the checkpoint that was scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from umu_tasks.report.canvas import Plot, look, render
from umu_tasks.report.compare import Comparison
from umu_tasks.report.training import Curves

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Points = Sequence[tuple[int, float]]


class Panel(NamedTuple):
    """One panel: its title, and the logged numbers it shows with what each says and its line."""

    title: str
    lines: Mapping[str, tuple[str, str]]


_SOLID, _DASHED, _DOTTED = "-", "--", ":"
PANELS = (
    Panel("Loss", {"loss": ("", _SOLID)}),
    Panel(
        "Loss on the forget set (nats per token)",
        {
            "nll/forget": ("", _SOLID),
            "nll/forget_mul": ("image", _SOLID),
            "nll/forget_uni": ("text", _DASHED),
        },
    ),
    Panel(
        "Loss on the rows to learn or keep (nats per token)",
        {
            "nll/retain": ("", _SOLID),
            "nll/retain_mul": ("image", _SOLID),
            "nll/retain_uni": ("text", _DASHED),
            "nll/train_mul": ("image", _SOLID),
            "nll/train_uni": ("text", _DASHED),
        },
    ),
    Panel("Learning rate", {"learning_rate": ("", _SOLID)}),
    Panel(
        "Right answers on the sample (fraction)",
        {"score/forget": ("forget", _DOTTED), "score/retain": ("retain", _SOLID)},
    ),
)


def training_curves(comparison: Comparison, curves: Mapping[str, Curves]) -> Plot | None:
    """Draw the logs, one colour a run; None where there is no log.

    Args:
        curves: run name -> the log of the training that made its model.
    """
    rows = _rows(comparison, curves)
    if not rows:
        return None
    names = dict.fromkeys(row[1] for row in rows)
    panels = [panel for panel in PANELS if any(name in panel.lines for name in names)]

    def paint(figure: Figure, ink: str, grid: str) -> None:
        across = min(len(panels), 2)
        axes = figure.subplots(-(-len(panels) // across), across, squeeze=False).flatten()
        for axis in axes[len(panels) :]:
            axis.remove()
        for axis, panel in zip(axes, panels, strict=False):
            _panel(axis, comparison, curves, panel, ink, grid)
        _legend(figure, comparison, curves, ink)

    return Plot(
        name="training",
        title="Training curves",
        caption="What the training of each run logged, by optimizer step. Solid lines are image questions or the "
        "whole, dashed ones text questions; dotted: the forget set, where a sample was scored. The large marker is the "
        "step whose weights were scored for this report, or the last one logged before it.",
        alt="Line plots of loss, forget loss, retain loss and learning rate over the training steps of each run.",
        picture=render(paint, (10.5, 0.9 + 2.7 * (-(-len(panels) // 2)))),
        columns=("run", "quantity", "step", "value", "scored step"),
        rows=rows,
    )


def _rows(comparison: Comparison, curves: Mapping[str, Curves]) -> tuple[tuple[object, ...], ...]:
    shown = {name for panel in PANELS for name in panel.lines}
    return tuple(
        (run.name, name, step, value, step == curves[run.name].scored_step)
        for run in comparison.runs
        if run.name in curves
        for name, points in curves[run.name].values.items()
        if name in shown
        for step, value in points
    )


def _panel(axis: Axes, comparison: Comparison, curves: Mapping[str, Curves], panel: Panel, ink: str, grid: str) -> None:
    axis.set_title(panel.title)
    axis.grid(color=grid, linewidth=0.8)
    axis.set_axisbelow(True)
    axis.set_xlabel("step")
    axis.margins(x=0.04, y=0.1)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    for run in (run for run in comparison.runs if run.name in curves):
        own, log = look(comparison, run), curves[run.name]
        for name, (_, style) in panel.lines.items():
            points = log.values.get(name, ())
            if not points:
                continue
            steps, values = [step for step, _ in points], [value for _, value in points]
            dot = "." if len(points) == 1 else ""  # a line through one point can't be seen
            axis.plot(steps, values, style, marker=dot, color=own.colour, linewidth=1.6, alpha=0.9)
            scored = at_step(points, log.scored_step)
            if scored is not None:
                axis.plot(*scored, own.marker, color=own.colour, markeredgecolor=ink, markersize=8, zorder=5)


def at_step(points: Points, step: int | None) -> tuple[int, float] | None:
    """Return where to mark a step on a curve: between the logged points, or on the last one if it lies behind that.

    Args:
        points: (step, value), by step.
    """
    if step is None or step < points[0][0]:
        return None
    before = max((point for point in points if point[0] <= step), key=lambda point: point[0])
    after = next((point for point in points if point[0] > step), None)
    if after is None or before[0] == step:
        return before
    share = (step - before[0]) / (after[0] - before[0])
    return step, before[1] + share * (after[1] - before[1])


def _legend(figure: Figure, comparison: Comparison, curves: Mapping[str, Curves], ink: str) -> None:
    from matplotlib.lines import Line2D

    handles = []
    for run in (run for run in comparison.runs if run.name in curves):
        own, step = look(comparison, run), curves[run.name].scored_step
        label = own.label if step is None else f"{own.label}, scored at step {step}"
        line = Line2D([], [], color=own.colour, label=label, marker=own.marker, markeredgecolor=ink, linewidth=1.6)
        handles.append(line)
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 3), frameon=False)
