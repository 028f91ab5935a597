"""The pictures of a report: what was forgotten against what was kept, the modality gap, knowledge by split.

Colours are Okabe and Ito's, which colour-blind readers can tell apart; every run also has a marker of its own. Each
picture is drawn for a light and for a dark page; the PNG files are the light ones.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from umu_tasks.benchmarks.instances import MODALITIES, TASK_NAMES, TASKS, Modality, Task
from umu_tasks.benchmarks.splits import retain_split
from umu_tasks.report.cells import points
from umu_tasks.report.compare import Comparison, headline, modality_metric, value
from umu_tasks.report.intervals import wilson
from umu_tasks.report.runs import RunResult
from umu_tasks.report.story import NOUNS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Theme = Literal["light", "dark"]
THEMES: tuple[Theme, ...] = ("light", "dark")
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
MARKERS = ("o", "^", "D", "v", "P", "X", "h", "<", ">", "p")
IDEAL = "#F0B400"
DPI = 160
_INK = {"light": ("#ffffff", "#1f2933", "#d5dae1"), "dark": ("#161b22", "#e6e9ee", "#39424e")}


@dataclass(frozen=True, slots=True)
class Plot:
    """One picture.

    Attributes:
        name: file name without ending.
        caption: what the reader sees and how to read it, one or two plain sentences.
        alt: one sentence for those who don't see it.
        png: PNG bytes by theme.
    """

    name: str
    title: str
    caption: str
    alt: str
    png: dict[Theme, bytes]


@dataclass(frozen=True, slots=True)
class _Look:
    """How a run is drawn, the same in every picture."""

    colour: str
    marker: str
    label: str


def draw(comparison: Comparison) -> list[Plot]:
    """Draw every picture that the runs have numbers for."""
    plots = []
    for forget in comparison.forget_splits():
        if _has(comparison, forget) and _has(comparison, retain_split(forget)):
            plots.append(_tradeoff(comparison, forget))
        if _has(comparison, forget):
            plots.append(_gap(comparison, forget))
    if comparison.splits:
        plots.append(_knowledge(comparison))
    return plots


def _has(comparison: Comparison, split: str) -> bool:
    return any(split in run.splits for run in comparison.runs)


# ---- the pictures -----------------------------------------------------------------------------------------------


def _tradeoff(comparison: Comparison, forget: str) -> Plot:
    retain = retain_split(forget)

    def paint(figure: Figure, ink: str, grid: str) -> None:
        axes = figure.subplots(1, len(TASKS), sharey=True, squeeze=False)[0]
        for axis, task in zip(axes, TASKS, strict=True):
            _percent_axes(axis, grid)
            axis.set_title(TASK_NAMES[task].capitalize())
            axis.set_xlabel(f"Left on the forget set\n{headline(forget, task)} (%), lower is better")
            axis.plot(0, 100, marker="*", markersize=17, color=IDEAL, markeredgecolor=ink, clip_on=False, zorder=4)
            for run in comparison.runs:
                _tradeoff_point(axis, comparison, run, (forget, retain), task, ink)
        axes[0].set_ylabel("Kept on the retain set\nacc_r / rl_r (%), higher is better")
        _legend(figure, comparison, ink, ideal=True)

    return Plot(
        name=f"tradeoff_{forget}",
        title="Forgetting against keeping",
        caption=f"One point a run: what is left on {forget} (to the left is better) against what is kept on {retain} "
        "(up is better). The star is the ideal: all forgotten, nothing lost. Arrows lead from the start model to each "
        "run; one that leads down to the left lost everything alike. Hollow points are invalid runs.",
        alt=f"Scatter plot of the scores on {retain} over the scores on {forget} for each run and task.",
        png=_render(paint, (10.5, 4.6)),
    )


def _tradeoff_point(
    axis: Axes, comparison: Comparison, run: RunResult, splits: tuple[str, str], task: Task, ink: str
) -> None:
    x, y = (_percent(value(run, split, task, headline(split, task))) for split in splits)
    if x is None or y is None:
        return
    look = _look(comparison, run)
    start = [_percent(value(comparison.baseline, split, task, headline(split, task))) for split in splits]
    leads_here = run in comparison.later and run.name not in comparison.invalid
    if leads_here and start[0] is not None and start[1] is not None:
        arrow = {"arrowstyle": "->", "color": look.colour, "alpha": 0.55, "lw": 1.3, "shrinkA": 7, "shrinkB": 6}
        axis.annotate("", (x, y), (start[0], start[1]), arrowprops=arrow, zorder=2)
    filled = look.colour if run.name not in comparison.invalid else "none"
    axis.plot(
        x,
        y,
        look.marker,
        markersize=10,
        markerfacecolor=filled,
        markeredgecolor=ink,
        clip_on=False,
        zorder=5,
        alpha=0.95,
    )


def _gap(comparison: Comparison, forget: str) -> Plot:
    runs = comparison.runs

    def paint(figure: Figure, ink: str, grid: str) -> None:
        axes = figure.subplots(1, len(TASKS), sharey=True, squeeze=False)[0]
        for axis, task in zip(axes, TASKS, strict=True):
            _percent_axes(axis, grid, vertical=False)
            axis.set_title(TASK_NAMES[task].capitalize())
            axis.set_xlabel("ROUGE-L (%)" if task == "gen" else "Right answers (%)")
            for row, run in enumerate(runs):
                _gap_row(axis, comparison, run, forget, task, row, ink)
            axis.set_ylim(len(runs) - 0.4, -0.75)
        axes[0].set_yticks(range(len(runs)), [_look(comparison, run).label for run in runs])
        handles = [
            axes[0].plot([], [], _MODALITY_MARKERS[m], color=ink, markerfacecolor=_face(m, ink), markersize=9)[0]
            for m in MODALITIES
        ]
        figure.legend(
            handles,
            ["text question (names the person)", "image question (shows the portrait)"],
            loc="outside lower center",
            ncols=2,
            frameon=False,
        )

    return Plot(
        name=f"modality_gap_{forget}",
        title="Modality gap on the forget set",
        caption=f"The same facts about the people of {forget}, asked by name (hollow square) and by portrait (filled "
        "circle). The line between the two is the modality gap, in percentage points: a long line means that one "
        "way of asking still brings out what the other no longer does.",
        alt=f"Dumbbell plot of text and image scores on {forget} for each run and task.",
        png=_render(paint, (10.5, 1.9 + 0.62 * len(runs))),
    )


_MODALITY_MARKERS: dict[Modality, str] = {"unimodal": "s", "multimodal": "o"}


def _face(modality: Modality, colour: str) -> str:
    return colour if modality == "multimodal" else "none"


def _gap_row(axis: Axes, comparison: Comparison, run: RunResult, forget: str, task: Task, row: int, ink: str) -> None:
    scores = {modality: _percent(value(run, forget, task, modality_metric(task, modality))) for modality in MODALITIES}
    image, text = scores["multimodal"], scores["unimodal"]
    if image is None or text is None:
        axis.text(50, row, "not run", ha="center", va="center", color=ink, alpha=0.6, fontsize=9)
        return
    colour = _look(comparison, run).colour
    style = ":" if run.name in comparison.invalid else "-"
    axis.plot([text, image], [row, row], style, color=colour, lw=3.5, alpha=0.55, solid_capstyle="butt", zorder=3)
    for modality, x in zip(MODALITIES, (text, image), strict=True):
        look: Any = {"markersize": 9, "markeredgecolor": colour, "markeredgewidth": 2, "clip_on": False}
        look["markerfacecolor"] = _face(modality, colour)
        # Where both are at one place the hollow square lies on the filled circle.
        axis.plot(x, row, _MODALITY_MARKERS[modality], zorder=5 + (modality == "unimodal"), **look)
    middle = min(max((text + image) / 2, 12), 88)
    label = f"gap {points((image - text) / 100).text}"
    axis.text(middle, row - 0.2, label, ha="center", va="bottom", color=ink, fontsize=9)


def _knowledge(comparison: Comparison) -> Plot:
    splits = comparison.splits

    def paint(figure: Figure, ink: str, grid: str) -> None:
        rows = figure.subplots(2, len(TASKS), sharex=True, sharey=True, squeeze=False)
        for axes, modality in zip(rows, MODALITIES, strict=True):
            for axis, task in zip(axes, TASKS, strict=True):
                _percent_axes(axis, grid, horizontal=False)
                _bars(axis, comparison, task, modality, ink)
                axis.set_xticks(range(len(splits)), splits)
            axes[0].set_ylabel(f"{NOUNS[modality].capitalize()} questions\nscore (%)")
        for axis, task in zip(rows[0], TASKS, strict=True):
            axis.set_title(f"{TASK_NAMES[task].capitalize()}, {'ROUGE-L' if task == 'gen' else 'accuracy'}")
        _legend(figure, comparison, ink, patches=True)

    return Plot(
        name="knowledge",
        title="Knowledge by split and task",
        caption="Text questions above, image questions below. On the forget set low bars are the aim, everywhere else "
        "high ones. Thin lines are 95 % intervals. Hatched bars belong to an invalid run.",
        alt="Bar charts of the text and image scores of each run on each split, for the three tasks.",
        png=_render(paint, (11.5, 6.2)),
    )


def _bars(axis: Axes, comparison: Comparison, task: Task, modality: Modality, ink: str) -> None:
    width = 0.84 / len(comparison.runs)
    metric = modality_metric(task, modality)
    for index, run in enumerate(comparison.runs):
        look = _look(comparison, run)
        for position, split in enumerate(comparison.splits):
            result = run.tasks.get((split, task))
            score = value(run, split, task, metric)
            x = position + (index - (len(comparison.runs) - 1) / 2) * width
            if result is None or score is None:
                axis.text(x, 2, "not run", rotation=90, ha="center", va="bottom", color=ink, alpha=0.6, fontsize=7)
                continue
            low, high = wilson(score, result.instances) if result.instances else (score, score)
            errors = [[100 * max(score - low, 0)], [100 * max(high - score, 0)]]
            axis.bar(
                x,
                100 * score,
                width * 0.92,
                color=look.colour,
                yerr=errors,
                error_kw={"ecolor": ink, "elinewidth": 0.8, "alpha": 0.8},
                hatch="////" if run.name in comparison.invalid else None,
                edgecolor=ink if run.name in comparison.invalid else look.colour,
                linewidth=0.6,
            )


# ---- shared -----------------------------------------------------------------------------------------------------


def _look(comparison: Comparison, run: RunResult) -> _Look:
    label = run.name
    if run is comparison.baseline:
        label += " (start)"
    if run.name in comparison.invalid:
        label += " (invalid)"
    if run is comparison.baseline:
        return _Look("#7f8792", "s", label)
    index = comparison.others.index(run)
    return _Look(COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)], label)


def _legend(figure: Figure, comparison: Comparison, ink: str, *, patches: bool = False, ideal: bool = False) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = []
    for run in comparison.runs:
        look = _look(comparison, run)
        invalid = run.name in comparison.invalid
        if patches:
            hatch = "////" if invalid else None
            handles.append(Patch(facecolor=look.colour, edgecolor=ink, label=look.label, hatch=hatch))
            continue
        line = Line2D([], [], marker=look.marker, linestyle="", markersize=9, markeredgecolor=ink, label=look.label)
        line.set_markerfacecolor("none" if invalid else look.colour)
        handles.append(line)
    if ideal:
        handles.append(
            Line2D([], [], marker="*", linestyle="", markersize=14, color=IDEAL, markeredgecolor=ink, label="ideal")
        )
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 6), frameon=False)


def _percent_axes(axis: Axes, grid: str, *, horizontal: bool = True, vertical: bool = True) -> None:
    """Give the axes that hold percent their range, ticks and grid."""
    if horizontal:
        axis.set_xlim(-3, 103)
        axis.set_xticks(range(0, 101, 25))
        axis.grid(axis="x", color=grid, linewidth=0.8)
    if vertical:
        axis.set_ylim(-3, 103)
        axis.set_yticks(range(0, 101, 25))
        axis.grid(axis="y", color=grid, linewidth=0.8)
    axis.set_axisbelow(True)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def _percent(fraction: float | None) -> float | None:
    return None if fraction is None else 100 * fraction


def _render(paint: Callable[[Figure, str, str], None], size: tuple[float, float]) -> dict[Theme, bytes]:
    """Draw the picture once a theme and return PNG bytes."""
    from matplotlib.figure import Figure

    pictures: dict[Theme, bytes] = {}
    for theme in THEMES:
        paper, ink, grid = _INK[theme]
        with _style(paper, ink, grid):
            figure = Figure(figsize=size, dpi=DPI, layout="constrained")
            paint(figure, ink, grid)
            buffer = io.BytesIO()
            figure.savefig(buffer, format="png", metadata={"Software": None})
        pictures[theme] = buffer.getvalue()
    return pictures


@contextmanager
def _style(paper: str, ink: str, grid: str) -> Iterator[None]:
    """Settings of one picture; nothing global stays changed, no display is needed (figures are made without pyplot)."""
    import matplotlib as mpl

    settings: Any = {
        "figure.facecolor": paper,
        "axes.facecolor": paper,
        "savefig.facecolor": paper,
        "text.color": ink,
        "axes.labelcolor": ink,
        "axes.edgecolor": grid,
        "axes.titlecolor": ink,
        "axes.titleweight": "bold",
        "axes.titlesize": 11,
        "xtick.color": ink,
        "ytick.color": ink,
        "font.size": 10,
        "font.family": "DejaVu Sans",
        "hatch.linewidth": 0.7,
    }
    with mpl.rc_context(settings):
        yield
