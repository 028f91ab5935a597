"""Scores one output into a record, and aggregates records into metrics: what a task's YAML names.

A record is UMU-Bench's (`umu_tasks.tasks.records`) with four entries more:

    "benchmark": "mllmu"       says that questions need not pair (`umu_tasks.scoring.unpaired`)
    "examples": ["012"]        whose questions were answered in the prompt; empty for zero-shot
    "portrait": 2              which of the person's images was shown, counted from 0; -1 for a unimodal question
    "seed": 0                  that both were drawn with

`acc_mul` and `acc_uni` (`rl_mul`, … alike) are means over all questions of their modality; what needs both modalities
of a fact, such as `acc_any`, is a mean over the facts that are asked in both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from umu_tasks.scoring import unpaired
from umu_tasks.scoring.answers import is_empty, parse_response
from umu_tasks.scoring.bleu import bleu
from umu_tasks.scoring.failures import is_failed
from umu_tasks.scoring.metrics import QUESTION_METRICS, value_of
from umu_tasks.scoring.pairing import instance_of
from umu_tasks.scoring.refusals import is_refusal
from umu_tasks.scoring.rouge import rouge
from umu_tasks.tasks.abort import aborts_on_error
from umu_tasks.tasks.documents import to_question
from umu_tasks.tasks.mllmu.rules import verdicts
from umu_tasks.tasks.records import Number, Record

BENCHMARK = "mllmu"
_COPIED = ("profile_id", "task", "key", "field", "modality", "split", "question", "gold")
_DRAWN = ("examples", "portrait", "seed")


def score(document: Mapping[str, Any], outputs: Sequence[str]) -> dict[str, Record | Number]:
    """Return ``record`` -> the record of one question, and metric name -> its number, under every reported rule.

    Args:
        document: one of `hooks.build_documents`.
        outputs: what the model wrote; the first one counts.
    """
    record = make_record(document, outputs[0])
    metrics = unpaired.reported_metrics(document["task"], document["split"])
    numbers = {metric.name: Number(value_of(record, metric.source), record) for metric in metrics}
    flags = {name: Number(record[flag], record) for name, flag in QUESTION_METRICS.items()}
    return {"record": record, **numbers, **flags}


def make_record(document: Mapping[str, Any], output: str) -> Record:
    """Return the record of one answered question."""
    question, parsed, failed = to_question(document), parse_response(output), is_failed(output)
    if question.task == "gen":
        scores: dict[str, Any] = {**rouge(parsed, question.gold), "bleu": bleu(parsed, question.gold)}
    else:
        scores = {"correct": verdicts(parsed, question)}
    return {
        "benchmark": BENCHMARK,
        **{name: document[name] for name in _COPIED},
        **{name: document[name] for name in _DRAWN},
        "output": output,
        "parsed": parsed,
        **scores,
        "refusal": int(is_refusal(parsed) and not failed),
        "empty": int(is_empty(parsed, question)),
        "failed": int(failed),
    }


@aborts_on_error
def count_questions(records: Sequence[Record]) -> int:
    """Return the number of questions answered: the metric ``record``, which gives the record a place in the samples."""
    return len({(instance_of(record), record["modality"]) for record in records})


def metric(name: str) -> Callable[[Sequence[Number]], float]:
    """Return the function that turns a task's numbers into the metric `name`, whatever rule they are of."""

    def aggregate(numbers: Sequence[Number]) -> float:
        return unpaired.value(name, [(number.record, float(number)) for number in numbers])

    aggregate.__name__ = aggregate.__qualname__ = name
    return aborts_on_error(aggregate)


acc_mul = metric("acc_mul")
acc_uni = metric("acc_uni")
acc_any = metric("acc_any")
acc_all = metric("acc_all")
acc_f = metric("acc_f")
acc_r = metric("acc_r")
rl_mul = metric("rl_mul")
rl_uni = metric("rl_uni")
rl_f = metric("rl_f")
rl_r = metric("rl_r")
rouge1_mul = metric("rouge1_mul")
rouge1_uni = metric("rouge1_uni")
rouge2_mul = metric("rouge2_mul")
rouge2_uni = metric("rouge2_uni")
bleu_mul = metric("bleu_mul")
bleu_uni = metric("bleu_uni")
modality_gap = metric("modality_gap")
