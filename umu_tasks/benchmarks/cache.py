"""The folder for files we can make again: ``$UMU_CACHE``, or ``umu-bench`` in ``$XDG_CACHE_HOME`` or ``~/.cache``."""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir(name: str) -> Path:
    """Return the cache folder for one kind of file, made if it is not there.

    Raises:
        OSError: it cannot be made.
    """
    own = os.environ.get("UMU_CACHE")
    shared = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = (Path(own).expanduser() if own else Path(shared) / "umu-bench") / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder
