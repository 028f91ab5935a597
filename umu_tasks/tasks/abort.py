"""Ends the program, not only the exception, when an evaluation can't go on.

lmms-eval's command catches every `Exception`, prints it, and exits with success, so that a sweep goes on with a run
that never happened; and it tries `process_docs` and `process_results` five times, hiding the message behind that of the
retries. What it does not catch is `SystemExit`.
"""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from umu_tasks.benchmarks.errors import DataError

P = ParamSpec("P")
R = TypeVar("R")


class EvaluationAborted(SystemExit):
    """The evaluation can't go on. The process prints the message and exits with status 1."""

    def __init__(self, message: str) -> None:
        super().__init__(f"umu-bench: {message}")


def aborts_on_error(function: Callable[P, R]) -> Callable[P, R]:
    """Make every exception of `function` end the program: bad data by its message alone, all others with traceback."""

    @functools.wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except DataError as error:
            raise EvaluationAborted(str(error)) from error
        except Exception as error:
            traceback.print_exc()
            raise EvaluationAborted(f"{function.__name__} failed: {type(error).__name__}: {error}") from error

    return guarded
