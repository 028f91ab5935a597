"""One leaf task's numbers, worked out by hand."""

from __future__ import annotations

import itertools
import json
import math
import random

import pytest

from umu_tasks.scoring.pairing import ScoringError
from umu_tasks.scoring.summary import summarize


def record(person, key, modality, default, official=None, strict=None, **more):
    official = default if official is None else official
    strict = default if strict is None else strict
    return {
        "profile_id": person, "task": "cls", "key": key, "field": key, "modality": modality, "split": "forget05",
        "question": "?", "gold": "x", "output": "x", "parsed": "x",
        "correct": {"default": default, "official": official, "strict": strict},
        "refusal": 0, "empty": 0, "failed": 0, **more,
    }  # fmt: skip


@pytest.fixture
def records():
    """Two people, two facts each. Multimodal 1 1 / 1 0, unimodal 1 0 / 0 0 under the default rule."""
    return [
        record("001", "job", "multimodal", 1, official=0),
        record("001", "job", "unimodal", 1),
        record("001", "city", "multimodal", 1, strict=0),
        record("001", "city", "unimodal", 0, official=1, strict=1),
        record("002", "job", "multimodal", 1),
        record("002", "job", "unimodal", 0, refusal=1),
        record("002", "city", "multimodal", 0, empty=1),
        record("002", "city", "unimodal", 0, failed=1),
    ]


def values(summary):
    return {name: metric["value"] for name, metric in summary["metrics"].items()}


def test_values_by_hand(records):
    summary = summarize(records)
    assert {name: summary[name] for name in ("split", "task", "people", "instances", "questions", "unpaired")} == {
        **{"split": "forget05", "task": "cls", "people": 2, "instances": 4, "questions": 8, "unpaired": 0}
    }
    assert values(summary) == pytest.approx(
        {
            **{"acc_mul": 3 / 4, "acc_uni": 1 / 4, "acc_any": 3 / 4, "acc_all": 1 / 4, "acc_f": 7 / 12},
            "modality_gap": 1 / 2,
            **{
                "acc_mul_official": 2 / 4,
                "acc_uni_official": 2 / 4,
                "acc_any_official": 3 / 4,
                "acc_f_official": 7 / 12,
            },
            **{"acc_all_official": 1 / 4, "modality_gap_official": 0},
            **{"acc_mul_strict": 2 / 4, "acc_uni_strict": 2 / 4, "acc_any_strict": 3 / 4, "acc_all_strict": 1 / 4},
            **{"acc_f_strict": 7 / 12, "modality_gap_strict": 0},
        }
    )
    assert {metric["n"] for metric in summary["metrics"].values()} == {4}


def test_intervals_by_hand(records):
    """With two people a resample is 001 twice, 002 twice, or one of each: acc_mul is 1, 1/2 or 3/4."""
    metric = summarize(records)["metrics"]["acc_mul"]
    assert (metric["low"], metric["high"]) == (0.5, 1.0)
    assert metric["stderr"] == pytest.approx(math.sqrt(1 / 32), rel=0.05)  # 1/4 · 1/16 twice, and 1/2 · 0


def test_counts_are_over_questions(records):
    summary = summarize(records)
    assert summary["counts"] == {"refusal": 1, "empty": 1, "failed": 1, "same_output": 6}
    assert summary["rates"] == {
        "refusal_rate": 1 / 8,
        "empty_rate": 1 / 8,
        "failed_rate": 1 / 8,
        "same_output_rate": 6 / 8,
    }


def test_the_answer_given_most_often_is_counted(records):
    """A model that says one thing to everything still scores; empty and failed outputs are counted elsewhere."""
    parsed = ["B", "B", "A", "B", "C", "I don't know", "", ""]
    answered = [one | {"parsed": text} for one, text in zip(records, parsed, strict=True)]
    assert summarize([*answered, answered[0]])["counts"]["same_output"] == 3
    nothing = [one | {"parsed": "", "empty": 1} for one in records]
    assert summarize(nothing)["counts"]["same_output"] == 0


