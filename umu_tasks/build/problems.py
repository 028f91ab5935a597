"""What is wrong in the user's files: collected, so that one run names all of it."""

from __future__ import annotations

from umu_tasks.benchmarks.errors import DataError

_SHOWN = 20


class Problems:
    """Errors that stop the build once all are known, and warnings that do not."""

    def __init__(self) -> None:
        self.errors: list[DataError] = []
        self.warnings: list[str] = []

    def add(
        self,
        problem: str,
        *,
        file: str | None = None,
        line: int | None = None,
        row_id: str | None = None,
        column: str | None = None,
    ) -> None:
        """Note an error and where it is."""
        self.errors.append(DataError(problem, file=place(file, line), row_id=row_id, column=column))

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def raise_errors(self) -> None:
        """Raise what was found, if anything.

        Raises:
            DataError: the one error, or a list of the first 20.
        """
        if len(self.errors) == 1:
            raise self.errors[0]
        if self.errors:
            lines = [f"  {error}" for error in self.errors[:_SHOWN]]
            more = len(self.errors) - _SHOWN
            lines += [f"  … and {more} more"] if more > 0 else []
            raise DataError("\n".join([f"{len(self.errors)} problems; nothing was written.", *lines]))


def place(file: str | None, line: int | None) -> str | None:
    """Return how messages name a line of a file."""
    return f"{file}, line {line}" if file and line is not None else file


def listed(names: list[str], most: int = 10) -> str:
    """Return the first names and how many there are in all."""
    return ", ".join(names[:most]) + (f", … ({len(names)} in all)" if len(names) > most else "")
