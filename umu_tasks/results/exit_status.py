"""Makes a run that is saved, printed, and still not to be trusted end with status 1.

lmms-eval saves results first, prints its table last, and then simply ends. An exception on the way would cost the table
or the samples, so the status is set where nothing is left to lose: when the interpreter exits.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import sys

_reasons: list[str] = []


def fail_at_exit(reason: str) -> None:
    """Have the program print `reason` and exit with status 1 when it has done all it wants to do."""
    _reasons.append(reason)


def watch_exit() -> None:
    """Get ready. Called when the plugin loads: handlers run in reverse order, so those of later imports come first."""
    atexit.unregister(_exit)
    atexit.register(_exit)


def _exit() -> None:
    if not _reasons:
        return
    with contextlib.suppress(OSError, ValueError):  # a closed pipe is no reason to exit with success
        sys.stdout.flush()
        for reason in _reasons:
            print(f"umu-bench: {reason}", file=sys.stderr)
        sys.stderr.flush()
    logging.shutdown()
    os._exit(1)  # an exit handler has no other way to set the status
