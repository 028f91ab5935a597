"""Standard errors and intervals of means over knowledge instances, by resampling people.

The instances of one person are no independent draws: a model that forgot Ada's job has likely forgotten her home. So
the unit that is drawn again is the person, with all of the person's instances (a cluster bootstrap).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 1000
SEED = 20250117
LEVEL = 0.95
_ROUNDING = 1e-12  # resampled values that differ by less are equal

Floats = NDArray[np.float64]


def resampled_means(
    values: Floats, people: Sequence[Hashable], *, resamples: int = RESAMPLES, seed: int = SEED
) -> Floats:
    """Return the column means of `values` in bootstrap resamples of the people.

    Args:
        values: (instances, metrics) what each instance adds to each metric.
        people: whose instance each row is.
        resamples: how many times as many people as there are get drawn, with replacement.
        seed: of the generator made here; the same people in the same order get the same draws.

    Returns:
        (resamples, metrics). A person drawn twice counts twice; a mean is over the instances of the people drawn.

    Raises:
        ValueError: there is no instance, or `people` has another length than `values`.

    Source: Field and Welsh 2007, "Bootstrapping clustered data", the randomized cluster bootstrap.
    """
    if not len(values) or len(values) != len(people):
        raise ValueError(f"values has {len(values)} rows, people {len(people)}; expected the same number, at least 1.")
    numbers = {person: number for number, person in enumerate(dict.fromkeys(people))}
    rows = np.array([numbers[person] for person in people])
    sums = np.zeros((len(numbers), values.shape[1]))  # (people, metrics)
    np.add.at(sums, rows, values)
    sizes = np.bincount(rows, minlength=len(numbers))  # (people,) instances of each
    # drawing n of n people with replacement = how often each one is drawn
    draws = np.random.default_rng(seed).multinomial(len(numbers), np.full(len(numbers), 1 / len(numbers)), resamples)
    return (draws @ sums) / (draws @ sizes)[:, None]  # (resamples, metrics)


def intervals(estimates: Floats, level: float = LEVEL) -> tuple[Floats, Floats, Floats]:
    """Return (standard error, low end, high end) of each column: the resampled values' spread and percentiles.

    Args:
        estimates: (resamples, metrics) of `resampled_means`.
        level: share of the resampled values inside the interval.

    Returns:
        Three arrays (metrics,). All zero width where every person has the same values, as at 0 or 100 percent: the
        bootstrap can't see what it never drew.
    """
    tail = 100 * (1 - level) / 2
    low, high = np.percentile(estimates, [tail, 100 - tail], axis=0)
    constant = np.ptp(estimates, axis=0) < _ROUNDING
    return np.where(constant, 0.0, estimates.std(axis=0, ddof=1)), low, high