def test_disagreement_of_the_rules(records):
    """Three of eight questions: official alone, strict alone, default alone."""
    assert summarize(records)["rules_disagree"] == {
        **{"questions": 3, "default_official": 2, "default_strict": 2, "official_strict": 2}
    }


def test_scores_by_field(records):
    assert summarize(records)["fields"] == {
        "city": {"n": 2, "acc_mul": 0.5, "acc_uni": 0.0},
        "job": {"n": 2, "acc_mul": 1.0, "acc_uni": 0.5},
    }


def test_order_and_repeats_change_nothing(records):
    """Any number of processes, in any order, asking padding questions twice: one file, byte for byte."""
    shuffled = [*records, *records[:3]]
    random.Random(0).shuffle(shuffled)
    assert json.dumps(summarize(shuffled)) == json.dumps(summarize(records))


def test_instance_with_one_modality_is_in_no_score(records):
    summary = summarize([*records, record("003", "job", "unimodal", 1, refusal=1)])
    assert summary["unpaired"] == 1
    assert summary["questions"] == 9
    assert summary["counts"]["refusal"] == 2
    assert values(summary) == values(summarize(records))


def test_one_person_has_a_value_and_no_interval(records):
    """Resampling one person would claim certainty."""
    metric = summarize(records[:4])["metrics"]["acc_mul"]
    assert metric["value"] == 1
    assert all(math.isnan(metric[name]) for name in ("stderr", "low", "high"))


def test_no_pair_is_nan_and_not_zero(records):
    summary = summarize(records[:1])
    assert summary["instances"] == 0
    assert all(math.isnan(value) for value in values(summary).values())


def test_generation_by_hand():
    def answer(person, modality, rouge_l, bleu=0.0):
        texts = {"rouge_l": rouge_l, "rouge_1": rouge_l / 2, "rouge_2": rouge_l / 4, "bleu": bleu}
        plain = record(person, "life", modality, 0, **texts) | {"task": "gen", "split": "retain95"}
        return {name: value for name, value in plain.items() if name != "correct"}

    summary = summarize(
        [
            answer("001", "multimodal", 0.8, bleu=0.5),
            answer("001", "unimodal", 0.0),
            answer("002", "multimodal", 0.6),
            answer("002", "unimodal", 0.4),
        ]
    )
    assert values(summary) == pytest.approx(
        {
            **{"rl_mul": 0.7, "rl_uni": 0.2, "rl_r": (0 + 0.48) / 2, "modality_gap": 0.5},
            **{"rouge1_mul": 0.35, "rouge1_uni": 0.1, "rouge2_mul": 0.175, "rouge2_uni": 0.05},
            **{"bleu_mul": 0.25, "bleu_uni": 0.0},
        }
    )
    assert summary["fields"] == {"life": {"n": 2, "rl_mul": pytest.approx(0.7), "rl_uni": pytest.approx(0.2)}}
    assert "rules_disagree" not in summary


def test_records_of_two_tasks_are_refused(records):
    other = record("001", "job", "unimodal", 1) | {"split": "real"}
    with pytest.raises(ScoringError, match="found forget05 cls, real cls"):
        summarize([*records, other])
    with pytest.raises(ScoringError, match="found no record"):
        summarize([])


def test_contradicting_records_are_refused(records):
    with pytest.raises(ScoringError, match="001, cls job, multimodal: two records with different values, 'x' and 'y'"):
        summarize([*records, records[0] | {"output": "y"}])


def test_fewer_people_mean_a_wider_interval():
    """5 % of the people is 25: what a table of two digits would hide."""
    draws = random.Random(5)

    def width(people):
        answers = itertools.chain.from_iterable(
            [record(f"{n}", "job", modality, draws.randint(0, 1)) for modality in ("unimodal", "multimodal")]
            for n in range(people)
        )
        metric = summarize(list(answers))["metrics"]["acc_mul"]
        return metric["high"] - metric["low"]

    assert width(25) > 1.6 * width(100) > 1.6 * 1.6 * width(400)
