"""What is to be built: every input read and checked, nothing written yet."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from umu_tasks.benchmarks.errors import DataError
from umu_tasks.build.distractors import pools
from umu_tasks.build.forget_lists import read_forget_lists
from umu_tasks.build.oddities import oddities, shared_people
from umu_tasks.build.people import People, read_people
from umu_tasks.build.problems import Problems, listed
from umu_tasks.build.questions import Asker
from umu_tasks.build.table import column_key, read_table
from umu_tasks.build.templates import Templates, load_templates


@dataclass(frozen=True)
class Options:
    """What the user asks for; see `umu data build --help`.

    Attributes:
        images, real_images: folders that photos are looked up in; None: the table's own folder.
        forget: lists as typed, see `forget_lists`.
        columns: ``id``, ``name``, ``image`` -> the column named for it.
    """

    table: Path
    out: Path
    images: Path | None = None
    forget: tuple[str, ...] = ()
    real: Path | None = None
    real_images: Path | None = None
    templates: Path | None = None
    skip: tuple[str, ...] = ()
    columns: Mapping[str, str | None] = field(default_factory=dict)
    delimiter: str | None = None
    max_side: int | None = None
    seed: int = 0
    overwrite: bool = False


@dataclass(frozen=True)
class Group:
    """People who are asked about in one way, their wrong options drawn among themselves."""

    people: People
    asker: Asker


@dataclass(frozen=True)
class Plan:
    """All that will be written."""

    options: Options
    main: Group
    real: Group | None
    forget: Mapping[str, frozenset[str]]
    problems: Problems


def make_plan(options: Options) -> Plan:
    """Read the table, the templates and the lists.

    Raises:
        DataError: whatever is wrong in them, all of it at once where it can be.
    """
    if options.max_side is not None and options.max_side < 1:
        raise DataError(f"--max_side {options.max_side}: expected a number of pixels, at least 1.")
    if options.delimiter is not None and len(options.delimiter) != 1:
        raise DataError(f"--delimiter {options.delimiter!r}: expected one character, such as ';'.")
    problems = Problems()
    templates = load_templates(options.templates)
    main = _group(options.table, options.images, templates, options, problems)
    real = None
    if options.real is not None:
        real = _group(options.real, options.real_images or options.images, templates, options, problems)
    ids = [person.profile_id for person in main.people.people]
    sound = not problems.errors  # an ID in a row that was left out is not unknown
    forget = read_forget_lists(options.forget, ids, options.seed, problems) if sound else {}
    problems.raise_errors()
    for group in (main, *([real] if real else ())):
        _require_questions(group)
    _warn(main, real, templates, options, problems)
    return Plan(options, main, real, forget, problems)


def _group(table: Path, images: Path | None, templates: Templates, options: Options, problems: Problems) -> Group:
    folder = images if images is not None else table.parent
    rows = read_table(table, problems, delimiter=options.delimiter)
    skip = [one for one in options.skip if table == options.table or column_key(one) in rows.columns]
    people = read_people(rows, folder, templates, problems, roles=options.columns, skip=skip)
    fields = {name: templates.of(name) for name in people.fields}
    return Group(people, Asker(fields, pools(people.people, fields), templates.shown, options.seed))


def _require_questions(group: Group) -> None:
    if not any(group.asker.instances(person) or group.asker.pairs(person) for person in group.people.people):
        raise DataError(
            "nothing can be asked about anybody: every cell of every fact is empty, or the templates leave out every "
            "task. Fill in some, or take `false` out of the templates file.",
            file=group.people.file,
        )


def _warn(main: Group, real: Group | None, templates: Templates, options: Options, problems: Problems) -> None:
    groups = [main, *([real] if real else [])]
    present = {name for group in groups for name in group.people.fields}
    unused = [name for name in templates.asked_for if name not in present]
    if unused:
        problems.warn(f"{options.templates}: no column for {listed(unused)}; these templates are not used.")
    for group in groups:
        for text in oddities(group.people.file, group.people.people, group.asker):
            problems.warn(text)
    for text in shared_people(main.people.people, real.people.people) if real else ():
        problems.warn(text)


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
