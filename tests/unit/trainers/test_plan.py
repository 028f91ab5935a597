from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from umu_trainers.plan import SequentialPlan, SFTPlan, UnlearnPlan, draw_rows, group_by_length


def epoch(plan, number):
    plan.set_epoch(number)
    return [plan[index] for index in range(len(plan))]


@pytest.mark.parametrize(("uni", "mul"), [(6, 6), (7, 3), (2, 9), (5, 1)])
def test_every_forget_row_once_an_epoch_whatever_the_sizes(make_rows, uni, mul):
    forget = {"uni": make_rows(uni), "mul": make_rows(mul, "mul")}
    retain = {"uni": make_rows(20, "uni", "retain95"), "mul": make_rows(20, "mul", "retain95")}
    items = epoch(UnlearnPlan(forget, retain, seed=1, multiple=4), 3)
    for half, rows in forget.items():
        used = Counter(item[f"forget_{half}"].name for item in items if f"forget_{half}" in item)
        assert used == Counter(row.name for row in rows)
    assert len(items) % 4 == 0
    for item in items:  # a retain row beside each forget row of its half, and nowhere else
        assert {name.replace("retain", "forget") for name in item} == {name for name in item if "forget" in name}


def test_the_shorter_half_is_spread_evenly(make_rows):
    forget = {"uni": make_rows(3), "mul": make_rows(9, "mul")}
    items = epoch(UnlearnPlan(forget, None, seed=1, multiple=1), 0)
    assert [index for index, item in enumerate(items) if "forget_uni" in item] == [0, 3, 6]


def test_retain_rows_are_drawn_anew_each_epoch(make_rows):
    plan = UnlearnPlan({"uni": make_rows(5)}, {"uni": make_rows(40, "uni", "retain95")}, seed=1, multiple=1)
    first, second = ([item["retain_uni"].name for item in epoch(plan, number)] for number in (0, 1))
    assert first != second
    assert len(set(first)) == 5
    assert [item["retain_uni"].name for item in epoch(plan, 0)] == first


@pytest.mark.parametrize("half", ["uni", "mul"])
def test_retain_rows_of_both_halves_beside_one(make_rows, half):
    retain = {"uni": make_rows(20, "uni", "retain95"), "mul": make_rows(20, "mul", "retain95")}
    items = epoch(UnlearnPlan({half: make_rows(5, half)}, retain, seed=1, multiple=1), 0)
    assert all(item.keys() == {f"forget_{half}", "retain_uni", "retain_mul"} for item in items)


def test_a_refusal_depends_on_seed_epoch_and_row_alone(make_rows):
    """The same run on more processes, or on one modality only, must teach the same refusals."""
    refusals = [f"No {number}." for number in range(50)]
    both = {"uni": make_rows(9), "mul": make_rows(7, "mul")}

    def answers(forget, number, **settings):
        items = epoch(UnlearnPlan(forget, None, refusals=refusals, **settings), number)
        pairs = [(item["forget_uni"], item["refusal_uni"]) for item in items if "forget_uni" in item]
        assert all(row.pair.question == refusal.pair.question for row, refusal in pairs)
        return {row.name: refusal.pair.answer for row, refusal in pairs}

    first = answers(both, 0, seed=1, multiple=1)
    assert set(first.values()) <= set(refusals)
    assert len(set(first.values())) > 3
    assert answers(both, 0, seed=1, multiple=8) == first
    assert answers({"uni": both["uni"]}, 0, seed=1, multiple=1) == first
    assert answers(both, 1, seed=1, multiple=1) != first
    assert answers(both, 0, seed=2, multiple=1) != first


@pytest.mark.parametrize("multiple", [1, 4])
def test_sequential_phases_pass_over_each_set_once_and_share_no_batch(make_rows, multiple):
    forget = {"uni": make_rows(5), "mul": make_rows(3, "mul")}
    retain = {"uni": make_rows(9, "uni", "retain95"), "mul": make_rows(7, "mul", "retain95")}
    items = epoch(SequentialPlan(forget, retain, seed=1, multiple=multiple), 2)
    for role, halves in (("forget", forget), ("retain", retain)):
        for half, rows in halves.items():
            used = Counter(row.name for item in items if (row := item.get(f"{role}_{half}")))
            assert used == Counter(row.name for row in rows)
    roles = [{name.partition("_")[0] for name in item} for item in items]
    assert all(len(role) == 1 for role in roles), "items without a row name their phase too"
    batches = [roles[i : i + multiple] for i in range(0, len(roles), multiple)]
    assert all(batch == multiple * batch[:1] for batch in batches)
    assert roles == sorted(roles, key=lambda role: role == {"retain"})


