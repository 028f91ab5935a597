"""How sure a change is: forget sets are small (5 % of UMU-Bench is 25 people, 50 instances a task).

Intervals of scores come with the results (`umu_tasks.scoring.summary`); here is the interval of a difference between
two runs. Both answered the same questions, so the difference is taken instance by instance and people are resampled: a
hard question is hard for both, and the questions about one person stand or fall together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from umu_tasks.benchmarks.instances import InstanceKey

Z_95 = 1.959963984540054
"""Two-sided 95 % quantile of the normal distribution."""
FEW_PEOPLE = 6
"""With fewer people no change can be told from chance at 95 %: all of them move one way by luck in 2 of 2^5 draws."""


class Interval(NamedTuple):
    """A 95 % interval; bounds are fractions."""

    low: float
    high: float

    @property
    def holds_zero(self) -> bool:
        return self.low <= 0 <= self.high


class Change(NamedTuple):
    """The change of a metric over the instances that two runs share, with its interval."""

    value: float
    interval: Interval
    people: int


def paired_change(after: Mapping[InstanceKey, float], before: Mapping[InstanceKey, float]) -> Change | None:
    """Return the change of a mean from `before` to `after` and its interval by bootstrap over people.

    Args:
        after, before: what each knowledge instance adds to both runs' mean; instances that one of them lacks are left
            out.

    Returns:
        None when no instance is shared.
    """
    import numpy as np

    from umu_tasks.scoring.bootstrap import intervals, resampled_means

    shared = sorted(after.keys() & before.keys())
    if not shared:
        return None
    people = [key.profile_id for key in shared]
    differences = np.array([[after[key] - before[key]] for key in shared])  # (instances, 1)
    _, low, high = intervals(resampled_means(differences, people))
    return Change(float(differences.mean()), Interval(float(low[0]), float(high[0])), len(set(people)))


def unpaired_interval(after: float, stderr_after: float, before: float, stderr_before: float) -> Interval:
    """Return the 95 % interval of ``after - before`` from two standard errors, as if of different questions.

    For runs whose answers are not at hand. The same questions usually go together, so the real interval is narrower.
    """
    half = Z_95 * math.hypot(stderr_after, stderr_before)
    return Interval(after - before - half, after - before + half)
