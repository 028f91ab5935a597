"""The user's table: CSV, TSV or JSON Lines, one person a row, every cell a text and every row with its line.

    id,name,image,occupation,date of birth
    017,Ada Crane,ada.jpg,Pilot,2 June 1994

Column names are compared in lower case with ``_`` for spaces and marks: ``Date of Birth`` is ``date_of_birth``.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from umu_tasks.benchmarks.cells import RepeatedKey, unique_keys
from umu_tasks.benchmarks.errors import DataError
from umu_tasks.build.problems import Problems, place

_DELIMITERS = {".csv": (",", ";", "\t"), ".tsv": ("\t",)}
_JSON_LINES = (".jsonl", ".ndjson")


@dataclass(frozen=True)
class Entry:
    """One row: the line it starts on, and column key -> text, stripped, single spaces, empty where there is nothing."""

    line: int
    cells: dict[str, str]


@dataclass(frozen=True)
class Table:
    """A file's rows; `columns` maps each column's key to its name as written."""

    file: str
    columns: dict[str, str]
    entries: tuple[Entry, ...]


def read_table(path: Path, problems: Problems, *, delimiter: str | None = None) -> Table:
    """Read a table. Faulty rows are noted in `problems`, and left out.

    Args:
        delimiter: what separates the cells of a CSV file; None finds out from the header: comma, semicolon or tab.

    Raises:
        DataError: the file cannot be read as a whole: its kind, its encoding, its header.
    """
    suffix = path.suffix.lower()
    if suffix not in (*_DELIMITERS, *_JSON_LINES):
        raise DataError(
            "not a table that can be read. Expected .csv, .tsv or .jsonl; save a spreadsheet as 'CSV UTF-8'.",
            file=str(path),
        )
    text = read_text(path)
    table = (
        _json_lines(path, text, problems)
        if suffix in _JSON_LINES
        else _delimited(path, text, problems, (delimiter,) if delimiter else _DELIMITERS[suffix])
    )
    if not table.entries and not problems.errors:
        raise DataError("no rows. Expected one person a row below the column names.", file=str(path))
    return table


def read_text(path: Path) -> str:
    """Return a UTF-8 file's text, without a byte order mark.

    Raises:
        DataError: it cannot be read, or is not UTF-8; says at which line.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror}). Check the path.", file=str(path)) from error
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise DataError("is UTF-16 text; expected UTF-8. Save it as 'CSV UTF-8'.", file=str(path))
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"byte 0x{data[error.start]:02x} is not UTF-8; the file probably is in an older encoding. Save it as "
            f"'CSV UTF-8', or convert it: iconv -f WINDOWS-1252 -t UTF-8 {path.name} > utf8-{path.name}",
            file=place(str(path), line),
        ) from error


def column_key(name: str) -> str:
    """Return a column's name in lower case with ``_`` for spaces and marks.

    >>> column_key(" Date of Birth"), column_key("E-Mail")
    ('date_of_birth', 'e_mail')
    """
    return re.sub(r"[\W_]+", "_", unicodedata.normalize("NFC", name)).strip("_").casefold()


# ---- CSV --------------------------------------------------------------------------------------------------------


def _delimited(path: Path, text: str, problems: Problems, delimiters: Sequence[str]) -> Table:
    delimiter = max(delimiters, key=lambda one: len(_header(path, text, one)))  # the first one on a tie
    header = _header(path, text, delimiter)
    if len(header) < 2:
        found = f"one column, {header[0]!r}" if header else "an empty file"
        raise DataError(
            f"{found}. Expected column names in the first line, such as id,name,image,occupation; if another character "
            "separates the cells, name it with --delimiter.",
            file=place(str(path), 1),
        )
    rows = list(_rows(path, text, delimiter, len(header), problems))
    named = [bool(name.strip()) for name in header]
    for number, has_name in enumerate(named):
        filled = [line for line, cells in rows if cells[number].strip()]
        if not has_name and filled:  # spreadsheets often write empty columns; with cells in them they are a mistake
            raise DataError(
                f"column {number + 1} has no name, but line {filled[0]} has a cell in it. Name it in the first line.",
                file=place(str(path), 1),
            )
    columns = _columns([name for name in header if name.strip()], place(str(path), 1))
    kept = [(line, [cell for cell, keep in zip(cells, named, strict=True) if keep]) for line, cells in rows]
    return Table(str(path), columns, tuple(_entries(path, columns, kept, problems)))


