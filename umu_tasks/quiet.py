"""What libraries say goes to a log file, unless the user wants to see it.

Warnings of our own packages are for the user and go to the screen as well.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from umu_tasks.benchmarks.cache import cache_dir

OWN = ("umu_tasks", "umu_trainers")
# Read by the libraries when they are imported, which happens inside the commands.
_VARIABLES = {
    "TRANSFORMERS_VERBOSITY": "error",
    "TRANSFORMERS_NO_ADVISORY_WARNINGS": "1",
    "DATASETS_VERBOSITY": "error",
    "TOKENIZERS_PARALLELISM": "false",
}


@contextmanager
def quiet(command: str, *, verbose: bool = False) -> Iterator[Path | None]:
    """Keep libraries off the screen while a command runs; what the user set stays as it is.

    Args:
        command: names the log file.
        verbose: show all on the screen instead.

    Yields:
        The log file, there once something was written to it; None where everything is shown, or no file can be made.
    """
    log = None if verbose else log_file(command)
    handlers = [_screen(verbose=verbose), *([logging.FileHandler(log, mode="w", delay=True)] if log else [])]
    root = logging.getLogger()
    level, root.level = root.level, logging.INFO if verbose else logging.WARNING
    for handler in handlers:
        root.addHandler(handler)
    logging.captureWarnings(True)
    added = {} if verbose else _set(_VARIABLES | ({} if sys.stderr.isatty() else {"HF_HUB_DISABLE_PROGRESS_BARS": "1"}))
    try:
        yield log
    finally:
        logging.captureWarnings(False)
        root.level = level
        for handler in handlers:
            root.removeHandler(handler)
            handler.close()
        for name in added:
            os.environ.pop(name, None)


def log_file(command: str) -> Path | None:
    """Return the log file of a command, emptied; None where the cache folder can't be written."""
    try:
        file = cache_dir("logs") / f"umu-{command}.log"
        file.unlink(missing_ok=True)
    except OSError:
        return None
    return file


def _screen(*, verbose: bool) -> logging.Handler:
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    if not verbose:
        handler.setLevel(logging.WARNING)
        handler.addFilter(lambda record: record.name.startswith(OWN))
    return handler


def _set(variables: dict[str, str]) -> dict[str, str]:
    """Set the variables that are not set; return these."""
    added = {name: value for name, value in variables.items() if name not in os.environ}
    os.environ.update(added)
    return added
