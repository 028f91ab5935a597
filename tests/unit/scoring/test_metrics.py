"""The numbers over pairs, by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from umu_tasks.scoring import metrics
from umu_tasks.scoring.metrics import METRICS, h_mean, metric_names, w_mean
from umu_tasks.scoring.pairing import Pair

FOUR = [Pair(1, 1), Pair(1, 0), Pair(0, 1), Pair(0, 0)]
unit = st.floats(0, 1)


def test_accuracies_by_hand():
    pairs = [*FOUR, Pair(1, 0)]
    assert metrics.acc_mul(pairs) == pytest.approx(3 / 5)
    assert metrics.acc_uni(pairs) == pytest.approx(2 / 5)
    assert metrics.acc_any(pairs) == pytest.approx(4 / 5)
    assert metrics.acc_all(pairs) == pytest.approx(1 / 5)
    assert metrics.acc_f(pairs) == pytest.approx((3 + 2 + 4) / 15)
    assert metrics.acc_r(pairs) == pytest.approx((3 + 2 + 1) / 15)


@pytest.mark.parametrize(
    ("x", "y", "w", "h"),
    [(0.8, 0, 0.8, 0), (0.6, 0.4, 0.52, 0.48), (0, 0, 0, 0), (1, 1, 1, 1), (0.5, 0.5, 0.5, 0.5)],
)
def test_joint_means(x, y, w, h):
    """Forget leans to the larger value (a leak in one modality is a leak), retain to the smaller one."""
    assert w_mean(x, y) == pytest.approx(w)
    assert h_mean(x, y) == pytest.approx(h)
    assert metrics.rl_f([Pair(x, y)]) == pytest.approx(w)
    assert metrics.rl_r([Pair(x, y)]) == pytest.approx(h)


@given(unit, unit)
def test_joint_means_enclose_the_plain_mean(x, y):
    assert h_mean(x, y) - 1e-12 <= (x + y) / 2 <= w_mean(x, y) + 1e-12
    assert w_mean(x, y) <= max(x, y) + 1e-12
    assert w_mean(x, y) == w_mean(y, x)


def test_joint_value_is_a_mean_per_instance():
    """Not the joint value of the means: these two pairs would give 0.5 then."""
    assert metrics.rl_r([Pair(1, 0), Pair(0, 1)]) == 0
    assert metrics.rl_f([Pair(1, 0), Pair(0, 1)]) == 1


@pytest.mark.parametrize("name", METRICS)
def test_no_pairs_is_nan_and_not_zero(name):
    """0 on a forget set would read as perfect forgetting."""
    assert math.isnan(METRICS[name]([]))


@pytest.mark.parametrize("name", METRICS)
@given(pairs=st.lists(st.tuples(unit, unit), min_size=1, max_size=6))
def test_values_are_fractions_and_order_is_free(name, pairs):
    both = [Pair(*pair) for pair in pairs]
    assert -1e-12 <= METRICS[name](both) <= 1 + 1e-12
    assert METRICS[name](both) == pytest.approx(METRICS[name](both[::-1]), abs=1e-12)


def test_metric_names():
    assert metric_names("cls", "forget10") == ("acc_mul", "acc_uni", "acc_any", "acc_all", "acc_f")
    assert metric_names("cloze", "full")[-1] == "acc_r"
    assert metric_names("gen", "real") == ("rl_mul", "rl_uni", "rl_r")
    assert metric_names("gen", "forget05") == ("rl_mul", "rl_uni", "rl_f")
