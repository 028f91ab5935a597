"""Reads the cells of one raw row: what every benchmark's rows.py does alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from umu_tasks.benchmarks.cells import parse_cell
from umu_tasks.benchmarks.errors import DataError, DataNotice, Report

REPAIR = "Correct it, or drop the row."
UNREADABLE = object()
"""What `RowReader.structure` returns for a cell that cannot be read."""


@dataclass(frozen=True)
class RowReader:
    """Reads the cells of one row; sends each problem to `report` and goes on.

    Attributes:
        row: column name -> cell.
        file, profile_id: where the row stands, for messages.
        report: receives each problem.
    """

    row: Mapping[str, object]
    file: str
    profile_id: str
    report: Report

    def problem(self, column: str, kind: str, text: str, error: type[DataError] = DataError) -> None:
        """Report what is wrong with a cell; `kind`: what problems of this sort share."""
        self.report(error(text, file=self.file, row_id=self.profile_id, column=column, kind=kind))

    def structure(self, column: str) -> object:
        """Return the structure in a cell, or the one its text spells; `UNREADABLE` if it spells none (reported)."""
        try:
            found = parse_cell(self.row.get(column), file=self.file, row_id=self.profile_id, column=column)
        except DataError as error:
            self.report(error)
            return UNREADABLE
        return whole_characters(found, lambda text: self._broken(column, text))

    def plain(self, column: str) -> str:
        """Return a cell that is a text itself, empty where there is none."""
        return str(whole_characters(str(self.row.get(column) or ""), lambda text: self._broken(column, text)))

    def text(self, column: str, name: str, value: object) -> str:
        """Return `value` as text, unstripped; a number (an unquoted year, say) becomes its digits."""
        if isinstance(value, str):
            if not value.strip():
                self.problem(column, "empty text", f"{name}: empty text.", DataNotice)
        elif isinstance(value, bool) or not isinstance(value, int | float):
            self.problem(column, "not text", f"{name}: expected text, found {value!r}. {REPAIR}")
        return str(value)

    def _broken(self, column: str, text: str) -> None:
        self.problem(column, "half a character", half_a_character(text))


def half_a_character(text: str) -> str:
    """Return what to say of a text with half a character: one that no file and no tokenizer can take."""
    place = next(number for number, one in enumerate(text) if "\ud800" <= one <= "\udfff")
    near = text[max(0, place - 20) : place + 20]
    return f"{near!r} holds half of a character ({text[place]!r}, a lone surrogate), which is no text. {REPAIR}"


def whole_characters(value: object, report: Callable[[str], object]) -> object:
    """Return a structure whose texts can all be written as UTF-8.

    JSON and Python literals can spell half of a character (``"\\ud83d"``, from a text that was cut inside an emoji).
    Such a text breaks whatever writes, hashes or tokenizes it, long after it was read.

    Args:
        report: receives each broken text. If it returns, the text is kept with "�" in place of the half.
    """
    if isinstance(value, str):
        if value.isascii() or not any("\ud800" <= one <= "\udfff" for one in value):
            return value
        report(value)
        return "".join("�" if "\ud800" <= one <= "\udfff" else one for one in value)
    if isinstance(value, Mapping):
        return {whole_characters(name, report): whole_characters(one, report) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [whole_characters(one, report) for one in value]
    return value
