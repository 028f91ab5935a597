"""Tables as plain text cells: one form for the page, the Markdown file and the terminal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Tone = Literal["", "muted", "warning", "struck"]
NOT_RUN = "not run"
NOTHING = "–"
MINUS = "−"


@dataclass(frozen=True, slots=True)
class Cell:
    """One table cell.

    Attributes:
        text: what it says.
        note: smaller text below it, such as an interval.
        tone: ``muted`` for what was not measured, ``warning`` for what spoils a score, ``struck`` for a score that
            means nothing.
    """

    text: str
    note: str = ""
    tone: Tone = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A table row; `invalid` rows belong to a run whose scores are no evidence of forgetting."""

    cells: tuple[Cell, ...]
    invalid: bool = False
    starts_group: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Attributes:
        labels: how many of the first columns are words; the others are numbers.
    """

    title: str
    lead: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    labels: int = 1


def number(fraction: float) -> str:
    """Return a fraction as percent with one decimal, without the sign."""
    return f"{100 * fraction:.1f}"


def percent(fraction: float) -> str:
    """Return a fraction as percent with one decimal; the space does not break.

    >>> percent(0.0139)
    '1.4\\u00a0%'
    """
    return f"{number(fraction)}\u00a0%"


def number_or_nothing(fraction: float | None) -> Cell:
    return Cell(NOTHING, tone="muted") if fraction is None else Cell(number(fraction))


def points(difference: float | None) -> Cell:
    """Return a signed difference of fractions in percentage points."""
    if difference is None:
        return Cell(NOTHING, tone="muted")
    rounded = round(100 * difference, 1)
    return Cell("0.0" if rounded == 0 else f"{'+' if rounded > 0 else MINUS}{abs(rounded):.1f}")


def to_markdown(table: Table) -> str:
    """Return the table in Markdown; notes follow their cell in brackets, what spoils a score is bold."""
    rule = ["---" if index < table.labels else "---:" for index in range(len(table.columns))]
    lines = [table.columns, rule, *([_markdown(cell) for cell in row.cells] for row in table.rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def to_text(table: Table) -> str:
    """Return the table in columns for a terminal, without notes other than a run's.

    The words of a number's heading stand one below the other, as low as they go: a wide table breaks in most terminals.
    """
    words = [name.split() if index >= table.labels else [name] for index, name in enumerate(table.columns)]
    height = max(len(one) for one in words)
    heads = [list(line) for line in zip(*([""] * (height - len(one)) + one for one in words), strict=True)]
    lines = [*heads, *([cell.text for cell in row.cells] for row in table.rows)]
    for line, row in zip(lines[height:], table.rows, strict=True):
        line[0] = _joined(row.cells[0])
    widths = [max(len(line[index]) for line in lines) for index in range(len(table.columns))]
    aligned = [
        "  ".join(
            text.ljust(width) if index < table.labels else text.rjust(width)
            for index, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    return "\n".join([*aligned[:height], "  ".join("─" * width for width in widths), *aligned[height:]])


def _joined(cell: Cell) -> str:
    return f"{cell.text} ({cell.note})" if cell.note else cell.text


def _markdown(cell: Cell) -> str:
    text = _joined(cell).replace("|", "\\|").replace("\n", " ")
    mark = {"warning": "**", "struck": "~~"}.get(cell.tone, "") if text else ""
    return f"{mark}{text}{mark}"
