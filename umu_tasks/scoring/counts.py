"""How many of a task's outputs are no answers, and how many are one and the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from umu_tasks.scoring.metrics import QUESTION_METRICS


def counts_and_rates(questions: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Return ``counts`` and ``rates``: of each flag in the records, and of the answer given most often.

    Args:
        questions: one record a question.

    Returns:
        ``counts``: ``refusal``, ``empty``, ``failed``, ``same_output``; ``rates``: the same by the number of questions,
        each name ending in ``_rate``.
    """
    counts = {name: sum(int(record[name]) for record in questions) for name in QUESTION_METRICS.values()}
    counts["same_output"] = same_output(questions)
    return {"counts": dict(counts), "rates": {f"{name}_rate": n / len(questions) for name, n in counts.items()}}


def same_output(questions: Sequence[Mapping[str, Any]]) -> int:
    """Return the largest number of questions with the same parsed output, of those that are neither empty nor failed.

    A model that says one thing to every question may still score: in classification by the share of one letter.
    """
    answers = Counter(record["parsed"] for record in questions if not record["empty"] and not record["failed"])
    return max(answers.values(), default=0)