@pytest.mark.parametrize("multiple", [2, 4, 6])
def test_order_does_not_depend_on_the_number_of_processes(make_rows, multiple):
    forget = {"uni": make_rows(7), "mul": make_rows(7, "mul")}
    one = epoch(UnlearnPlan(forget, None, seed=5, multiple=1), 2)
    many = epoch(UnlearnPlan(forget, None, seed=5, multiple=multiple), 2)
    assert many[: len(one)] == one
    assert not any(many[len(one) :])


def test_seed_changes_the_order(make_rows):
    orders = {
        tuple(item["train_uni"].name for item in epoch(SFTPlan(make_rows(12), seed=seed, multiple=1), 0))
        for seed in (1, 2, 3)
    }
    assert len(orders) == 3


def test_sft_uses_every_row_once_and_a_share_of_the_replay(make_rows):
    learn = make_rows(6) + make_rows(6, "mul")
    replay = make_rows(8, "uni", "real")
    plan = SFTPlan(learn, replay, replay_share=0.25, seed=0, multiple=4)
    seen = set()
    for number in range(12):
        rows = [row for item in epoch(plan, number) for row in item.values()]
        assert Counter(row.name for row in rows if row.split != "real") == Counter(row.name for row in learn)
        replayed = {row.name for row in rows if row.split == "real"}
        assert len(replayed) == 2
        seen |= replayed
    assert len(seen) == 8, "all real people come back in the course of training"


@given(st.integers(0, 40), st.integers(1, 12), st.integers(0, 99))
def test_drawing_repeats_no_row_before_all_have_come(count, available, seed):
    drawn = draw_rows(range(available), count, random.Random(seed))
    counts = Counter(drawn)
    assert len(drawn) == count
    assert max(counts.values(), default=0) - min((counts[row] for row in range(available)), default=0) <= 1


def test_grouping_keeps_rows_and_mixes_halves(make_rows):
    rows = make_rows(30) + make_rows(30, "mul")
    random.Random(0).shuffle(rows)
    lengths = {row.name: number for number, row in enumerate(make_rows(30) + make_rows(30, "mul"))}
    grouped = group_by_length(rows, lambda row: lengths[row.name], 8, random.Random(0))
    assert sorted(row.name for row in grouped) == sorted(row.name for row in rows)
    batches = [grouped[start : start + 8] for start in range(0, len(grouped), 8)]
    assert len(batches[-1]) == 4, "the short batch stays last"
    for batch in batches:
        by_half = Counter(row.half for row in batch)
        assert abs(by_half["uni"] - by_half["mul"]) <= 1
        for half in by_half:
            own = [lengths[row.name] for row in batch if row.half == half]
            assert max(own) - min(own) <= 6


def changes(items, name):
    """How often the person changes from one row of a kind to the next."""
    people = [row.person for item in items if (row := item.get(name))]
    return sum(one != other for one, other in itertools.pairwise(people))


def test_by_profile_keeps_multimodal_rows_of_a_person_together(make_rows):
    """Packing saves only what is in one batch; and no forget row may be lost or used twice for it."""
    forget = {"uni": make_rows(12), "mul": make_rows(12, "mul")}
    retain = {"uni": make_rows(30, "uni", "retain95"), "mul": make_rows(30, "mul", "retain95")}
    items = epoch(UnlearnPlan(forget, retain, seed=1, multiple=4, by_profile=True), 2)
    for half, rows in forget.items():
        used = Counter(item[f"forget_{half}"].name for item in items if f"forget_{half}" in item)
        assert used == Counter(row.name for row in rows)
    assert changes(items, "forget_mul") == changes(items, "retain_mul") == 5, "six people, two rows each"
    assert changes(items, "forget_uni") > 5
    again = epoch(UnlearnPlan(forget, retain, seed=1, multiple=4, by_profile=True), 3)
    assert [item.get("forget_mul") for item in again] != [item.get("forget_mul") for item in items]


def test_by_profile_in_phases_and_sft(make_rows):
    forget = {"mul": make_rows(8, "mul")}
    retain = {"mul": make_rows(6, "mul", "retain95")}
    items = epoch(SequentialPlan(forget, retain, seed=1, multiple=2, by_profile=True), 0)
    assert (changes(items, "forget_mul"), changes(items, "retain_mul")) == (3, 2)
    rows = make_rows(8) + make_rows(8, "mul")
    items = epoch(SFTPlan(rows, seed=1, multiple=1, by_profile=True), 0)
    assert changes(items, "train_mul") == 3
    assert Counter(row.name for item in items for row in item.values()) == Counter(row.name for row in rows)
    halves = "".join(name[-3] for item in items for name in item)
    assert {"mu", "um"} <= {one + other for one, other in itertools.pairwise(halves)}, "both kinds in random order"
