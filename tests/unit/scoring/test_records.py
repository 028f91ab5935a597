"""What a sample line holds for a question, and how lmms-eval's numbers find their way back to it."""

from __future__ import annotations

import copy
import json
import logging
import math
import pickle

import pytest

from umu_tasks.scoring.summary import summarize
from umu_tasks.tasks import records
from umu_tasks.tasks.records import Number, count_questions, score


def document(profile_id="001", modality="multimodal", task="cls", key="occupation", split="forget05"):
    options = {"A": "Teacher", "B": "Pilot"} if task == "cls" else {}
    return {
        "profile_id": profile_id, "task": task, "key": key, "field": key, "modality": modality, "split": split,
        "question": "What is the occupation of the person?", "gold": "Pilot", "gold_letter": "B" if options else None,
        "official_gold": "Pilot" if options else None, "options": list(options.values()),
        "option_letters": list(options),
    }  # fmt: skip


def test_record_of_a_classification_question():
    assert score(document(), [" She is a pilot. ASSISTANT: no"])["record"] == {
        "profile_id": "001", "task": "cls", "key": "occupation", "field": "occupation", "modality": "multimodal",
        "split": "forget05", "question": "What is the occupation of the person?", "gold": "Pilot",
        "output": " She is a pilot. ASSISTANT: no", "parsed": "She is a pilot.",
        "correct": {"default": 1, "official": 0, "strict": 0}, "refusal": 0, "empty": 0, "failed": 0,
    }  # fmt: skip


def test_record_of_a_generation_question():
    record = score(document(task="gen"), ["Pilot"])["record"]
    assert {name: record[name] for name in ("rouge_l", "rouge_1", "rouge_2")} == {
        **{"rouge_l": 1.0, "rouge_1": 1.0, "rouge_2": 0.0}
    }
    assert record["bleu"] > 0
    assert "correct" not in record


@pytest.mark.parametrize(
    ("output", "flags"),
    [
        ("Pilot", (0, 0, 0)),
        ("I don't know.", (1, 0, 0)),
        ("", (0, 1, 0)),
        ("ASSISTANT: Pilot", (0, 1, 0)),
        ("!!!!!!!!!", (0, 1, 0)),
        ("....\u200b", (0, 1, 0)),
        ("<think> the person", (0, 0, 0)),
        ("C", (0, 0, 0)),
        ("東", (0, 0, 0)),
        ("[LMMS_EVAL_REQUEST_FAILED after 5 retries] sorry", (0, 0, 1)),
    ],
)
def test_flags(output, flags):
    """Each output that is no answer is counted as what it is."""
    scored = score(document(), [output])
    assert tuple(scored["record"][name] for name in ("refusal", "empty", "failed")) == flags
    assert tuple(scored[name] for name in ("refusal_rate", "empty_rate", "failed")) == flags


def test_marks_are_an_answer_where_they_are_one():
    """A question about a sign, say: its answer is not empty."""
    asked = document() | {"options": ["!!!", "??"]}
    assert [score(asked, [output])["record"]["empty"] for output in ("!!!", "??", "!!!!")] == [0, 0, 1]
    assert score(document(task="cloze") | {"gold": "…"}, ["…"])["record"]["empty"] == 0
    assert score(document() | {"options": ["", "x"]}, [""])["record"]["empty"] == 1


def test_numbers_are_the_questions_own():
    scored = score(document(), ["pilot."])
    assert (scored["acc_mul"], scored["acc_mul_official"], scored["acc_f_strict"]) == (1, 0, 1)
    assert scored["modality_gap_official"] == 0


def test_numbers_are_plain_in_a_samples_file():
    """No record in each of two dozen metrics, and no class that JSON doesn't know."""
    line = json.loads(json.dumps(score(document(), ["Pilot"])))
    assert {type(value) for name, value in line.items() if name != "record"} == {float}


@pytest.mark.parametrize("copied", [lambda n: pickle.loads(pickle.dumps(n)), copy.copy, copy.deepcopy])  # noqa: S301
def test_a_number_keeps_its_record_on_the_way_to_another_process(copied):
    """Without it the first process could not pair what the others answered."""
    number = score(document(), ["Pilot"])["acc_f"]
    other = copied(number)
    assert type(other) is Number
    assert (other, other.record) == (1, number.record)


@pytest.fixture
def answered():
    """Two people, both modalities: 001 right and refused, 002 right in the strict sense only, and empty."""
    outputs = {
        ("001", "multimodal"): "Pilot",
        ("001", "unimodal"): "I don't know",
        ("002", "multimodal"): "B",
        ("002", "unimodal"): "",
    }
    return [score(document(*question), [output]) for question, output in outputs.items()]


def test_aggregations_equal_the_summary(answered):
    """lmms-eval's table and the file's own summary must not tell two stories."""
    summary = summarize([one["record"] for one in answered])
    for name, metric in summary["metrics"].items():
        function = getattr(records, name.removesuffix("_official").removesuffix("_strict"))
        assert function([one[name] for one in answered]) == metric["value"], name
    for name in ("refusal_rate", "empty_rate"):
        assert getattr(records, name)([one[name] for one in answered]) == summary["rates"][name]
    assert records.failed([one["failed"] for one in answered]) == summary["counts"]["failed"]
    assert count_questions([one["record"] for one in answered]) == summary["questions"]


def test_repeated_questions_count_once(answered):
    """Padding in a data-parallel run."""
    twice = [*answered, answered[3]]
    assert records.empty_rate([one["empty_rate"] for one in twice]) == 1 / 4
    assert count_questions([one["record"] for one in twice]) == 4
    assert records.acc_uni([one["acc_uni"] for one in twice]) == records.acc_uni([one["acc_uni"] for one in answered])


def test_instances_left_out_are_told_once(answered, caplog):
    """Not once for each of two dozen metrics."""
    with caplog.at_level(logging.WARNING):
        count_questions([one["record"] for one in answered[:3]])
        records.acc_f([one["acc_f"] for one in answered[:3]])
    assert [message.split(" knowledge")[0] for message in caplog.messages] == ["forget05 cls: 1 of 2"]


def test_no_pair_is_nan(answered):
    assert math.isnan(records.acc_f([answered[0]["acc_f"]]))
