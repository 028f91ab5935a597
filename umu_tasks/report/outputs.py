"""Count outputs that are no answers: a destroyed model must never look like one that forgot.

An empty output is scored like any other, so a model that writes nothing gets zero on cloze and generation, and under
the nearest-option rule even some classification questions right. Its row reads like perfect forgetting. So every report
shows, next to the scores, how many outputs were empty, refused or missing, and calls a run with empty outputs invalid.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from umu_tasks.report.runs import RunResult, TaskResult
from umu_tasks.scoring.answers import is_refusal, parse_response

EMPTY_LIMIT = 0.01
"""Share of empty or missing outputs above which a run is invalid (fraction of a split's questions)."""


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
        """More than `EMPTY_LIMIT` of the outputs are empty or missing; a single one in a small set is no pattern."""
        return self.broken > 1 and self.share(self.broken) > EMPTY_LIMIT


def count_outputs(results: Iterable[TaskResult]) -> Counts | None:
    """Count over tasks; None when a sample file is missing, so that nobody reads "0 empty" where nobody looked."""
    questions = empty = refused = failed = 0
    for result in results:
        if result.answers is None:
            return None
        responses = [parse_response(answer.output) for answer in result.answers if answer.output is not None]
        asked = max(result.questions, len(result.answers))
        questions += asked
        failed += asked - len(responses)
        empty += sum(1 for response in responses if not response)
        refused += sum(1 for response in responses if is_refusal(response))
    return Counts(questions, empty, refused, failed)


def invalid_reason(run: RunResult) -> str:
    """Say why a run's scores do not show forgetting; "" for a run whose outputs are answers."""
    broken = []
    for split in run.splits:
        measured = [result for (own, _), result in run.tasks.items() if own == split and not result.derived_from]
        counts = count_outputs(result for result in measured if result.answers is not None)
        if counts is not None and counts.is_broken:
            broken.append(f"{counts.broken} of {counts.questions} on {split}")
    return f"empty or missing outputs: {', '.join(broken)} (limit {100 * EMPTY_LIMIT:.0f} %)" if broken else ""
