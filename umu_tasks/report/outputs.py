"""Count outputs that are no answers: a destroyed model must never look like one that forgot.

An empty output is scored like any other, so a model that writes nothing gets zero on cloze and generation, and under
the nearest-option rule even some classification questions right. Its row reads like perfect forgetting. So every report
shows, next to the scores, how many outputs were empty, refused or missing, and calls a run with empty outputs invalid.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from umu_tasks.report.runs import RunResult, TaskResult
from umu_tasks.results.validity import MAX_SHARE

EMPTY_LIMIT = MAX_SHARE
"""Share of empty or failed outputs above which a run is invalid (fraction of a task's questions)."""
_REASONS = 3
"""How many of a run's own reasons are told; a broken model fails every task alike."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of questions, and of outputs that are no answers.

    Attributes:
        failed: questions without an output: recorded as such, or asked and missing in the sample file.
    """

    questions: int
    empty: int
    refused: int
    failed: int

    def share(self, count: int) -> float:
        return count / self.questions if self.questions else 0.0

    @property
    def broken(self) -> int:
        return self.empty + self.failed

    @property
    def is_broken(self) -> bool:
        """More than `EMPTY_LIMIT` of the outputs are empty or failed."""
        return self.share(self.broken) > EMPTY_LIMIT

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.questions + other.questions,
            self.empty + other.empty,
            self.refused + other.refused,
            self.failed + other.failed,
        )


def count_outputs(results: Iterable[TaskResult]) -> Counts | None:
    """Count over tasks; None when nobody looked at one task's outputs, so that it can't be read as "0 empty"."""
    total = Counts(0, 0, 0, 0)
    for result in results:
        counts = _of_answers(result) or _of_summary(result)
        if counts is None:
            return None
        total += counts
    return total


def _of_answers(result: TaskResult) -> Counts | None:
    answers = result.answers
    if answers is None:
        return None
    asked = max(result.questions or 0, len(answers))
    missing = asked - len(answers)
    return Counts(
        asked,
        sum(answer.empty for answer in answers),
        sum(answer.refusal for answer in answers),
        missing + sum(answer.failed for answer in answers),
    )


def _of_summary(result: TaskResult) -> Counts | None:
    counts = result.summary.get("counts")
    if not isinstance(counts, dict):
        return None
    recorded = int(result.summary.get("questions", 0))
    asked = max(result.questions or 0, recorded)
    failed = int(counts.get("failed", 0)) + asked - recorded
    return Counts(asked, int(counts.get("empty", 0)), int(counts.get("refusal", 0)), failed)


def invalid_reason(run: RunResult) -> str:
    """Say why a run's scores do not show forgetting; "" for a run whose outputs are answers.

    What the run says of itself comes first; what can be counted here is judged too, since not every run was judged.
    """
    if run.invalid:
        more = len(run.invalid) - _REASONS
        return "; ".join([*run.invalid[:_REASONS], *([f"and {more} more reasons of the kind"] if more > 0 else [])])
    broken = []
    for (split, task), result in run.tasks.items():
        counts = None if result.derived_from else count_outputs([result])
        if counts is not None and counts.is_broken:
            broken.append(f"{counts.broken} of {counts.questions} on {split} {task}")
    return f"empty or failed outputs: {', '.join(broken)} (limit {100 * EMPTY_LIMIT:.0f} %)" if broken else ""
