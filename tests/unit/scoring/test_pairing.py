"""Records meet by key, whatever order or number they come in."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from umu_tasks.benchmarks.instances import InstanceKey
from umu_tasks.scoring.pairing import ScoringError, pair_by_key


def pair_correct(records):
    return pair_by_key((record, record["correct"]) for record in records)


def record(profile_id, key, modality, correct, *, split="forget05", task="cls", **more):
    return {
        "split": split, "profile_id": profile_id, "task": task, "key": key, "modality": modality, "correct": correct,
        **more,
    }  # fmt: skip


def both(profile_id, key, multimodal, unimodal, **more):
    return [
        record(profile_id, key, "unimodal", unimodal, **more),
        record(profile_id, key, "multimodal", multimodal, **more),
    ]


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=8), st.randoms())
def test_order_does_not_matter(values, shuffler: random.Random):
    """Shuffled or dealt out to processes, a fact's two answers stay together."""
    records = list(itertools.chain(*(both(str(n), "job", *value) for n, value in enumerate(values))))
    shuffler.shuffle(records)
    pairs = pair_correct(records).pairs
    assert {key.profile_id: tuple(pair) for (_, key), pair in pairs.items()} == {
        str(n): value for n, value in enumerate(values)
    }


def test_same_key_of_another_person_task_or_split_is_another_instance():
    records = [
        *both("001", "job", 1, 0),
        *both("002", "job", 0, 1),
        *both("001", "job", 1, 1, task="cloze"),
        *both("001", "job", 0, 0, split="real"),
    ]
    assert pair_correct(records).pairs == {
        ("forget05", InstanceKey("001", "cls", "job")): (1, 0),
        ("forget05", InstanceKey("002", "cls", "job")): (0, 1),
        ("forget05", InstanceKey("001", "cloze", "job")): (1, 1),
        ("real", InstanceKey("001", "cls", "job")): (0, 0),
    }


def test_partnerless_instance_is_left_out_and_counted():
    records = [*both("001", "job", 1, 1), record("001", "city", "unimodal", 0), record("002", "job", "multimodal", 1)]
    pairing = pair_correct(records)
    assert list(pairing.pairs.values()) == [(1, 1)]
    assert pairing.notice is not None
    assert pairing.notice.startswith("2 of 3 knowledge instances have an answer in one modality only and are left out")
    assert "forget05, ID 001, cls city; forget05, ID 002, cls job" in pairing.notice


def test_notice_names_a_few_and_counts_the_rest():
    pairing = pair_correct([record(str(n), "job", "unimodal", 0) for n in range(9)])
    assert "and 4 more" in (pairing.notice or "")
    assert "None is left: the scores are NaN" in (pairing.notice or "")


def test_nothing_to_score_is_told():
    assert pair_correct([]).notice == "There is no record to score: the scores are NaN."
    assert pair_correct(both("001", "job", 1, 1)).notice is None


def test_a_question_asked_twice_counts_once():
    """Padding in a data-parallel run repeats questions."""
    records = [*both("001", "job", 1, 0), *both("002", "job", 1, 1)]
    assert pair_correct(records + records[:3]) == pair_correct(records)


def test_contradicting_records_are_an_error():
    """Two runs' records in one list: no rule can say which one to believe."""
    records = [*both("001", "job", 1, 0), record("001", "job", "unimodal", 1)]
    with pytest.raises(
        ScoringError, match="forget05, ID 001, cls job, unimodal: two records with different values, 0 and 1"
    ):
        pair_correct(records)


def test_whole_records_can_be_paired_and_a_contradiction_shows_the_outputs():
    one, other = both("001", "job", 1, 0, output="Pilot")
    assert list(pair_by_key((record, record) for record in (one, other)).pairs.values()) == [(other, one)]
    changed = one | {"output": "Baker"}
    with pytest.raises(ScoringError, match="different values, 'Pilot' and 'Baker'"):
        pair_by_key((record, record) for record in (one, changed))
