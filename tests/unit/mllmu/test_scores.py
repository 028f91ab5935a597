"""Hand-checked numbers on the fixture: three people to forget, zero-shot."""

from __future__ import annotations

import json
import pickle

import pytest
from datasets import Dataset

from umu_tasks.scoring.summary import summarize
from umu_tasks.tasks.mllmu import hooks, records

pytestmark = pytest.mark.usefixtures("source")

# Golds: occupation 001 Baker (letter B with image, C in text), 002 Judge (C, B), 003 Poet (D, A).
#        residence (image only) 001 Kyiv C, 002 Rome D, 003 Oslo A.
#        education (text only) 001 History D, 002 Law A, 003 Music B.
CLS = {
    ("001", "occupation", "multimodal"): "B",  # right, right under strict
    ("001", "occupation", "unimodal"): "C. Baker",  # right, right
    ("002", "occupation", "multimodal"): "Answer: C",  # wrong (says A), right
    ("002", "occupation", "unimodal"): "B or C",  # right, wrong
    ("003", "occupation", "multimodal"): "Don't know",  # right (D!), wrong, a refusal
    ("003", "occupation", "unimodal"): "",  # wrong, wrong
    ("001", "residence-mul1", "multimodal"): "C",  # right, right
    ("002", "residence-mul1", "multimodal"): "A",  # wrong
    ("003", "residence-mul1", "multimodal"): "I'm sorry, I can't help with that.",  # wrong, a refusal
    ("001", "education-uni1", "unimodal"): "D",  # right, right
    ("002", "education-uni1", "unimodal"): "Law",  # wrong (L), right
    ("003", "education-uni1", "unimodal"): "B",  # right, right
}


def score_all(split, task, outputs):
    selector = Dataset.from_list([{"split": split, "task": task, "examples": 0}])
    asked = hooks.build_documents(selector)
    return [hooks.score_answer(one, [outputs(one)]) for one in asked]


@pytest.fixture
def scored():
    return score_all("forget05", "cls", lambda one: CLS[one["profile_id"], one["key"], one["modality"]])


EXPECTED = {
    "acc_mul": 3 / 6,  # 001 twice, 003 occupation
    "acc_uni": 4 / 6,  # 001 twice, 002 occupation, 003 education
    "acc_any": 3 / 3,  # of the three facts asked in both: 001 both, 002 text, 003 image
    "acc_all": 1 / 3,
    "acc_f": (2 / 3 + 2 / 3 + 3 / 3) / 3,  # over the same three facts
    "modality_gap": 0.0,
    "acc_mul_strict": 3 / 6,  # 001 twice, 002 occupation
    "acc_uni_strict": 4 / 6,  # 001 twice, 002 education, 003 education
    "acc_any_strict": 2 / 3,
    "acc_all_strict": 1 / 3,
    "modality_gap_strict": 1 / 3,
}


@pytest.mark.parametrize("name", EXPECTED)
def test_classification(scored, name):
    """Metrics of one modality are over all its questions, those of both over the facts asked in both."""
    base = name.removesuffix("_strict")
    assert getattr(records, base)([one[name] for one in scored]) == pytest.approx(EXPECTED[name])
    assert summarize([one["record"] for one in scored])["metrics"][name]["value"] == pytest.approx(EXPECTED[name])


def test_summary(scored):
    found = summarize([one["record"] for one in scored])
    counts = {name: found[name] for name in ("split", "task", "people", "instances", "questions", "unpaired")}
    assert counts == {
        "split": "forget05", "task": "cls", "people": 3, "instances": 3, "questions": 12, "unpaired": 6
    }  # fmt: skip
    assert {name: found["counts"][name] for name in ("refusal", "empty", "failed")} == {
        "refusal": 2,
        "empty": 1,
        "failed": 0,
    }
    assert found["counts"]["same_output"] == 2  # "B"
    assert found["rates"]["empty_rate"] == pytest.approx(1 / 12)
    assert found["rules_disagree"]["questions"] == 4
    assert found["fields"]["residence"] == {"n": 3, "acc_mul": pytest.approx(1 / 3)}
    assert found["fields"]["occupation"]["acc_uni"] == pytest.approx(2 / 3)
    assert found["metrics"]["acc_mul"]["n"] == 6
    assert found["metrics"]["acc_any"]["n"] == 3
    interval = found["metrics"]["acc_mul"]
    assert interval["low"] <= 0.5 <= interval["high"]
    assert (found["examples"], found["seed"]) == ([], 0)


def test_order_and_repetition_change_nothing(scored):
    """A data-parallel run hands them over in another order and may repeat some."""
    own = [one["record"] for one in scored]
    assert summarize([*reversed(own), own[0]]) == summarize(own)
    numbers = pickle.loads(pickle.dumps([one["acc_any"] for one in scored]))  # noqa: S301 - our own
    assert records.acc_any([*numbers, numbers[0]]) == 1.0


def test_cloze_and_generation():
    """Cloze: Kyiv asked in both modalities, the degree in text alone. Generation: the gold itself, or nothing alike."""
    cloze = score_all(
        "forget05", "cloze", lambda one: f"I think {one['gold']}" if one["modality"] == "unimodal" else "x"
    )
    found = summarize([one["record"] for one in cloze])["metrics"]
    assert (found["acc_uni"]["value"], found["acc_uni"]["n"]) == (1.0, 6)
    assert (found["acc_mul"]["value"], found["acc_mul"]["n"]) == (0.0, 3)
    assert (found["acc_any"]["value"], found["modality_gap"]["value"]) == (1.0, -1.0)
    gen = score_all("test05", "gen", lambda one: one["gold"] if one["modality"] == "multimodal" else "zzz")
    found = summarize([one["record"] for one in gen])["metrics"]
    assert {name: round(found[name]["value"], 6) for name in ("rl_mul", "rouge1_mul", "rouge2_mul", "bleu_mul")} == {
        "rl_mul": 1.0, "rouge1_mul": 1.0, "rouge2_mul": 1.0, "bleu_mul": 1.0
    }  # fmt: skip
    assert (found["rl_uni"]["value"], found["bleu_uni"]["value"]) == (0.0, 0.0)
    assert found["rl_f"]["value"] == 1.0  # a test set is to be forgotten too


def test_record_holds_what_was_drawn_and_no_image(scored):
    record = scored[0]["record"]
    assert record["benchmark"] == "mllmu"
    assert (record["examples"], record["seed"]) == ([], 0)
    assert len(json.dumps(record)) < 700
