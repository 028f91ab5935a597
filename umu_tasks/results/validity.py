"""Whether a run's scores may be read: a backend that fails, or a model that says nothing, has not forgotten."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

MAX_SHARE = 0.01  # of a leaf task's questions may have failed or have an empty output


def judge(
    summaries: Mapping[str, Mapping[str, Any]], problems: Sequence[str] = (), unscored: Collection[str] = ()
) -> dict[str, Any]:
    """Return ``{"valid": bool, "reasons": [str, …]}``.

    Args:
        summaries: leaf task -> `scoring.summary.summarize`.
        problems: what else went wrong, one sentence each.
        unscored: leaf tasks that were asked and not scored, as ``--predict_only`` wants it.
    """
    found = [_problem(task, summary) for task, summary in summaries.items()]
    reasons = [*(reason for reason in found if reason), *problems]
    if unscored:
        reasons.append(f"nothing was scored, since --predict_only was given: {', '.join(unscored)}")
    return {"valid": not reasons, "reasons": reasons}


def _problem(task: str, summary: Mapping[str, Any]) -> str | None:
    values = [metric["value"] for metric in summary["metrics"].values()]
    if values and not any(value is not None and math.isfinite(value) for value in values):
        return f"{task}: no score, since no knowledge instance was asked in both modalities (an odd --limit?)"
    empty, failed = int(summary["counts"]["empty"]), int(summary["counts"]["failed"])
    questions = int(summary["questions"])
    if empty + failed <= MAX_SHARE * questions:
        return None
    return f"{task}: {empty} empty and {failed} failed of {questions} outputs, where at most {MAX_SHARE:.0%} may be"
