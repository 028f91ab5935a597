"""Finds the splits of a data set in a local folder, in any of the layouts people have.

Layouts:

    umu/forget_5/train-00000-of-00001.parquet     one folder a split, any alias in any case (also below data/)
    umu/README.md + forget_5/train-….parquet      a snapshot of the hub's repository, its card naming the data files
    umu/forget_5.parquet                          one file a split
    umu/forget_5/state.json + data-….arrow        written by `datasets.save_to_disk`
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from umu_tasks.benchmarks.errors import DataError

_SHARD = re.compile(r"(?P<name>.+)-(?P<index>\d{5})-of-(?P<count>\d{5})(?:-[0-9a-f]+)?")
_INNER_FOLDERS = ("train", "data")  # inside a split's folder: converted and `DatasetDict` copies
EXPECTED = (
    "Expected one folder a split, each with its parquet files: forget_5/train-00000-of-00001.parquet, "
    "retain_95/…, real_person/…, full_data/… (other common names do too)"
)


@dataclass(frozen=True)
class SplitFiles:
    """Where one split lies.

    Attributes:
        name: the name found on disk.
        files: its parquet files in order; or one folder written by `datasets.save_to_disk`.
        declared_rows: the row count the dataset card claims, None where it claims none.
    """

    name: str
    files: tuple[Path, ...]
    declared_rows: int | None = None


@dataclass(frozen=True)
class Layout:
    """The splits found in a folder, by canonical name."""

    folder: Path
    splits: dict[str, SplitFiles] = field(default_factory=dict)


Resolve = Callable[[str], str | None]
"""Turns a name found on disk into a canonical split name, or None."""

NamedFiles = tuple[str, tuple[Path, ...]]


def find_layout(folder: Path, resolve: Resolve) -> Layout:
    """Return the splits in `folder` or in the one folder below it that holds them.

    Raises:
        DataError: no split there, two folders for one split, a missing shard, or a folder that cannot be read.
    """
    try:
        declared = _Card.of(folder, resolve).rows
        for candidate in _candidates(folder):
            splits = _splits_in(candidate, resolve, declared)
            if splits:
                return Layout(folder, splits)
    except OSError as error:
        raise DataError(f"cannot be read ({error}).", file=str(folder)) from error
    raise DataError(_no_splits(folder, resolve), file=str(folder))


def _candidates(folder: Path) -> Iterator[Path]:
    yield folder
    yield folder / "data"
    snapshots = folder / "snapshots"  # the hub's cache: datasets--owner--name/snapshots/<revision>
    if snapshots.is_dir():
        yield from sorted(snapshots.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)


def _splits_in(folder: Path, resolve: Resolve, declared: dict[str, int]) -> dict[str, SplitFiles]:
    if not folder.is_dir():
        return {}
    card = _Card.of(folder, resolve)
    declared = declared | card.rows
    named_by_card = dict(_resolved(card.data_files(), resolve))
    found: dict[str, SplitFiles] = {}
    for split, (name, files) in [*named_by_card.items(), *_resolved(_by_name(folder), resolve)]:
        if split in found and split in named_by_card:
            continue
        if split in found:
            raise DataError(
                f"two copies of split {split}: {found[split].name} and {name}. Remove or rename one of them.",
                file=str(folder),
            )
        _require_all_shards(files)
        found[split] = SplitFiles(name, files, declared.get(split))
    return found


def _resolved(named: Iterable[NamedFiles], resolve: Resolve) -> Iterator[tuple[str, NamedFiles]]:
    for name, files in named:
        split = resolve(name)
        if split is not None:
            yield split, (name, files)


def _by_name(folder: Path) -> Iterator[NamedFiles]:
    """Yield (name, files) for each sub-folder and each group of parquet shards directly in `folder`."""
    loose: dict[str, list[Path]] = {}
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            files = _files_of_split_folder(path)
            if files:
                yield path.name, files
        elif path.suffix == ".parquet":
            shard = _SHARD.fullmatch(path.stem)
            loose.setdefault(shard["name"] if shard else path.stem, []).append(path)
    for name, paths in loose.items():
        yield name, tuple(paths)


def _files_of_split_folder(folder: Path) -> tuple[Path, ...]:
    if (folder / "state.json").is_file():
        return (folder,)
    parquet = sorted(folder.glob("train-*.parquet")) or sorted(folder.glob("*.parquet"))
    if parquet:
        return tuple(parquet)
    for inner in _INNER_FOLDERS:
        if (folder / inner).is_dir():
            files = _files_of_split_folder(folder / inner)
            if files:
                return files
    return ()


def _require_all_shards(files: tuple[Path, ...]) -> None:
    """Raise if the file names say that there are more shards than were found."""
    counts: dict[int, set[int]] = {}
    for path in files:
        shard = _SHARD.fullmatch(path.stem)
        if shard:
            counts.setdefault(int(shard["count"]), set()).add(int(shard["index"]))
    for count, indices in counts.items():
        missing = sorted(set(range(count)) - indices)
        if missing:
            raise DataError(
                f"{len(indices)} of {count} parquet files found; number {', '.join(map(str, missing))} missing. "
                "The copy is incomplete: download or copy it again.",
                file=str(files[0].parent),
            )


def all_shards(name: str) -> list[str]:
    """Return the names of all the files that one file's name says there are; of a file that is no shard, its own.

    >>> all_shards("data/real-00001-of-00002.parquet")
    ['data/real-00000-of-00002.parquet', 'data/real-00001-of-00002.parquet']
    """
    shard = re.fullmatch(r"(.+-)\d{5}-of-(\d{5})\.parquet", name)
    if shard is None:
        return [name]
    return [f"{shard[1]}{index:05d}-of-{shard[2]}.parquet" for index in range(int(shard[2]))]


def _no_splits(folder: Path, resolve: Resolve) -> str:
    names = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    found = ", ".join(names[:8]) + (", …" if len(names) > 8 else "") or "an empty folder"
    advice = f"Give the folder above it: {folder.parent}" if resolve(folder.name) else EXPECTED
    return f"no split of the benchmark in this folder; found {found}. {advice}."


@dataclass(frozen=True)
class _Card:
    """What the front matter of a dataset card (README.md) says about configs: their data files and row counts."""

    folder: Path
    configs: list[dict[str, object]] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path, resolve: Resolve) -> _Card:
        """Read the card of `folder`; a folder without a readable one gets an empty card."""
        try:
            text = (folder / "README.md").read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return cls(folder)
        parts = re.split(r"^---\s*$", text, maxsplit=2, flags=re.MULTILINE)
        if len(parts) < 3 or parts[0].strip():
            return cls(folder)
        try:
            header = yaml.safe_load(parts[1])
        except yaml.YAMLError:
            return cls(folder)
        if not isinstance(header, dict):
            return cls(folder)
        return cls(folder, _dicts(header.get("configs")), declared_rows(header.get("dataset_info"), resolve))

    def data_files(self) -> Iterator[NamedFiles]:
        """Yield (config name, files) for each config whose train files are there."""
        for config in self.configs:
            patterns = _train_patterns(config.get("data_files"))
            files = tuple(path for pattern in patterns for path in sorted(self.folder.glob(pattern)) if path.is_file())
            if files:
                yield str(config.get("config_name")), files


def declared_rows(info: object, resolve: Resolve) -> dict[str, int]:
    """Return canonical split name -> rows that the card declares for that config's train split."""
    declared: dict[str, int] = {}
    for one in _dicts(info):
        name = resolve(str(one.get("config_name")))
        for split in _dicts(one.get("splits")):
            rows = split.get("num_examples")
            if name is not None and split.get("name") == "train" and isinstance(rows, int):
                declared[name] = rows
    return declared


def _train_patterns(data_files: object) -> list[str]:
    if isinstance(data_files, str):
        return [data_files]
    patterns: list[str] = []
    for one in data_files if isinstance(data_files, list) else []:
        if isinstance(one, str):
            patterns.append(one)
        elif isinstance(one, dict) and one.get("split", "train") == "train":
            path = one.get("path")
            patterns.extend([path] if isinstance(path, str) else [str(each) for each in path or []])
    return [pattern for pattern in patterns if not pattern.startswith(("/", "hf://", "http")) and ".." not in pattern]


def _dicts(value: object) -> list[dict[str, object]]:
    values = value if isinstance(value, list) else [value]
    return [one for one in values if isinstance(one, dict)]
