"""The numbers over pairs, by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from umu_tasks.scoring.metrics import METRICS, h_mean, metric_names, reported_metrics, value_of, w_mean
from umu_tasks.scoring.pairing import Pair

FOUR = [Pair(1, 1), Pair(1, 0), Pair(0, 1), Pair(0, 0)]
unit = st.floats(0, 1)


def test_accuracies_by_hand():
    pairs = [*FOUR, Pair(1, 0)]
    assert METRICS["acc_mul"](pairs) == pytest.approx(3 / 5)
    assert METRICS["acc_uni"](pairs) == pytest.approx(2 / 5)
    assert METRICS["acc_any"](pairs) == pytest.approx(4 / 5)
    assert METRICS["acc_all"](pairs) == pytest.approx(1 / 5)
    assert METRICS["acc_f"](pairs) == pytest.approx((3 + 2 + 4) / 15)
    assert METRICS["acc_r"](pairs) == pytest.approx((3 + 2 + 1) / 15)
    assert METRICS["modality_gap"](pairs) == pytest.approx(3 / 5 - 2 / 5)


@pytest.mark.parametrize(
    ("x", "y", "w", "h"),
    [(0.8, 0, 0.8, 0), (0.6, 0.4, 0.52, 0.48), (0, 0, 0, 0), (1, 1, 1, 1), (0.5, 0.5, 0.5, 0.5)],
)
def test_joint_means(x, y, w, h):
    """Forget leans to the larger value (a leak in one modality is a leak), retain to the smaller one."""
    assert w_mean(x, y) == pytest.approx(w)
    assert h_mean(x, y) == pytest.approx(h)
    assert METRICS["rl_f"]([Pair(x, y)]) == pytest.approx(w)
    assert METRICS["rl_r"]([Pair(x, y)]) == pytest.approx(h)


@given(unit, unit)
def test_joint_means_enclose_the_plain_mean(x, y):
    assert h_mean(x, y) - 1e-12 <= (x + y) / 2 <= w_mean(x, y) + 1e-12
    assert w_mean(x, y) <= max(x, y) + 1e-12
    assert w_mean(x, y) == w_mean(y, x)


def test_joint_value_is_a_mean_per_instance():
    """Not the joint value of the means: these two pairs would give 0.5 then."""
    assert METRICS["rl_r"]([Pair(1, 0), Pair(0, 1)]) == 0
    assert METRICS["rl_f"]([Pair(1, 0), Pair(0, 1)]) == 1


@pytest.mark.parametrize("name", METRICS)
def test_no_pairs_is_nan_and_not_zero(name):
    """0 on a forget set would read as perfect forgetting."""
    assert math.isnan(METRICS[name]([]))


@pytest.mark.parametrize("name", METRICS)
@given(pairs=st.lists(st.tuples(unit, unit), min_size=1, max_size=6))
def test_values_are_fractions_and_order_is_free(name, pairs):
    both = [Pair(*pair) for pair in pairs]
    lowest = -1 if name == "modality_gap" else 0
    assert lowest - 1e-12 <= METRICS[name](both) <= 1 + 1e-12
    assert METRICS[name](both) == pytest.approx(METRICS[name](both[::-1]), abs=1e-12)


def test_metric_names():
    assert metric_names("cls", "forget10") == ("acc_mul", "acc_uni", "acc_any", "acc_all", "acc_f")
    assert metric_names("cloze", "full")[-1] == "acc_r"
    assert metric_names("gen", "real") == ("rl_mul", "rl_uni", "rl_r")
    assert metric_names("gen", "forget05") == ("rl_mul", "rl_uni", "rl_f")


def test_reported_names():
    """People type these, and reports look for them."""
    names = [metric.name for metric in reported_metrics("cls", "forget05")]
    own = ["acc_mul", "acc_uni", "acc_any", "acc_all", "acc_f", "modality_gap"]
    assert names == [name + rule for rule in ("", "_official", "_strict") for name in own]
    assert [metric.name for metric in reported_metrics("gen", "retain95")] == [
        *("rl_mul", "rl_uni", "rl_r", "modality_gap"),
        *("rouge1_mul", "rouge1_uni", "rouge2_mul", "rouge2_uni", "bleu_mul", "bleu_uni"),
    ]


def test_each_metric_reads_its_own_value():
    """A metric of one rule made of another rule's verdicts would still look like a score."""
    verdicts = {"correct": {"default": 1, "official": 0, "strict": 1}}
    by_name = {metric.name: metric for metric in reported_metrics("cls", "real")}
    assert [value_of(verdicts, by_name["acc_r" + rule].source) for rule in ("", "_official", "_strict")] == [1, 0, 1]
    texts = {"rouge_l": 0.1, "rouge_1": 0.2, "rouge_2": 0.3, "bleu": 0.4}
    by_name = {metric.name: metric for metric in reported_metrics("gen", "real")}
    names = ("rl_mul", "modality_gap", "rouge1_uni", "rouge2_mul", "bleu_uni")
    assert [value_of(texts, by_name[name].source) for name in names] == [0.1, 0.1, 0.2, 0.3, 0.4]
