"""How sure a score is: forget sets are small (5 % of UMU-Bench is 25 people, 50 instances a task)."""

from __future__ import annotations

import math
from typing import NamedTuple

Z_95 = 1.959963984540054
"""Two-sided 95 % quantile of the normal distribution."""


class Interval(NamedTuple):
    """A 95 % interval; bounds are fractions."""

    low: float
    high: float


def wilson(mean: float, n: int) -> Interval:
    """Return the Wilson score interval of a mean of `n` values in [0, 1].

    Exact in form for shares (accuracies); for ROUGE-L means it is on the safe side, since no values in [0, 1] with that
    mean scatter more than zeros and ones do.

    Args:
        mean: fraction.
        n: number of knowledge instances, > 0.

    Source: Wilson 1927, doi:10.1080/01621459.1927.10502953.
    """
    if n <= 0:
        raise ValueError(f"an interval needs at least one value, found n = {n}")
    mean = min(max(mean, 0.0), 1.0)
    shrink = 1 + Z_95**2 / n
    centre = (mean + Z_95**2 / (2 * n)) / shrink
    half = Z_95 / shrink * math.sqrt(mean * (1 - mean) / n + Z_95**2 / (4 * n * n))
    return Interval(max(centre - half, 0.0), min(centre + half, 1.0))


def difference(after: float, n_after: int, before: float, n_before: int) -> Interval:
    """Return the 95 % interval of ``after - before`` by Newcombe's hybrid of two Wilson intervals.

    It treats the two samples as independent; answers to the same questions usually go together, so the real interval is
    rather narrower.

    Source: Newcombe 1998, method 10, doi:10.1002/(SICI)1097-0258(19980430)17:8<873::AID-SIM779>3.0.CO;2-I.
    """
    new, old = wilson(after, n_after), wilson(before, n_before)
    change = after - before
    down = math.hypot(after - new.low, old.high - before)
    up = math.hypot(new.high - after, before - old.low)
    return Interval(change - down, change + up)


def within_noise(after: float, n_after: int, before: float, n_before: int) -> bool:
    """Tell whether a change of this size can come from the smallness of the sets alone."""
    interval = difference(after, n_after, before, n_before)
    return interval.low <= 0 <= interval.high
