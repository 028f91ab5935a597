"""Where benchmark data comes from: the hub, a local folder, or UMU-mini.

How to get at the people:

    source = open_source()                # UMU_DATA: a hub id, a folder, or "mini"; unset: the hub's data set
    profiles = source.load("forget05")    # or "forget_5", "Forget_5" …
    profiles.by_id("017").open_image()
"""

from __future__ import annotations

import importlib
import logging
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol

from umu_tasks.benchmarks import layout, tables
from umu_tasks.benchmarks.errors import DataError, Report, raise_errors
from umu_tasks.benchmarks.instances import Modality, Profile
from umu_tasks.benchmarks.profiles import ProfileSet
from umu_tasks.benchmarks.splits import SPLITS, is_forget, retain_split
from umu_tasks.benchmarks.tables import Shard
from umu_tasks.hub_ids import is_hub_id

# Warnings go to the log and not to `warnings`: lmms-eval silences every Python warning when it is imported.
logger = logging.getLogger(__name__)

Kind = Literal["hub", "folder", "mini"]


class RowParser(Protocol):
    """What a benchmark's `rows.py` offers."""

    BENCHMARK: str
    HUB_ID: str | None  # where the benchmark is published
    COLUMNS: tuple[str, ...]
    ID_COLUMN: str
    IMAGE_COLUMN: str
    QA_COLUMNS: Mapping[Modality, str]  # where every person has training pairs of a modality, if they do
    SPLITS: tuple[str, ...]
    PAIRED: bool  # each fact is asked once in each modality, with one gold
    SUBSETS: dict[str, tuple[str, str]]  # a split without files -> the split with its rows, that with its people

    def resolve_split(self, name: str) -> str | None: ...
    def missing_columns(self, columns: Iterable[str]) -> list[str]: ...
    def merge_rows(self, profiles: list[Any]) -> list[Any]: ...
    def training_people(self, source: Source, split: str) -> ProfileSet: ...
    def explain_columns(self, columns: Iterable[str]) -> str | None: ...
    def parse_row(self, row: Mapping[str, object], *, file: str, report: Report = raise_errors) -> Profile: ...
    def parse_id(self, cell: object, *, file: str, report: Report = raise_errors) -> str: ...


@dataclass(frozen=True)
class Part:
    """One file of a split, opened when asked for."""

    file: str
    open: Callable[[], Shard]


class Source(ABC):
    """A place that holds a benchmark's splits. Sub-classes say which splits there are and open their files.

    Attributes:
        spec: the hub id, the folder's absolute path, or ``mini``: `open_source` of it returns this very source.
        kind: ``hub``, ``folder`` or ``mini``.
    """

    def __init__(self, spec: str, kind: Kind, rows: RowParser) -> None:
        self.spec = spec
        self.kind = kind
        self.rows = rows
        self._loaded: dict[str, tuple[object, ProfileSet]] = {}
        self._lock = threading.RLock()

    @abstractmethod
    def splits(self) -> tuple[str, ...]:
        """Return the canonical names of the splits that are present."""

    @abstractmethod
    def parts(self, split: str) -> list[Part]:
        """Return the files of a split that is present."""

    @abstractmethod
    def stamp(self, split: str) -> object:
        """Return a value that changes when the split's files change."""

    @abstractmethod
    def declared_rows(self, split: str) -> int | None:
        """Return the row count the data set's card claims, None where it claims none."""

    @abstractmethod
    def ids(self, split: str) -> tuple[str, ...] | None:
        """Return a split's IDs if they are cheap to get; None if it is absent or would have to be fetched."""

    def resolve(self, name: str) -> str:
        """Return the canonical name of a split that is present.

        Raises:
            DataError: `name` names no split, or one that this source does not have. Lists those present.
        """
        split = self.rows.resolve_split(name)
        present = self.splits()
        if split is None or split not in present:
            what = f"no split {split!r} here" if split else f"{name!r} is no split of {self.rows.BENCHMARK}"
            hint = _WITHOUT_REAL if split == "real" else ""
            raise DataError(f"{what}. Choose one of: {', '.join(present)}.{hint}", file=self.spec)
        return split

    def require(self, split: str) -> str:
        """Return the canonical name of a task's split that can be loaded from what is here.

        Raises:
            DataError: as `resolve`, for the split's own files or those that it is a part of.
        """
        if split not in self.rows.SUBSETS:
            return self.resolve(split)
        for name in self.rows.SUBSETS[split]:
            self.resolve(name)
        return split

    def load(self, split: str) -> ProfileSet:
        """Return the people of a split, by any of its names; kept for the life of the process while its files stay.

        Raises:
            DataError: an unknown split, unreadable files, rows that cannot be used, or forget, retain and full sets
                that do not fit together (a sign of a truncated copy).
        """
        with self._lock:
            if split in self.rows.SUBSETS:
                rows, people = self.rows.SUBSETS[split]
                return self.load(rows).subset(split, self.load(people).ids)
            split = self.resolve(split)
            stamp = self.stamp(split)
            known = self._loaded.get(split)
            if known is None or known[0] != stamp:
                known = stamp, self._load(split)
                self._loaded[split] = known
                try:
                    self._check_complements(split)
                except DataError:
                    del self._loaded[split]
                    raise
            return known[1]

    def load_for_training(self, split: str) -> ProfileSet:
        """Return the people of a split with all their training pairs, wherever the benchmark keeps them."""
        return self.rows.training_people(self, split)

    def _load(self, split: str) -> ProfileSet:
        parts = self.parts(split)
        profiles = [profile for part in parts for profile in self._profiles(part.open())]
        if not profiles:
            raise DataError(f"split {split} has no rows. {_INCOMPLETE}", file=self.spec)
        declared = self.declared_rows(split)
        if declared is not None and declared != len(profiles):
            logger.warning(declared_rows_differ(self.spec, split, declared, len(profiles)))
        profiles = self.rows.merge_rows(profiles)
        return ProfileSet(split, profiles, source=parts[0].file if len(parts) == 1 else self.spec)

    def _profiles(self, shard: Shard) -> Iterable[Profile]:
        require_columns(self.rows, shard)
        for row in shard.rows(self.rows.IMAGE_COLUMN):
            yield self.rows.parse_row(row, file=shard.file)

    def _check_complements(self, split: str) -> None:
        for forget in self.splits_to_compare(split):
            for problem in set_problems(forget, self.ids):
                raise DataError(problem, file=self.spec)

    def splits_to_compare(self, split: str) -> list[str]:
        """Return the forget splits whose retain and full sets loading `split` must fit."""
        if split == "full":
            return [one for one in SPLITS if is_forget(one)]
        return [one for one in SPLITS if is_forget(one) and split in (one, retain_split(one))]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.spec!r})"


