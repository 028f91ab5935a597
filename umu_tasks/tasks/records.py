"""Scores one output into a record, and aggregates records into metrics: what a task's YAML names.

A record, in the samples file once a question, under ``record``:

    {"profile_id": "001", "task": "cls", "key": "occupation", "field": "occupation", "modality": "multimodal",
     "split": "forget05", "question": "What is the occupation of the person in the image?", "gold": "Sound Engineer",
     "output": "Sound Engineer", "parsed": "Sound Engineer", "correct": {"default": 1, "official": 1, "strict": 1},
     "refusal": 0, "empty": 0, "failed": 0}

For generation `rouge_l`, `rouge_1`, `rouge_2` and `bleu` stand in place of `correct`. `output` is the model's text as
lmms-eval hands it on: it strips white space around it and removes `<think>` blocks; the sample's `resps` has it before
that where the two differ. `field` is explained in `umu_tasks.scoring.fields`.

Beside it, under each metric's name, stands the question's number for that metric: a verdict under the metric's rule, a
text measure, or a flag.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from umu_tasks.benchmarks.instances import Question
from umu_tasks.scoring.answers import REPORTED_RULES, is_correct, is_empty, parse_response
from umu_tasks.scoring.bleu import bleu
from umu_tasks.scoring.failures import is_failed
from umu_tasks.scoring.metrics import METRICS, QUESTION_METRICS, reported_metrics, value_of
from umu_tasks.scoring.pairing import Pair, instance_of, pair_by_key
from umu_tasks.scoring.refusals import is_refusal
from umu_tasks.scoring.rouge import rouge
from umu_tasks.tasks.abort import aborts_on_error
from umu_tasks.tasks.documents import to_question

logger = logging.getLogger(__name__)

Record = dict[str, Any]

_COPIED = ("profile_id", "task", "key", "field", "modality", "split", "question", "gold")


class Number(float):
    """A question's number for one metric, with the record it belongs to.

    lmms-eval gives an aggregation a list of numbers and nothing else; the record says which question each one is of. A
    number is what lands in the samples file, and what its own statistics read.
    """

    record: Record

    def __new__(cls, value: float, record: Record) -> Number:
        number = super().__new__(cls, value)
        number.record = record
        return number

    def __reduce__(self) -> tuple[type[Number], tuple[float, Record]]:
        """Pickle with the record: lmms-eval gathers numbers from all processes."""
        return Number, (float(self), self.record)


# ---- one question -----------------------------------------------------------------------------------------------


def score(document: Mapping[str, Any], outputs: Sequence[str]) -> dict[str, Record | Number]:
    """Return ``record`` -> the record of one question, and metric name -> its number, under every reported rule.

    Args:
        document: one of `documents.to_document`.
        outputs: what the model wrote; the first one counts.
    """
    record = make_record(document, outputs[0])
    metrics = reported_metrics(document["task"], document["split"])
    numbers = {metric.name: Number(value_of(record, metric.source), record) for metric in metrics}
    flags = {name: Number(record[flag], record) for name, flag in QUESTION_METRICS.items()}
    return {"record": record, **numbers, **flags}


def make_record(document: Mapping[str, Any], output: str) -> Record:
    """Return the record of one answered question."""
    question, parsed, failed = to_question(document), parse_response(output), is_failed(output)
    return {
        **{name: document[name] for name in _COPIED},
        "output": output,
        "parsed": parsed,
        **_verdicts(question, output, document["split"]),
        "refusal": int(is_refusal(parsed) and not failed),
        "empty": int(is_empty(parsed, question)),
        "failed": int(failed),
    }


def _verdicts(question: Question, output: str, split: str) -> dict[str, Any]:
    if question.task == "gen":
        parsed = parse_response(output)
        return rouge(parsed, question.gold) | {"bleu": bleu(parsed, question.gold)}
    return {"correct": {rule: int(is_correct(output, question, split=split, rule=rule)) for rule in REPORTED_RULES}}


# ---- a task's questions -----------------------------------------------------------------------------------------


@aborts_on_error
def count_questions(records: Sequence[Record]) -> int:
    """Return the number of questions answered, and warn of instances that no score has: the metric ``record``.

    It is there to give the record a place in the samples file; being in every task, it says the warning once.
    """
    notice = pair_by_key((record, record) for record in records).notice
    if notice:
        label = ", ".join(sorted({f"{record['split']} {record['task']}" for record in records})) or "no records"
        logger.warning("%s: %s", label, notice)
    return len({(instance_of(record), record["modality"]) for record in records})


def mean_over_pairs(name: str) -> Callable[[Sequence[Number]], float]:
    """Return the function that turns a task's numbers into the metric `name`, whatever rule they are of."""

    def aggregate(numbers: Sequence[Number]) -> float:
        pairing = pair_by_key((number.record, float(number)) for number in numbers)
        return METRICS[name]([Pair(*values) for values in pairing.pairs.values()])

    aggregate.__name__ = aggregate.__qualname__ = name
    return aborts_on_error(aggregate)


acc_mul = mean_over_pairs("acc_mul")
acc_uni = mean_over_pairs("acc_uni")
acc_any = mean_over_pairs("acc_any")
acc_all = mean_over_pairs("acc_all")
acc_f = mean_over_pairs("acc_f")
acc_r = mean_over_pairs("acc_r")
rl_mul = mean_over_pairs("rl_mul")
rl_uni = mean_over_pairs("rl_uni")
rl_f = mean_over_pairs("rl_f")
rl_r = mean_over_pairs("rl_r")
rouge1_mul = mean_over_pairs("rouge1_mul")
rouge1_uni = mean_over_pairs("rouge1_uni")
rouge2_mul = mean_over_pairs("rouge2_mul")
rouge2_uni = mean_over_pairs("rouge2_uni")
bleu_mul = mean_over_pairs("bleu_mul")
bleu_uni = mean_over_pairs("bleu_uni")
modality_gap = mean_over_pairs("modality_gap")


@aborts_on_error
def refusal_rate(numbers: Sequence[Number]) -> float:
    """Return the share of questions, paired or not, that the model declined to answer."""
    return _share(numbers)


@aborts_on_error
def empty_rate(numbers: Sequence[Number]) -> float:
    """Return the share of questions, paired or not, with nothing in the answer."""
    return _share(numbers)


@aborts_on_error
def failed(numbers: Sequence[Number]) -> int:
    """Return the number of questions whose output is a backend's note of a failed request."""
    return int(sum(_by_question(numbers).values()))


def _share(numbers: Sequence[Number]) -> float:
    by_question = _by_question(numbers)
    return sum(by_question.values()) / len(by_question)


def _by_question(numbers: Sequence[Number]) -> dict[Any, float]:
    """Return each question's number once, though a data-parallel run may have asked it twice."""
    return {(instance_of(number.record), number.record["modality"]): float(number) for number in numbers}
