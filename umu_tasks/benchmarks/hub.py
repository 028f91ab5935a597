"""A data set on the Hugging Face hub, read from its parquet files.

`huggingface_hub` downloads what a split needs, once, into its cache; from there on the files are read like those of a
local folder, images one by one. Which file belongs to which split is found out by the rules for folders (`layout`),
applied to the repository's list of files.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path, PurePosixPath
from typing import TypeVar

from huggingface_hub import HfApi, constants, hf_hub_download, snapshot_download, try_to_load_from_cache
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
)

from umu_tasks.benchmarks import layout, tables
from umu_tasks.benchmarks.errors import DataError
from umu_tasks.benchmarks.sources import Part, RowParser, Source, read_ids
from umu_tasks.benchmarks.tables import Shard

logger = logging.getLogger(__name__)

T = TypeVar("T")

CARD = "README.md"
# Among its bases is the base error of the HTTP library in use, which other connection errors derive from too.
TRANSPORT_ERRORS: tuple[type[Exception], ...] = (
    *(base for base in HfHubHTTPError.__bases__ if issubclass(base, Exception)),
    OSError,
)
HUB_ERRORS: tuple[type[Exception], ...] = (*TRANSPORT_ERRORS, ValueError, RuntimeError)


@dataclass(frozen=True)
class Snapshot:
    """A repository at one commit.

    Attributes:
        folder: its place in the hub's cache; holds the files downloaded so far.
        names: its files, as the hub lists them; those in `folder` where the hub is out of reach.
        from_cache: the hub was out of reach.
        splits: canonical split name -> its files, paths in the repository.
    """

    folder: Path
    names: tuple[str, ...]
    from_cache: bool
    splits: dict[str, layout.SplitFiles]

    @property
    def commit(self) -> str:
        return self.folder.name

    def files(self, split: str) -> list[str]:
        """Return the parquet files of a split; for a folder written by `save_to_disk`, all the files in it."""
        wanted = [path.as_posix() for path in self.splits[split].files]
        return [name for name in self.names if any(name == one or name.startswith(f"{one}/") for one in wanted)]


class HubSource(Source):
    """Splits in a repository of the hub, or in what the hub's cache holds of it.

    Args:
        hub_id: ``owner/name``.
        variable: the environment variable that names the source, for messages.
    """

    def __init__(self, hub_id: str, rows: RowParser, variable: str = "UMU_DATA") -> None:
        super().__init__(hub_id, "hub", rows)
        self.variable = variable
        self._ids: dict[str, tuple[str, ...] | None] = {}

    def splits(self) -> tuple[str, ...]:
        return tuple(split for split in self.rows.SPLITS if split in self._snapshot.splits)

    def from_cache(self) -> HubSource:
        """Return what was downloaded before as a source of its own; asks nobody.

        Raises:
            DataError: nothing was.
        """
        source = HubSource(self.spec, self.rows, self.variable)
        why = OfflineModeIsEnabled() if constants.HF_HUB_OFFLINE else ConnectionError("not asked")
        source._snapshot = self._cached_snapshot(why)
        return source

    def resolve(self, name: str) -> str:
        try:
            return super().resolve(name)
        except DataError as error:
            if not self._snapshot.from_cache or self.rows.resolve_split(name) is None:
                raise
            text = f"{error.problem} The hub is out of reach, and only these were downloaded before. {self._advice}"
            raise DataError(text, file=self.spec) from error

    def parts(self, split: str) -> list[Part]:
        return [
            Part(f"{self.spec}/{path.as_posix()}", partial(self._open, split, path.as_posix()))
            for path in self._snapshot.splits[split].files
        ]

    def stamp(self, split: str) -> object:
        return self._snapshot.commit

    def declared_rows(self, split: str) -> int | None:
        return self._snapshot.splits[split].declared_rows

    def ids(self, split: str) -> tuple[str, ...] | None:
        """Return the IDs of splits that have been downloaded; others are left out."""
        if split in self._loaded:
            return self._loaded[split][1].ids
        if split not in self._snapshot.splits or not all(map(self._is_cached, self._snapshot.files(split))):
            return None
        if split not in self._ids:
            paths = [self._snapshot.folder / path for path in self._snapshot.splits[split].files]
            self._ids[split] = read_ids(paths, self.rows)
        return self._ids[split]

    @property
    def _advice(self) -> str:
        return (
            f"Without network, set {self.variable} to a local folder, or to `mini` for the built-in small data set. "
            f"{layout.EXPECTED}."
        )

    # ---- the repository -----------------------------------------------------------------------------------------

    @cached_property
    def _snapshot(self) -> Snapshot:
        """What the repository holds now. Errors are not kept: the next call asks again."""
        try:
            about = HfApi().dataset_info(self.spec)
        except HUB_ERRORS as error:
            return self._cached_snapshot(error)
        # Fixes the commit for all later downloads, and notes it for the day without network.
        folder = Path(self._ask(lambda: snapshot_download(self.spec, repo_type="dataset", allow_patterns=[CARD])))
        if folder.name != about.sha:  # changed in between
            about = self._ask(lambda: HfApi().dataset_info(self.spec, revision=folder.name))
        names = tuple(sorted(one.rfilename for one in about.siblings or ()))
        return Snapshot(folder, names, False, self._find_splits(folder, names))

    def _cached_snapshot(self, error: Exception) -> Snapshot:
        """Return what was downloaded before; explain why there is no more if there is nothing."""
        try:
            # No file is asked for: which of them are there is ours to see.
            place = snapshot_download(self.spec, repo_type="dataset", allow_patterns=[], local_files_only=True)
        except (LocalEntryNotFoundError, ValueError):
            raise DataError(f"{_explain(error)} {self._advice}", file=self.spec) from error
        folder = Path(place)
        found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
        names = tuple(sorted(name for name in found if found.issuperset(layout.all_shards(name))))
        if not any(name.endswith(".parquet") for name in names):
            raise DataError(f"{_explain(error)} {self._advice}", file=self.spec) from error
        if not constants.HF_HUB_OFFLINE:
            logger.warning(
                "%s: the hub is out of reach (%s); using what was downloaded before.", self.spec, _reason(error)
            )
        return Snapshot(folder, names, True, self._find_splits(folder, names))

    def _find_splits(self, folder: Path, names: Iterable[str]) -> dict[str, layout.SplitFiles]:
        try:
            return find_splits(names, folder / CARD, self.rows.resolve_split)
        except DataError as error:
            listed = [name for name in names if not name.startswith(".")]
            found = ", ".join(listed[:8]) + (", …" if len(listed) > 8 else "")
            text = f"no split of {self.rows.BENCHMARK} in this data set ({error.problem})"
            raise DataError(f"{text} Its files: {found or 'none'}. {self._advice}", file=self.spec) from error

    # ---- files --------------------------------------------------------------------------------------------------

    def _open(self, split: str, path: str) -> Shard:
        for name in self._snapshot.files(split):
            if name == path or name.startswith(f"{path}/"):
                self._download(name)
        local = self._snapshot.folder / path
        try:
            shard = tables.open_file(local, self.rows.COLUMNS, self.rows.IMAGE_COLUMN)
        except DataError as error:
            text = f"{error.problem} It is in the hub's cache: delete {local.resolve()}, and the next start fetches it."
            raise DataError(text, file=str(local), kind=error.kind) from error
        return replace(shard, file=f"{self.spec}/{path}")

    def _download(self, name: str) -> None:
        commit = self._snapshot.commit
        self._ask(lambda: hf_hub_download(self.spec, name, repo_type="dataset", revision=commit))

    def _is_cached(self, name: str) -> bool:
        found = try_to_load_from_cache(self.spec, name, repo_type="dataset", revision=self._snapshot.commit)
        return isinstance(found, str)

    def _ask(self, call: Callable[[], T]) -> T:
        """Call the hub; turn whatever goes wrong on the way into one clear error."""
        try:
            return call()
        except HUB_ERRORS as error:
            raise DataError(f"{_explain(error)} {self._advice}", file=self.spec) from error


def find_splits(names: Iterable[str], card: Path, resolve: layout.Resolve) -> dict[str, layout.SplitFiles]:
    """Return canonical split name -> files, for a repository that is known by its list of files.

    Args:
        names: paths in the repository.
        card: its dataset card, which need not exist.
        resolve: turns a name into a canonical split name, or None.

    Raises:
        DataError: as `layout.find_layout`.
    """
    with tempfile.TemporaryDirectory(prefix="umu-bench-") as place:
        outline = Path(place).resolve()  # empty files of the same names: one set of rules for folders and repositories
        for name in names:
            path = PurePosixPath(name)
            safe = not path.is_absolute() and ".." not in path.parts
            if safe and (path.suffix == ".parquet" or path.name == "state.json"):
                (outline / path).parent.mkdir(parents=True, exist_ok=True)
                (outline / path).touch()
        if card.is_file():
            shutil.copyfile(card, outline / CARD)
        found = layout.find_layout(outline, resolve).splits
        return {
            split: replace(one, files=tuple(path.relative_to(outline) for path in one.files))
            for split, one in found.items()
        }


def _explain(error: BaseException) -> str:
    """Return what went wrong and what can be done about it."""
    if isinstance(error, GatedRepoError):
        return (
            f"access to this data set is restricted ({_reason(error)}). Ask for it on the data set's page, then log in "
            "with `hf auth login`."
        )
    if isinstance(error, RepositoryNotFoundError):
        return (
            f"there is no such data set on the hub, nor a folder of this name ({_reason(error)}). Check the "
            "id; for a private data set log in with `hf auth login`."
        )
    if isinstance(error, OfflineModeIsEnabled):
        return "the hub's cache has no copy, and HF_HUB_OFFLINE is set: unset it to download."
    if isinstance(error, HfHubHTTPError) or not isinstance(error, TRANSPORT_ERRORS):
        return f"cannot be loaded from the hub ({_reason(error)})."
    return f"the hub cannot be reached, or the connection broke off ({_reason(error)}). Check the network; start again."


def _reason(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' '.join(lines[:2]) if lines else 'no message'}"
