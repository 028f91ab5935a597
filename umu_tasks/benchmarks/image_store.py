"""The images of a large parquet file, readable one by one.

A page of a parquet file holds many images and can only be unpacked whole. So the image column of a large file is copied
once, in small batches, to a file in the cache, from which each image is one plain read:

    image bytes, one after another | index: a JSON list, per row [offset, length], a path, null, or a list of these
    where a row has a list of images | length of the index

The copy is made when the first image is asked for. It belongs to one file at one place, of one size and time of change.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock

from umu_tasks.benchmarks.cache import cache_dir
from umu_tasks.benchmarks.errors import DataError

logger = logging.getLogger(__name__)

BATCH_ROWS = 8  # images in memory while a file is copied, besides the page they come from
_FORMAT = 2  # part of the copies' names: raise it when the layout above changes
_TRAILER = 8  # bytes, little-endian

Entry = list[Any] | str | None
Stamp = tuple[int, int]
"""Size in bytes and time of change in nanoseconds of a file."""


def file_stamp(path: Path) -> Stamp:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


@dataclass(eq=False)
class StoredColumn:
    """The image column of one parquet file; `stamp` is that of the file when its other columns were read."""

    path: Path
    column: str
    stamp: Stamp
    _entries: list[Entry] = field(default_factory=list)
    _copy: Path | None = None

    def read(self, index: int) -> dict[str, object] | list[Any] | None:
        """Return the image cell of row `index` as ``{"bytes", "path"}``, None where the row has no image; a list of
        such cells where the row has a list of images.

        Raises:
            DataError: the file is damaged, has changed since it was opened, or its copy cannot be written.
        """
        if self._copy is None:  # threads that meet here do the same work twice and wait for one copy
            copy = self._prepare()
            self._entries = _read_index(copy)
            self._copy = copy
        with self._copy.open("rb") as file:
            return _read_entry(file, self._entries[index])

    def _prepare(self) -> Path:
        with reading(self.path):
            if file_stamp(self.path) != self.stamp:
                raise DataError("changed since it was opened. Start again.", file=str(self.path))
            target = _copies_dir() / _copy_name(self.path, self.column, self.stamp)
            if not target.exists():
                with FileLock(target.with_suffix(".lock")):  # the processes of one launch make it once
                    if not target.exists():
                        _write_copy(self.path, self.column, target)
            return target


def _copy_name(path: Path, column: str, stamp: Stamp) -> str:
    return f"{_digest(str(path.resolve()), column)}-{_digest(_FORMAT, *stamp)}.images"


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _write_copy(path: Path, column: str, target: Path) -> None:
    logger.info("%s: copying its images to %s for random access", path, target)
    handle, name = tempfile.mkstemp(prefix=".part-", dir=target.parent)
    partial = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            index = json.dumps([_append(file, cell) for cell in _cells(path, column)]).encode()
            file.write(index + len(index).to_bytes(_TRAILER, "little"))
        partial.replace(target)
    except OSError as error:
        raise DataError(
            f"its images cannot be copied to {target.parent} ({error}). Free some space, or set UMU_CACHE.",
            file=str(path),
        ) from error
    finally:
        partial.unlink(missing_ok=True)
    for older in target.parent.glob(f"{target.name.split('-')[0]}-*.images"):
        if older != target:
            older.unlink(missing_ok=True)


def _cells(path: Path, column: str) -> Iterator[Any]:
    """Yield the cells of the column; the file is read through a small buffer, a batch of rows at a time."""
    with reading(path), pq.ParquetFile(path, buffer_size=2**20, pre_buffer=False) as parquet:
        for batch in parquet.iter_batches(batch_size=BATCH_ROWS, columns=[column], use_threads=False):
            yield from batch.column(0).to_pylist()
    pa.default_memory_pool().release_unused()


def _append(file: BinaryIO, cell: Any) -> Entry:
    if isinstance(cell, list):
        return [_append(file, one) for one in cell]
    data, path = (cell.get("bytes"), cell.get("path")) if isinstance(cell, dict) else (cell, cell)
    if isinstance(data, bytes):
        offset = file.tell()
        return [offset, file.write(data)]
    return path if isinstance(path, str) else None


def _read_entry(file: BinaryIO, entry: Entry) -> dict[str, object] | list[Any] | None:
    if not isinstance(entry, list):
        return None if entry is None else {"bytes": None, "path": entry}
    if not (len(entry) == 2 and all(isinstance(part, int) for part in entry)):
        return [_read_entry(file, one) for one in entry]
    offset, length = entry
    file.seek(offset)
    return {"bytes": file.read(length), "path": None}


def _read_index(copy: Path) -> list[Entry]:
    with copy.open("rb") as file:
        file.seek(-_TRAILER, os.SEEK_END)
        length = int.from_bytes(file.read(_TRAILER), "little")
        file.seek(-_TRAILER - length, os.SEEK_END)
        return json.loads(file.read(length))


def _copies_dir() -> Path:
    try:
        folder = cache_dir("images")
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        logger.warning("%s: image copies will last for this process only. Set UMU_CACHE to a writable folder.", error)
        return _temporary_dir()


@functools.cache
def _temporary_dir() -> Path:
    folder = tempfile.mkdtemp(prefix="umu-bench-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


class reading:
    """Turns what Arrow and the file system raise while `path` is read into a `DataError` that names the file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, pa.ArrowException | OSError | EOFError):
            raise DataError(
                f"cannot be read ({error}). It is cut off or damaged, or no data file: download or copy it again.",
                file=str(self.path),
                kind="file cannot be read",
            ) from error
