"""Which trial is ended early, and that the rule reads what the trainer prints."""

from __future__ import annotations

from pathlib import Path

from umu_trainers.scoring import Score, _text
from umu_trainers.sweep.pruning import Point, Rule, read_scored

START = Point(0.9, 0.8)
RULE = Rule(every=10, floor=0.5, min_trials=3)
OTHERS = [{10: Point(0.5, 0.7)}, {10: Point(0.4, 0.6)}, {10: Point(0.6, 0.5), 20: Point(0.1, 0.1)}]


def test_a_trial_below_the_floor_is_ended() -> None:
    why = RULE.why_ended({0: START, 10: Point(0.1, 0.39)}, [])
    assert why == "step 10: retain accuracy 0.390 on the sample is below 0.5 of the start's 0.800"
    assert not RULE.why_ended({0: START, 10: Point(0.1, 0.41)}, [])


def test_a_trial_behind_the_median_in_both_is_ended() -> None:
    assert "behind the median of 3 trials (0.500, 0.600)" in RULE.why_ended({0: START, 10: Point(0.51, 0.59)}, OTHERS)
    assert not RULE.why_ended({0: START, 10: Point(0.51, 0.61)}, OTHERS)  # keeps more
    assert not RULE.why_ended({0: START, 10: Point(0.49, 0.59)}, OTHERS)  # forgets more


def test_only_the_same_step_counts_and_enough_trials_are_needed() -> None:
    behind = Point(0.9, 0.45)
    assert not RULE.why_ended({0: START, 20: behind}, OTHERS)
    assert not RULE.why_ended({0: START, 10: behind}, OTHERS[:2])
    assert not Rule(every=10, median=False).why_ended({0: START, 10: behind}, OTHERS * 2)


def test_no_trial_is_ended_before_its_time() -> None:
    assert not RULE.why_ended({0: Point(0.1, 0.0)}, OTHERS)
    assert not Rule(every=10, after=20).why_ended({0: START, 10: Point(0, 0)}, [])


def test_the_trainers_lines_are_understood(tmp_path: Path) -> None:
    """If the trainer worded its line otherwise, no trial would ever be pruned."""
    log = tmp_path / "train.log"
    lines = [f"start: {_text(Score(0, 0.9, 0.8))}", "{'loss': 1.0}", f"step 10: {_text(Score(10, 0.25, 0.7))}"]
    log.write_text("\n".join([*lines, "step 20: the retain accuracy 0.1 is below"]) + "\n")
    assert read_scored(log) == {0: Point(0.9, 0.8), 10: Point(0.25, 0.7)}
    assert read_scored(tmp_path / "none.log") == {}