class FolderSource(Source):
    """Splits in a local folder."""

    def __init__(self, folder: Path, rows: RowParser, *, spec: str | None = None, kind: Kind = "folder") -> None:
        super().__init__(spec or str(folder), kind, rows)
        self.folder = folder
        self._layout = layout.find_layout(folder, rows.resolve_split)
        self._ids: dict[str, tuple[object, tuple[str, ...] | None]] = {}

    def splits(self) -> tuple[str, ...]:
        return tuple(split for split in self.rows.SPLITS if split in self._layout.splits)

    def resolve(self, name: str) -> str:
        known = self._layout.splits.get(self.rows.resolve_split(name) or "")
        if known is None or not all(path.exists() for path in known.files):
            self._layout = layout.find_layout(
                self.folder, self.rows.resolve_split
            )  # files came or went since we looked
        return super().resolve(name)

    def parts(self, split: str) -> list[Part]:
        return [
            Part(str(path), partial(tables.open_file, path, self.rows.COLUMNS, self.rows.IMAGE_COLUMN))
            for path in self._layout.splits[split].files
        ]

    def stamp(self, split: str) -> object:
        files = self._layout.splits[split].files
        return tuple((path, status.st_size, status.st_mtime_ns) for path in files for status in [_stat(path)])

    def declared_rows(self, split: str) -> int | None:
        return self._layout.splits[split].declared_rows

    def ids(self, split: str) -> tuple[str, ...] | None:
        if split not in self._layout.splits:
            return None
        stamp = self.stamp(split)
        loaded = self._loaded.get(split)
        if loaded is not None and loaded[0] == stamp:
            return loaded[1].ids
        if split not in self._ids or self._ids[split][0] != stamp:
            self._ids[split] = stamp, read_ids(self._layout.splits[split].files, self.rows)
        return self._ids[split][1]


def read_ids(paths: Iterable[Path], rows: RowParser) -> tuple[str, ...] | None:
    """Return the IDs in some files without reading their other columns; None where a file has no ID column."""
    ids: list[str] = []
    for path in paths:
        cells = tables.read_column(path, rows.ID_COLUMN)
        if cells is None:
            return None
        ids += [rows.parse_id(cell, file=str(path)) for cell in cells]
    return tuple(ids)


def open_source(spec: str | None = None, *, benchmark: str = "umu") -> Source:
    """Return the source that `spec` names; one object a place and process, so asking again is cheap.

    Args:
        spec: hub id, folder, or ``mini``; None reads the benchmark's variable (``UMU_DATA``, ``MLLMU_DATA``), and where
            that is not set either takes the benchmark's data set on the hub. A folder that exists wins over a hub id.
        benchmark: name of the folder in `umu_tasks.tasks` that holds its `rows.py`.

    Raises:
        DataError: a folder that is missing or has none of the benchmark's splits; an unknown benchmark.
    """
    variable = variable_of(benchmark)
    name = spec or os.environ.get(variable) or row_parser(benchmark).HUB_ID
    if not name:
        raise DataError(f"{benchmark} is on no hub. Set {variable} to a folder that holds it, or to a hub id.")
    where = "" if spec or not os.environ.get(variable) else f"{variable}="
    path = Path(name).expanduser()
    key = (benchmark, name if name == "mini" or not path.exists() else str(path.resolve()))
    with _sources_lock:
        if key not in _sources:
            _sources[key] = _open(name, path, where, benchmark)
        return _sources[key]


