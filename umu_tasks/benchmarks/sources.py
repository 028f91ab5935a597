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
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, Protocol

from huggingface_hub.errors import HfHubHTTPError

from umu_tasks.benchmarks import layout, tables
from umu_tasks.benchmarks.errors import DataError, Report, raise_errors
from umu_tasks.benchmarks.instances import Profile
from umu_tasks.benchmarks.profiles import ProfileSet
from umu_tasks.benchmarks.splits import SPLITS, is_forget, resolve_split, retain_split
from umu_tasks.benchmarks.tables import Shard

# Warnings go to the log and not to `warnings`: lmms-eval silences every Python warning when it is imported.
logger = logging.getLogger(__name__)

Kind = Literal["hub", "folder", "mini"]
VARIABLES = {"umu": "UMU_DATA", "mllmu": "MLLMU_DATA"}
HUB_IDS = {"umu": "linbojunzi/UMU-bench", "mllmu": "MLLMMU/MLLMU-Bench"}
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


class RowParser(Protocol):
    """What a benchmark's `rows.py` offers."""

    BENCHMARK: str
    COLUMNS: tuple[str, ...]
    ID_COLUMN: str
    IMAGE_COLUMN: str

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
        split = resolve_split(name)
        present = self.splits()
        if split is None or split not in present:
            what = f"no split {split!r} here" if split else f"{name!r} is no split of {self.rows.BENCHMARK}"
            raise DataError(f"{what}. Choose one of: {', '.join(present)}.", file=self.spec)
        return split

    def load(self, split: str) -> ProfileSet:
        """Return the people of a split, by any of its names; kept for the life of the process while its files stay.

        Raises:
            DataError: an unknown split, unreadable files, rows that cannot be used, or forget, retain and full sets
                that do not fit together (a sign of a truncated copy).
        """
        with self._lock:
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

    def _load(self, split: str) -> ProfileSet:
        parts = self.parts(split)
        profiles = [profile for part in parts for profile in self._profiles(part.open())]
        if not profiles:
            raise DataError(f"split {split} has no rows. {_INCOMPLETE}", file=self.spec)
        declared = self.declared_rows(split)
        if declared is not None and declared != len(profiles):
            logger.warning(declared_rows_differ(self.spec, split, declared, len(profiles)))
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
        self._layout = layout.find_layout(folder, resolve_split)
        self._ids: dict[str, tuple[object, tuple[str, ...] | None]] = {}

    def splits(self) -> tuple[str, ...]:
        return tuple(split for split in SPLITS if split in self._layout.splits)

    def resolve(self, name: str) -> str:
        known = self._layout.splits.get(resolve_split(name) or "")
        if known is None or not all(path.exists() for path in known.files):
            self._layout = layout.find_layout(self.folder, resolve_split)  # files came or went since we looked
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
            self._ids[split] = stamp, self._read_ids(split)
        return self._ids[split][1]

    def _read_ids(self, split: str) -> tuple[str, ...] | None:
        ids: list[str] = []
        for path in self._layout.splits[split].files:
            cells = tables.read_column(path, self.rows.ID_COLUMN)
            if cells is None:
                return None
            ids += [self.rows.parse_id(cell, file=str(path)) for cell in cells]
        return tuple(ids)


