"""A trial's folder belongs to one process and the programs it started; the system frees it when the last one ends."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

LOCK = ".lock"


def try_lock(folder: Path, name: str = LOCK) -> IO[str] | None:
    """Return the folder's lock file, or another one in it, locked until it is closed; None if another has it."""
    folder.mkdir(parents=True, exist_ok=True)
    stream = (folder / name).open("a", encoding="utf-8")
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        stream.close()
        return None
    return stream


def is_free(folder: Path) -> bool:
    """Return whether nobody works in a folder."""
    stream = try_lock(folder)
    if stream is not None:
        stream.close()
    return stream is not None


@contextmanager
def locked(folder: Path, name: str = LOCK) -> Iterator[None]:
    """Hold the folder's lock, or another one in it, waiting for it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / name).open("a", encoding="utf-8") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