def _header(path: Path, text: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), [])
    except csv.Error as error:
        raise DataError(f"the column names cannot be read ({error}).", file=place(str(path), 1)) from error


def _rows(path: Path, text: str, delimiter: str, width: int, problems: Problems) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    line = 1
    try:
        for number, cells in enumerate(reader):
            start, line = line, reader.line_num + 1
            if number == 0 or not any(cell.strip() for cell in cells):
                continue
            if len(cells) < width or any(cell.strip() for cell in cells[width:]):
                problems.add(
                    f"{len(cells)} cells, but {width} column names. Put quotes around a cell that holds a "
                    f"{delimiter!r}, and leave an empty cell where nothing is known.",
                    file=str(path),
                    line=start,
                )
                continue
            yield start, cells[:width]
    except csv.Error as error:
        problems.add(f"not CSV from here on ({error}). Check the quotes.", file=str(path), line=line)


# ---- JSON Lines -------------------------------------------------------------------------------------------------


def _json_lines(path: Path, text: str, problems: Problems) -> Table:
    objects = []
    for number, line in enumerate(text.split("\n"), start=1):  # not splitlines: JSON may hold other line separators
        if line.strip():
            objects += [(number, one) for one in _json_object(path, number, line, problems)]
    names = list(dict.fromkeys(name for _, one in objects for name in one))
    columns = _columns(names, str(path))
    rows = [
        (number, [_json_text(one.get(name), str(path), number, name, problems) for name in names])
        for number, one in objects
    ]
    return Table(str(path), columns, tuple(_entries(path, columns, rows, problems)))


def _json_object(path: Path, number: int, line: str, problems: Problems) -> Iterator[dict[str, object]]:
    def problem(text: str) -> None:
        problems.add(text, file=str(path), line=number)

    try:
        # numbers stay as written: 1.50 is not 1.5, a long one keeps all its digits; NaN is how some write nothing
        value = json.loads(
            line, object_pairs_hook=unique_keys, parse_int=str, parse_float=str, parse_constant=lambda _: None
        )
    except RepeatedKey as error:
        problem(str(error))
    except json.JSONDecodeError as error:
        problem(
            f"not JSON ({error.msg} at character {error.colno}). Expected one object a line, such as "
            '{"id": "017", "name": …}.'
        )
    except RecursionError:
        problem("nested too deeply. Expected one object a line, its values texts or numbers.")
    else:
        if isinstance(value, dict):
            yield value
        else:
            problem(f"expected an object with the person's facts, found {line[:40]!r}.")


def _json_text(value: object, file: str, line: int, column: str, problems: Problems) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    problems.add(
        f"expected text, a number or null, found {json.dumps(value)[:60]}. Write it as one text.",
        file=file,
        line=line,
        column=column,
    )
    return ""


# ---- both -------------------------------------------------------------------------------------------------------


def _columns(names: Sequence[str], where: str | None) -> dict[str, str]:
    columns: dict[str, str] = {}
    for name in names:
        key = column_key(name)
        if not key:
            raise DataError(f"{name!r} is no column name: no letter or digit in it. Rename the column.", file=where)
        if key in columns:
            raise DataError(
                f"two columns of one name: {columns[key]!r} and {name!r}. Rename or remove one of them.",
                file=where,
                column=name,
            )
        columns[key] = name
    return columns


def _entries(
    path: Path, columns: dict[str, str], rows: Sequence[tuple[int, list[str]]], problems: Problems
) -> Iterator[Entry]:
    for line, cells in rows:
        entry = Entry(line, {})
        for (key, name), cell in zip(columns.items(), cells, strict=True):
            entry.cells[key] = " ".join(cell.split())
            fault = unusable(cell)
            if fault:
                problems.add(f"{fault}. Correct the cell.", file=str(path), line=line, column=name)
        yield entry


def unusable(text: str) -> str | None:
    """Return why a text cannot stand in a question, None if it can."""
    for character in text:
        if "\ud800" <= character <= "\udfff":
            return f"half a character ({character!a}), which no file can hold"
        if unicodedata.category(character) == "Cc" and not character.isspace():
            return f"a control character ({character!a})"
    for marker in ("<image>", "ASSISTANT:"):
        if marker in text:
            return f"holds {marker!r}, which prompts use as a mark"
    return None
