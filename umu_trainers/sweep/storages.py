"""Where a sweep's trials are kept: a journal file, or a database that Optuna reaches by its URL."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from umu_tasks.benchmarks.errors import DataError
from umu_trainers.sweep.config import SweepConfig

if TYPE_CHECKING:
    from optuna.storages import BaseStorage

_ATTEMPTS = 4
_WAITS = (1, 2, 4, 8, 15, 30)
"""Seconds between attempts to write into a database that does not answer: it is restarted, or somebody reads in it."""
_PASSWORD = re.compile(r"(?<=://)([^/@:]*):[^/]*(?=@)")
_RECORD = b'{"op_code":'  # how each line of Optuna's journal begins


Result = TypeVar("Result")


def patiently(write: Callable[[], Result]) -> Result:
    """Write into the storage, again and again for a minute: hours of training must not end with one lost connection."""
    from optuna.exceptions import StorageInternalError

    for wait in _WAITS:
        try:
            return write()
        except StorageInternalError:
            time.sleep(wait)
    return write()


def is_database(storage: str) -> bool:
    return "://" in storage


def shown_storage(storage: str) -> str:
    """Return a storage as reports and messages name it: without the password.

    >>> shown_storage("mysql://ada:secret@host/sweeps")
    'mysql://ada:***@host/sweeps'
    """
    return _PASSWORD.sub(r"\1:***", storage)


def sqlite_file(storage: str) -> Path | None:
    """Return the file of an SQLite database, None for any other storage.

    >>> sqlite_file("sqlite:////tmp/s.db").as_posix(), sqlite_file("mysql://host/sweeps")
    ('/tmp/s.db', None)
    """
    if not storage.startswith("sqlite"):
        return None
    from sqlalchemy.engine import make_url

    name = make_url(storage).database
    return Path(name) if name and name != ":memory:" else None


def open_storage(config: SweepConfig, *, create: bool = True) -> BaseStorage:
    """Return the storage: a database's by its URL, else a journal file's.

    Args:
        create: false: only open what is there.

    Raises:
        DataError: it cannot be opened, or is not there.
    """
    from optuna.storages.journal import JournalFileBackend, JournalStorage

    is_file = not is_database(config.storage)
    path = Path(config.storage) if is_file else sqlite_file(config.storage)
    if path is not None:
        if not create and not path.is_file():
            raise DataError(f"{path}: no such file, so there is nothing to report. Run the sweep first.")
        if path.exists() and not path.is_file():
            raise config.file.problem("storage", f"{path} is no file. Name a file, or a database's URL.")
        path.parent.mkdir(parents=True, exist_ok=True)
    if not is_file:
        return _open_database(config)
    mend_journal(Path(config.storage))
    try:
        return JournalStorage(JournalFileBackend(config.storage))
    except (ValueError, KeyError, TypeError) as error:  # what Optuna's reader raises on another file's lines
        raise _no_journal(Path(config.storage), 1) from error


def _open_database(config: SweepConfig) -> BaseStorage:
    """Open a database; of processes that start at once all but one may fail to make its tables, and try again."""
    import optuna

    for attempt in range(_ATTEMPTS):
        try:
            return optuna.storages.get_storage(config.storage)
        except Exception as error:  # whatever the database's own library raises
            if attempt == _ATTEMPTS - 1:
                text = f"{shown_storage(config.storage)} can't be opened: {error}"
                raise config.file.problem("storage", text) from error
            time.sleep(0.5 * (attempt + 1))
    raise AssertionError("the last attempt returns or raises")


def mend_journal(path: Path) -> None:
    """Take out what a dying machine, or one whose disk was full, wrote half; the journal could not be read past it.

    Half a line was never taken for written, so nothing is lost with it. If another process wrote on behind it, its
    record stands in the same line and is kept.

    Raises:
        DataError: a line is no record of a journal.
    """
    from optuna.storages.journal import JournalFileSymlinkLock

    if not path.is_file() or _mended(path) is None:
        return
    lock = JournalFileSymlinkLock(str(path))
    lock.acquire()
    try:
        content = _mended(path)
        if content is not None:
            partial = path.with_name(f"{path.name}.mended")
            partial.write_bytes(content)
            partial.replace(path)
    finally:
        lock.release()


def _mended(path: Path) -> bytes | None:
    """Return what a journal should hold, None if it holds just that."""
    content = path.read_bytes()
    kept = []
    for number, line in enumerate(content.splitlines(keepends=True), start=1):
        record = line[max(line.rfind(_RECORD), 0) :]
        is_last = not line.endswith(b"\n")
        if _is_record(line) and not is_last:
            kept.append(line)
        elif _is_record(record) and not is_last:
            kept.append(record)
        elif not is_last:
            raise _no_journal(path, number)
    mended = b"".join(kept)
    return None if mended == content else mended


def _is_record(line: bytes) -> bool:
    try:
        return line.startswith(_RECORD) and isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _no_journal(path: Path, line: int) -> DataError:
    return DataError(
        f"{path}, line {line}: no record of a sweep. Restore the file from a copy, or move it away: the sweep then "
        "begins anew, and trials whose folders hold a trained model are only scored again."
    )
