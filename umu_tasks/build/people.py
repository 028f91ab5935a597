"""Who a table's rows are: ID, name, photo and facts of each person."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from umu_tasks.benchmarks.errors import DataError
from umu_tasks.build.photos import SUFFIXES
from umu_tasks.build.problems import Problems, listed, place
from umu_tasks.build.table import Entry, Table, column_key
from umu_tasks.build.templates import Templates
from umu_tasks.scoring.texts import fold

ROLES: dict[str, tuple[str, ...]] = {
    "id": ("id", "person_id", "profile_id"),
    "name": ("name", "full_name", "person"),
    "image": ("image", "image_file", "photo", "portrait", "picture", "file_name", "filename", "file"),
}
_BIOGRAPHY = ("biography", "bio")


@dataclass(frozen=True, slots=True)
class Person:
    """One row of the table.

    Attributes:
        photo: where the photo lies.
        facts: field name -> value, without the fields this person has nothing for.
        biography: as given; empty where the table has no such column.
    """

    profile_id: str
    name: str
    photo: Path
    facts: Mapping[str, str]
    biography: str
    line: int


@dataclass(frozen=True)
class People:
    """The people of one table; `fields` are the facts' names in the columns' order."""

    file: str
    people: tuple[Person, ...]
    fields: tuple[str, ...]


def read_people(
    table: Table,
    images: Path,
    templates: Templates,
    problems: Problems,
    *,
    roles: Mapping[str, str | None] | None = None,
    skip: Sequence[str] = (),
) -> People:
    """Return the people in a table; what is wrong with a row is noted in `problems`.

    Args:
        images: the folder that the image column's paths start from.
        roles: ``id``, ``name``, ``image`` -> the column the user names for it.
        skip: columns that are no facts, beside those that the templates name.

    Raises:
        DataError: there is no column, or more than one, for the ID or the name; a column to skip is not there; two
            columns hold one field.
    """
    skipped = {column_key(one) for one in skip}
    unknown = skipped - table.columns.keys()
    if unknown:
        raise DataError(f"--skip {listed(sorted(unknown))}: no such column; {_found(table)}.", file=table.file)
    columns = [key for key in table.columns if key not in skipped | templates.skip]
    taken = {role: _role(role, table, columns, (roles or {}).get(role)) for role in ROLES}
    biography = next((key for key in _BIOGRAPHY if key in columns), None)
    facts = [key for key in columns if key not in {*taken.values(), biography}]
    fields = _fields(table, facts, templates)
    reader = _Reader(table, images, taken, biography, fields, problems, _Folder(images))
    people = tuple(person for entry in table.entries for person in reader.read(entry))
    _warn_of_shared_names(table.file, people, problems)
    return People(table.file, people, tuple(fields.values()))


def _role(role: str, table: Table, columns: Sequence[str], given: str | None) -> str | None:
    """Return the column of a role; the image may have none: photos are then found by ID."""
    if given is not None:
        key = column_key(given)
        if key not in columns:
            raise DataError(f"--{role}_column {given}: no such column; {_found(table)}.", file=table.file)
        return key
    present = [key for key in ROLES[role] if key in columns]
    if len(present) > 1:
        names = " and ".join(table.columns[key] for key in present)
        raise DataError(
            f"columns {names} could both be the {role}. Name the right one with --{role}_column, leave the other one "
            "out with --skip.",
            file=table.file,
        )
    if not present and role != "image":
        raise DataError(
            f"no column for the {role}; {_found(table)}. Call it {ROLES[role][0]!r}, or name it with --{role}_column.",
            file=table.file,
        )
    return present[0] if present else None


def _fields(table: Table, facts: Sequence[str], templates: Templates) -> dict[str, str]:
    """Return column key -> field name."""
    fields: dict[str, str] = {}
    for key in facts:
        name = templates.field_of(key)
        same = [other for other, taken in fields.items() if taken == name]
        if same:
            raise DataError(
                f"columns {table.columns[same[0]]} and {table.columns[key]} both hold the field {name}. Rename one of "
                f"them to what it tells apart, or leave it out with --skip {table.columns[key]}.",
                file=table.file,
            )
        fields[key] = name
    if not fields:
        raise DataError(f"no column with facts; {_found(table)}. Add some, such as occupation.", file=table.file)
    return fields


def _found(table: Table) -> str:
    return f"found {listed(list(table.columns.values()))}"


@dataclass(frozen=True)
class _Reader:
    table: Table
    images: Path
    columns: Mapping[str, str | None]
    biography: str | None
    fields: Mapping[str, str]
    problems: Problems
    folder: _Folder
    lines: dict[str, int] = field(default_factory=dict)

    def read(self, entry: Entry) -> Iterator[Person]:
        """Yield the person, unless something about the row is wrong."""
        before = len(self.problems.errors)
        profile_id, name = (entry.cells[self.columns[role] or ""] for role in ("id", "name"))
        if not profile_id:
            self._add(entry, None, "id", "a row without ID. Give each person one.")
        elif profile_id in self.lines:
            first = self.lines[profile_id]
            self._add(entry, profile_id, "id", f"this ID stands in line {first} already. Each person needs its own.")
        self.lines.setdefault(profile_id, entry.line)
        if not name:
            self._add(entry, profile_id, "name", "no name, which text questions need. Fill it in, or drop the row.")
        photo = self._photo(entry, profile_id)
        if len(self.problems.errors) == before and photo is not None:
            facts = {name: entry.cells[key] for key, name in self.fields.items() if entry.cells[key]}
            biography = entry.cells[self.biography] if self.biography else ""
            yield Person(profile_id, name, photo, facts, biography, entry.line)

    def _photo(self, entry: Entry, profile_id: str) -> Path | None:
        column = self.columns["image"]
        if column is None:
            return self._photo_by_id(entry, profile_id)
        name = entry.cells[column]
        if not name:
            self._add(entry, profile_id, "image", "no image file. Fill it in, or drop the row.")
            return None
        if (self.images / name).is_file():
            return self.images / name
        near = self.folder.near(name)
        hint = f"Did you mean {near!r}?" if near else "Put it there, correct the cell, or name another --images."
        self._add(entry, profile_id, "image", f"no file {self.images / name}. {hint}")
        return None

    def _photo_by_id(self, entry: Entry, profile_id: str) -> Path | None:
        found = self.folder.of_stem(profile_id)
        if len(found) == 1:
            return self.images / found[0]
        what = "several files" if found else "no file"
        self._add(
            entry,
            profile_id,
            None,
            f"{what} {self.images / profile_id} with an ending of {', '.join(SUFFIXES)}. Without an image column each "
            "photo is called like its person's ID: put exactly one there, or add a column.",
        )
        return None

    def _add(self, entry: Entry, profile_id: str | None, role: str | None, text: str) -> None:
        key = self.columns[role] if role else None
        column = self.table.columns[key] if key else None
        self.problems.add(text, file=self.table.file, line=entry.line, row_id=profile_id or None, column=column)


class _Folder:
    """The photo folder's file names, listed when they are first needed."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise DataError(f"--images {folder}: no such folder. Name the folder with the photos.")
        self._folder = folder

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return tuple(sorted(path.name for path in self._folder.iterdir() if path.is_file()))

    @cached_property
    def _by_stem(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for name in self._names:
            if Path(name).suffix.lower() in SUFFIXES:
                found.setdefault(Path(name).stem, []).append(name)
        return found

    def of_stem(self, stem: str) -> list[str]:
        """Return the image files of this name, whatever their ending."""
        return self._by_stem.get(stem, [])

    def near(self, name: str) -> str | None:
        """Return the file name that is most like a wrong one, None if none is."""
        same = [one for one in self._names if one.casefold() == name.casefold()]
        return next(iter(same or difflib.get_close_matches(name, self._names, 1, 0.8)), None)


def _warn_of_shared_names(file: str, people: Sequence[Person], problems: Problems) -> None:
    """A text question about one of two people of one name has two right answers."""
    by_name: dict[str, list[Person]] = {}
    for person in people:
        by_name.setdefault(fold(person.name), []).append(person)
    for same in by_name.values():
        if len(same) > 1:
            ids = listed([person.profile_id for person in same])
            problems.warn(
                f"{place(file, same[0].line)}: {same[0].name!r} is the name of ID {ids}. "
                "Text questions cannot tell them apart; make the names differ, as in 'Ada Crane of Leeds'."
            )
