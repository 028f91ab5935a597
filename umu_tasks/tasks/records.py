"""Scores one output into a record, and aggregates records into metrics: what a task's YAML names.

A record, in the samples file under each of the task's metrics:

    {"profile_id": "001", "task": "cls", "key": "occupation", "modality": "multimodal", "split": "forget05",
     "output": "Sound Engineer", "parsed": "Sound Engineer", "correct": 1}

`rouge_l` stands in place of `correct` for generation. `output` is the model's text as lmms-eval hands it on: it strips
white space around it and removes `<think>` blocks; the sample's `resps` has it before that where the two differ.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from umu_tasks.scoring.answers import RuleName, is_correct, parse_response, suffix
from umu_tasks.scoring.metrics import METRICS, metric_names
from umu_tasks.scoring.pairing import pair_records
from umu_tasks.scoring.rouge import rouge_l
from umu_tasks.tasks.abort import aborts_on_error
from umu_tasks.tasks.documents import to_question

logger = logging.getLogger(__name__)

Record = dict[str, Any]
Aggregation = Callable[[Sequence[Mapping[str, Any]]], float]

REPORTED_RULES: tuple[RuleName, ...] = ("default",)
HEADLINES = ("acc_f", "acc_r", "rl_f", "rl_r")


def score(document: Mapping[str, Any], outputs: Sequence[str]) -> dict[str, Record]:
    """Return metric name -> record for one question, under every reported rule.

    Args:
        document: one of `documents.to_document`.
        outputs: what the model wrote; the first one counts.
    """
    question = to_question(document)
    split, output = document["split"], outputs[0]
    record: Record = {name: document[name] for name in ("profile_id", "task", "key", "modality", "split")}
    record |= {"output": output, "parsed": parse_response(output)}
    names = metric_names(question.task, split)
    if question.task == "gen":
        return dict.fromkeys(names, record | {"rouge_l": rouge_l(record["parsed"], question.gold)})
    scored: dict[str, Record] = {}
    for rule in REPORTED_RULES:
        verdict = int(is_correct(output, question, split=split, rule=rule))
        scored |= dict.fromkeys((name + suffix(rule) for name in names), record | {"correct": verdict})
    return scored


def aggregation(name: str) -> Aggregation:
    """Return the function that turns a task's records into the metric `name` (without a rule's suffix)."""
    metric, value = METRICS[name], "rouge_l" if name.startswith("rl_") else "correct"

    def aggregate(records: Sequence[Mapping[str, Any]]) -> float:
        pairing = pair_records(records, value)
        if pairing.notice and name in HEADLINES:  # every metric of a task has the same records: say it once
            logger.warning("%s: %s", _label(records), pairing.notice)
        return metric(list(pairing.pairs.values()))

    aggregate.__name__ = aggregate.__qualname__ = name
    return aborts_on_error(aggregate)


def _label(records: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(sorted({f"{record['split']} {record['task']}" for record in records})) or "no records"


acc_mul = aggregation("acc_mul")
acc_uni = aggregation("acc_uni")
acc_any = aggregation("acc_any")
acc_all = aggregation("acc_all")
acc_f = aggregation("acc_f")
acc_r = aggregation("acc_r")
rl_mul = aggregation("rl_mul")
rl_uni = aggregation("rl_uni")
rl_f = aggregation("rl_f")
rl_r = aggregation("rl_r")
