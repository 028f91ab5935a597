"""Pareto front and recommended setting, on trials whose answer is plain to see."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from umu_trainers.sweep.choice import Record, pareto_front, recommend, rule_text
from umu_trainers.sweep.objectives import NAMES

START = Record("start", "start", 0, "complete", scores={"forget": 1.0, "utility": 0.8, "gap": 0.0})


def trial(slot: int, forget: float, utility: float, gap: float = 0.0, method: str = "gd") -> Record:
    scores = dict(zip(NAMES, (forget, utility, gap), strict=True))
    return Record(f"{method}-{slot:03d}", method, slot, "complete", scores=scores)


def invalid(slot: int) -> Record:
    return Record(f"gd-{slot:03d}", "gd", slot, "invalid", reason="24 empty outputs")


def names(records: list[Record]) -> list[str]:
    return [one.name for one in records]


def test_front_holds_what_no_other_beats() -> None:
    trials = [trial(0, 0.5, 0.8), trial(1, 0.1, 0.3), trial(2, 0.5, 0.7), trial(3, 0.6, 0.7, 0.0), invalid(4), START]
    assert names(pareto_front(trials)) == ["gd-001", "gd-000"]


def test_a_small_gap_alone_can_put_a_trial_on_the_front() -> None:
    trials = [trial(0, 0.1, 0.8, 0.5), trial(1, 0.2, 0.7, 0.1)]
    assert names(pareto_front(trials)) == ["gd-000", "gd-001"]


@given(st.lists(st.tuples(*[st.sampled_from([0.0, 0.25, 0.5, 1.0])] * 3), min_size=1, max_size=8))
def test_every_trial_off_the_front_is_beaten_by_one_on_it(points) -> None:
    trials = [trial(slot, *point) for slot, point in enumerate(points)]
    front = pareto_front(trials)
    assert front
    for one in trials:
        if one not in front:
            assert any(
                other.scores["forget"] <= one.scores["forget"]
                and other.scores["utility"] >= one.scores["utility"]
                and other.scores["gap"] <= one.scores["gap"]
                for other in front
            )


def test_lowest_forget_score_of_those_that_keep_enough() -> None:
    """0.95 * 0.8 = 0.76 is kept by the first two; the third forgets more and ruins the model."""
    trials = [trial(0, 0.5, 0.8), trial(1, 0.2, 0.76), trial(2, 0.0, 0.7), invalid(3), trial(4, 0.0, 0.8, method="npo")]
    chosen = recommend("gd", trials, START, 0.95)
    assert chosen.record is not None
    assert chosen.record.name == "gd-001"
    assert "2 of 4 trials" in chosen.why


def test_equal_forget_scores_are_told_apart_by_gap_then_utility() -> None:
    trials = [trial(0, 0.2, 0.8, 0.3), trial(1, 0.2, 0.77, 0.1), trial(2, 0.2, 0.78, 0.1)]
    chosen = recommend("gd", trials, START, 0.95)
    assert chosen.record is not None
    assert chosen.record.name == "gd-002"


def test_nothing_is_recommended_where_nothing_keeps_enough() -> None:
    chosen = recommend("gd", [trial(0, 0.0, 0.3), trial(1, 0.1, 0.5)], START, 0.95)
    assert chosen.record is None
    assert chosen.why == "no trial keeps 76.0 % utility; the nearest is gd-001 with 50.0 %"
    assert recommend("gd", [invalid(0)], START, 0.95).record is None
    assert recommend("gd", [trial(0, 0.0, 1.0)], None, 0.95).record is None


def test_nothing_is_recommended_that_forgets_nothing() -> None:
    """With too small a learning rate every trial keeps everything, the forget set too: that is no unlearning."""
    chosen = recommend("gd", [trial(0, 1.0, 0.8), trial(1, 1.0, 0.9)], START, 0.95)
    assert chosen.record is None
    assert "forgets anything: the lowest forget score is 100.0 %, the start model's 100.0 %" in chosen.why


def test_the_rule_is_told_with_its_number() -> None:
    assert "at least 95% of the start model's utility (76.0 %)" in rule_text(0.95, START)
