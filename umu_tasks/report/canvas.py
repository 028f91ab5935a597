"""What every picture of a report shares: colours, how a run is drawn, the two themes, and its numbers as data.

Colours are Okabe and Ito's, which colour-blind readers can tell apart; every run also has a marker of its own. Each
picture is drawn for a light and for a dark page; the files beside the report are the light ones.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from umu_tasks.report.compare import Comparison
from umu_tasks.report.runs import RunResult

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
class Picture:
    """A picture as PNG bytes by theme, and as SVG for a light page."""

    png: dict[Theme, bytes]
    svg: bytes


@dataclass(frozen=True, slots=True)
class Plot:
    """One picture.

    Attributes:
        name: file name without ending.
        caption: what the reader sees and how to read it, one or two plain sentences.
        alt: one sentence for those who don't see it.
        picture: the drawn picture.
        columns, rows: the numbers in it, as a table.
    """

    name: str
    title: str
    caption: str
    alt: str
    picture: Picture
    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]


@dataclass(frozen=True, slots=True)
class Look:
    """How a run is drawn, the same in every picture."""

    colour: str
    marker: str
    label: str


def look(comparison: Comparison, run: RunResult) -> Look:
    label = run.name
    if run is comparison.baseline:
        label += " (start)"
    if run.name in comparison.invalid:
        label += " (invalid)"
    if run is comparison.baseline:
        return Look("#7f8792", "s", label)
    index = comparison.others.index(run)
    return Look(COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)], label)


def legend(figure: Figure, comparison: Comparison, ink: str, *, patches: bool = False, ideal: bool = False) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = []
    for run in comparison.runs:
        own = look(comparison, run)
        invalid = run.name in comparison.invalid
        if patches:
            hatch = "////" if invalid else None
            handles.append(Patch(facecolor=own.colour, edgecolor=ink, label=own.label, hatch=hatch))
            continue
        line = Line2D([], [], marker=own.marker, linestyle="", markersize=9, markeredgecolor=ink, label=own.label)
        line.set_markerfacecolor("none" if invalid else own.colour)
        handles.append(line)
    if ideal:
        handles.append(
            Line2D([], [], marker="*", linestyle="", markersize=14, color=IDEAL, markeredgecolor=ink, label="ideal")
        )
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 6), frameon=False)


def percent_axes(axis: Axes, grid: str, *, horizontal: bool = True, vertical: bool = True) -> None:
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


def in_percent(fraction: float | None) -> float | None:
    return None if fraction is None else 100 * fraction


def render(paint: Callable[[Figure, str, str], None], size: tuple[float, float]) -> Picture:
    """Draw the picture once a theme.

    Args:
        paint: draws on a figure, given the colours of ink and grid.
        size: width and height in inches.
    """
    from matplotlib.figure import Figure

    png: dict[Theme, bytes] = {}
    svg = b""
    for theme in THEMES:
        paper, ink, grid = _INK[theme]
        with _style(paper, ink, grid):
            figure = Figure(figsize=size, dpi=DPI, layout="constrained")
            paint(figure, ink, grid)
            png[theme] = _saved(figure, "png", {"Software": None})
            figure.set_layout_engine("none")  # laid out by now; doing it again takes half of the time
            svg = svg or _saved(figure, "svg", {"Date": None})
    return Picture(png, svg)


def _saved(figure: Figure, form: str, metadata: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=form, metadata=metadata)
    return buffer.getvalue()


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
        "svg.hashsalt": "umu",  # the same numbers give the same file
    }
    with mpl.rc_context(settings):
        yield