def variable_of(benchmark: str) -> str:
    """Return the environment variable that names a benchmark's source."""
    return f"{benchmark.upper()}_DATA"


_sources: dict[tuple[str, str], Source] = {}
_sources_lock = threading.RLock()


def _open(name: str, path: Path, where: str, benchmark: str) -> Source:
    rows = row_parser(benchmark)
    if name == "mini":
        return FolderSource(_mini_dir(benchmark), rows, spec=name, kind="mini")
    if path.is_dir():
        return FolderSource(path.resolve(), rows)
    if path.exists():
        raise DataError(f"is a file, not a folder. {layout.EXPECTED}.", file=f"{where}{name}")
    if is_hub_id(name, needs_owner=True):
        from umu_tasks.benchmarks.hub import HubSource

        return HubSource(name, rows, variable_of(benchmark))
    raise DataError(f"no such folder. {layout.EXPECTED}; or give a hub id, or `mini`.", file=f"{where}{name}")


def _mini_dir(benchmark: str) -> Path:
    if benchmark == "mllmu":
        from umu_tasks.mini.mllmu import mllmu_data_dir

        return mllmu_data_dir()
    if benchmark != "umu":
        raise DataError(f"{benchmark} has no small form of its own. Give a folder.", file="mini")
    from umu_tasks.mini.build import mini_data_dir

    return mini_data_dir()


def row_parser(benchmark: str) -> RowParser:
    """Import a benchmark's `rows.py`, found by its folder's name."""
    name = f"umu_tasks.tasks.{benchmark}.rows"
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and name.startswith(error.name):
            raise DataError(f"benchmark {benchmark!r} is not supported: there is no {name}.") from error
        raise


def require_columns(rows: RowParser, shard: Shard) -> None:
    """Raise if the file lacks a column of the benchmark."""
    found = shard.columns
    missing = rows.missing_columns(found)
    if missing:
        hint = rows.explain_columns(found) or "Add it, or point to the right data."
        raise DataError(
            f"missing from this file; found columns {', '.join(found)}. {hint}",
            file=shard.file,
            column=", ".join(missing),
            kind="missing column",
        )


def set_problems(forget: str, ids_of: Callable[[str], tuple[str, ...] | None]) -> list[str]:
    """Return what is wrong between a forget set, its retain set and the full set; sets that are absent are skipped.

    Forget and retain sets share nobody; together they are the full set. A copy with missing rows shows here.
    """
    retain = retain_split(forget)
    sets = {name: frozenset(ids) for name in (forget, retain, "full") if (ids := ids_of(name)) is not None}
    problems = []
    shared = sets.get(forget, frozenset()) & sets.get(retain, frozenset())
    if shared:
        problems.append(
            f"{forget} and {retain} overlap: ID {_list(shared)} in both. Nobody to forget may be in the retain set."
        )
    if "full" not in sets:
        return problems
    for name in (forget, retain):
        extra = sets.get(name, frozenset()) - sets["full"]
        if extra:
            problems.append(f"{name} holds ID {_list(extra)} missing from full. {_INCOMPLETE}")
    if len(sets) == 3 and (missing := sets["full"] - sets[forget] - sets[retain]):
        problems.append(
            f"{forget} ({len(sets[forget])} people) and {retain} ({len(sets[retain])}) together lack "
            f"ID {_list(missing)} of full ({len(sets['full'])}). {_INCOMPLETE}"
        )
    return problems


_WITHOUT_REAL = (
    " Suites such as umu05 ask about real people too: without any, name the groups, --tasks umu_forget05,umu_retain95, "
    "and train with --replay_real 0."
)
_INCOMPLETE = "The copy is incomplete or mixes versions: download or copy all of it again."


def declared_rows_differ(source: str, split: str, declared: int, found: int) -> str:
    return f"{source}: the dataset card declares {declared} rows for {split}, the files hold {found}; using the files."


def _list(ids: Iterable[str], most: int = 10) -> str:
    ordered = sorted(ids)
    return ", ".join(ordered[:most]) + (f", … ({len(ordered)} in all)" if len(ordered) > most else "")


def _stat(path: Path) -> os.stat_result:
    try:
        return (path / "state.json" if path.is_dir() else path).stat()
    except OSError as error:
        raise DataError(f"cannot be read ({error}). Put it back, or start again.", file=str(path)) from error
