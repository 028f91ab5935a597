"""Ask something that may never answer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

SECONDS = 5.0


def within(call: Callable[[], T], seconds: float = SECONDS) -> T:
    """Return what `call` returns.

    It runs in a thread: a look-up of a name or a connection that hangs cannot be ended, only left behind.

    Raises:
        TimeoutError: it took longer than `seconds`.
        Exception: whatever `call` raises.
    """
    found: list[T] = []
    problems: list[BaseException] = []

    def ask() -> None:
        try:
            found.append(call())
        except BaseException as error:  # noqa: BLE001 - raised below, where it was asked for
            problems.append(error)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(seconds)
    if problems:
        raise problems[0]
    if not found:
        raise TimeoutError(f"no answer within {seconds:g} seconds")
    return found[0]
