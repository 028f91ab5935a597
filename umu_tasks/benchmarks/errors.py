"""The error every reader of benchmark data raises: where, what was found, what was expected, what to do."""

from __future__ import annotations

from collections.abc import Callable


class DataError(ValueError):
    """Benchmark data that cannot be used.

    The message reads ``FILE, row ID 017, column Cloze: what was found and expected. What to do.``

    Attributes:
        kind: a few words that problems of one sort share; `umu data check` counts by it.
    """

    def __init__(
        self,
        problem: str,
        *,
        file: str | None = None,
        row_id: str | None = None,
        column: str | None = None,
        kind: str = "unusable data",
    ) -> None:
        self.problem = problem
        self.file = file
        self.row_id = row_id
        self.column = column
        self.kind = kind
        where = [file] if file else []
        if row_id is not None:
            where.append(f"row ID {row_id}")
        if column is not None:
            where.append(f"column {column}")
        super().__init__(f"{', '.join(where)}: {problem}" if where else problem)


class DataNotice(DataError):
    """Data that can be used but is probably a mistake: `umu data check` lists it, loading does not stop for it."""


class NoQuestionsError(DataError):
    """Data without a question for a task that asks about them."""


Report = Callable[[DataError], None]
"""Where a row parser sends each problem it meets. It goes on with the rest of the row if this returns."""


def raise_errors(problem: DataError) -> None:
    """The `Report` of loading: stop at the first error, let notices pass."""
    if not isinstance(problem, DataNotice):
        raise problem