class HubSource(Source):
    """Splits on the Hugging Face hub (or in its local cache), each a config with one split, ``train``."""

    def __init__(self, hub_id: str, rows: RowParser) -> None:
        super().__init__(hub_id, "hub", rows)
        self._configs: dict[str, str] | None = None

    def splits(self) -> tuple[str, ...]:
        if self._configs is None:
            names = self._config_names()
            self._configs = {split: name for name in names if (split := resolve_split(name)) is not None}
            if not self._configs:
                raise DataError(
                    f"no split of {self.rows.BENCHMARK} among the configs: {', '.join(names)}. {_SET_FOLDER}",
                    file=self.spec,
                )
        return tuple(split for split in SPLITS if split in self._configs)

    def _config_names(self) -> list[str]:
        import datasets
        from datasets.naming import camelcase_to_snakecase

        names: list[str] = self._ask(lambda: datasets.get_dataset_config_names(self.spec))
        if names == ["default"]:  # all that `datasets` says of a data set that it has in its cache, without network
            owner, _, name = self.spec.rpartition("/")
            cached = Path(datasets.config.HF_DATASETS_CACHE) / f"{owner}___{camelcase_to_snakecase(name)}"
            names = sorted(folder.name for folder in cached.glob("*/")) or names
        return names

    def parts(self, split: str) -> list[Part]:
        config = self._config(split)
        return [Part(f"{self.spec}/{config}", lambda: self._fetch(config))]

    def stamp(self, split: str) -> object:
        return "hub"

    def declared_rows(self, split: str) -> int | None:
        return self._card_rows.get(split)

    @cached_property
    def _card_rows(self) -> dict[str, int]:
        """Declared rows by split; empty where the card is missing or out of reach: then there is nothing to compare."""
        from huggingface_hub import DatasetCard

        try:
            return layout.declared_rows(DatasetCard.load(self.spec).data.to_dict().get("dataset_info"), resolve_split)
        except (OSError, ValueError, HfHubHTTPError):
            return {}

    def ids(self, split: str) -> tuple[str, ...] | None:
        """Return the IDs of splits loaded by this process; others would have to be downloaded, so they are left out."""
        loaded = self._loaded.get(split)
        return loaded[1].ids if loaded is not None else None

    def _config(self, split: str) -> str:
        self.splits()
        return (self._configs or {})[split]

    def _fetch(self, config: str) -> Shard:
        import datasets

        # The published card's sizes do not match the files: `load` compares and warns with both numbers.
        dataset = self._ask(
            lambda: datasets.load_dataset(self.spec, config, split="train", verification_mode="no_checks")
        )
        table = tables.dataset_table(dataset)
        return tables.table_shard(table, self.rows.COLUMNS, self.rows.IMAGE_COLUMN, file=f"{self.spec}/{config}")

    def _ask(self, call: Callable[[], Any]) -> Any:
        """Call the hub; turn whatever goes wrong on the way into one clear error."""
        try:
            return call()
        except (OSError, ValueError, RuntimeError, HfHubHTTPError) as error:
            reason = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no message'}"
            raise DataError(
                f"cannot be loaded from the hub ({reason}), and there is no such folder. {_SET_FOLDER}", file=self.spec
            ) from error


_SET_FOLDER = (
    f"Without network, set UMU_DATA to a local folder, or to `mini` for the built-in small data set. {layout.EXPECTED}."
)


def open_source(spec: str | None = None, *, benchmark: str = "umu") -> Source:
    """Return the source that `spec` names; one object a place and process, so asking again is cheap.

    Args:
        spec: hub id, folder, or ``mini``; None reads the benchmark's variable (``UMU_DATA``, ``MLLMU_DATA``), and where
            that is not set either takes the benchmark's data set on the hub. A folder that exists wins over a hub id.
        benchmark: name of the folder in `umu_tasks.tasks` that holds its `rows.py`.

    Raises:
        DataError: a folder that is missing or has none of the benchmark's splits; an unknown benchmark.
    """
    variable = VARIABLES.get(benchmark, f"{benchmark.upper()}_DATA")
    name = spec or os.environ.get(variable) or HUB_IDS.get(benchmark, "")
    where = "" if spec or not os.environ.get(variable) else f"{variable}="
    path = Path(name).expanduser()
    key = (benchmark, name if name == "mini" or not path.exists() else str(path.resolve()))
    with _sources_lock:
        if key not in _sources:
            _sources[key] = _open(name, path, where, benchmark)
        return _sources[key]


_sources: dict[tuple[str, str], Source] = {}
_sources_lock = threading.RLock()


def _open(name: str, path: Path, where: str, benchmark: str) -> Source:
    rows = row_parser(benchmark)
    if name == "mini":
        from umu_tasks.mini.build import mini_data_dir

        return FolderSource(mini_data_dir(), rows, spec=name, kind="mini")
    if path.is_dir():
        return FolderSource(path.resolve(), rows)
    if path.exists():
        raise DataError(f"is a file, not a folder. {layout.EXPECTED}.", file=f"{where}{name}")
    if _is_hub_id(name):
        return HubSource(name, rows)
    raise DataError(f"no such folder. {layout.EXPECTED}; or give a hub id, or `mini`.", file=f"{where}{name}")


def _is_hub_id(name: str) -> bool:
    """Tell ``owner/name`` from a path. What starts in an existing folder is a path with a mistake further on."""
    return _HUB_ID.fullmatch(name) is not None and not Path(name).parent.is_dir()


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
    missing = [name for name in rows.COLUMNS if name not in found]
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
