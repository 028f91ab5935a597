"""Intervals by resampling people, against what theory says."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from umu_tasks.scoring.bootstrap import intervals, resampled_means


def test_standard_error_of_a_mean_over_people_is_the_analytic_one():
    """One instance a person: the bootstrap's error of the mean is sigma / sqrt(n), with the population's sigma."""
    values = np.random.default_rng(1).random((200, 3))
    stderr, low, high = intervals(resampled_means(values, range(200), resamples=4000))
    assert stderr == pytest.approx(values.std(axis=0) / math.sqrt(200), rel=0.05)
    assert low == pytest.approx(values.mean(axis=0) - 1.96 * stderr, abs=0.2 * stderr.max())
    assert high == pytest.approx(values.mean(axis=0) + 1.96 * stderr, abs=0.2 * stderr.max())


def test_a_persons_instances_are_drawn_together():
    """Four equal answers of one person are one observation; counted as four, intervals would be half as wide."""
    by_person = np.random.default_rng(2).integers(0, 2, 100)
    values = np.repeat(by_person, 4)[:, None].astype(float)
    people = [f"{number // 4:03d}" for number in range(400)]
    stderr, *_ = intervals(resampled_means(values, people, resamples=4000))
    assert stderr[0] == pytest.approx(by_person.std() / math.sqrt(100), rel=0.05)


def test_people_with_more_instances_weigh_more():
    """A mean is over instances. Two people of 3 and 1 instances give 3/4 if both are drawn, else 1 or 0, by hand."""
    means = resampled_means(np.array([[1.0], [1.0], [1.0], [0.0]]), ["a", "a", "a", "b"], resamples=4000)[:, 0]
    assert {float(value) for value in np.unique(means)} == {0.0, 0.75, 1.0}
    assert [np.mean(means == value) for value in (0.0, 0.75, 1.0)] == pytest.approx([0.25, 0.5, 0.25], abs=0.03)


def test_seed_decides():
    """Two scorings of one run must give one file."""
    values, people = np.random.default_rng(3).random((40, 2)), [number // 2 for number in range(40)]
    assert np.array_equal(resampled_means(values, people), resampled_means(values, people))
    assert not np.array_equal(resampled_means(values, people), resampled_means(values, people, seed=1))


def test_constant_values_have_no_spread():
    """1/3 has no exact sum; the rounding must not show as an error of 1e-15."""
    stderr, low, high = intervals(resampled_means(np.full((30, 1), 1 / 3), range(30)))
    assert stderr[0] == 0
    assert low[0] == pytest.approx(1 / 3)
    assert high[0] == pytest.approx(1 / 3)


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="values has 2 rows, people 3"):
        resampled_means(np.zeros((2, 1)), ["a", "b", "c"])
    with pytest.raises(ValueError, match="at least 1"):
        resampled_means(np.zeros((0, 1)), [])


def test_five_hundred_people_take_seconds():
    """1,000 resamples of all metrics of the whole set; a loop over resamples would take a minute."""
    values = np.random.default_rng(4).random((1000, 20))
    started = time.process_time()
    intervals(resampled_means(values, [number // 2 for number in range(1000)]))
    assert time.process_time() - started < 5
