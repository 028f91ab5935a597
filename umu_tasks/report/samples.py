"""Read a sample file of lmms-eval: one line a question, each with our record of how it was answered and scored::

    {"doc_id": 0, "record": {"profile_id": "001", "task": "cls", "key": "0", "field": "occupation", "modality":
     "multimodal", "split": "real", "question": "…", "gold": "Pilot", "output": "Pilot", "parsed": "Pilot", "correct":
     {"default": 1, "official": 1, "strict": 1}, "refusal": 0, "empty": 0, "failed": 0}, "acc_mul": 1.0, …}

Files of an older version hold a record under each metric's name in place of `record`, with one verdict.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from umu_tasks.benchmarks.errors import DataError
from umu_tasks.benchmarks.instances import InstanceKey, Modality, Task
from umu_tasks.report.runs import RULE_NAMES, Answer
from umu_tasks.scoring.answers import RuleName, parse_response
from umu_tasks.scoring.metrics import METRICS
from umu_tasks.scoring.refusals import is_refusal
from umu_tasks.scoring.texts import has_letter_or_digit


def read_samples(file: Path, task: Task) -> tuple[Answer, ...]:
    """Read a sample file; a question that stands in it twice (padded shards) counts once.

    Raises:
        DataError: a line is not JSON or holds no record of ours.
    """
    answers: dict[tuple[InstanceKey, Modality], Answer] = {}
    with file.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                answer = _answer(line, task, f"{file}, line {number}")
                answers.setdefault((answer.instance_key, answer.modality), answer)
    return tuple(answers.values())


def _answer(line: str, task: Task, where: str) -> Answer:
    try:
        sample = json.loads(line)
    except ValueError as error:
        raise DataError(f"not readable as JSON ({error}). Evaluate again.", file=where) from error
    sample = sample if isinstance(sample, dict) else {}
    whole = sample.get("record")
    record = whole if isinstance(whole, dict) else _older_record(sample)
    if record is None:
        raise DataError("no scored record in this sample, so these tasks did not write it. Evaluate again.", file=where)
    score_name = "rouge_l" if task == "gen" else "correct"
    missing = [name for name in ("profile_id", "key", "modality", score_name) if record.get(name) is None]
    if missing:
        problem = f"the scored record has no {', '.join(missing)}; found {', '.join(record)}. Evaluate again."
        raise DataError(problem, file=where)
    output = record.get("output")
    response = "" if output is None else parse_response(str(output))
    return Answer(
        profile_id=str(record["profile_id"]),
        task=task,
        key=str(record["key"]),
        modality="multimodal" if record["modality"] == "multimodal" else "unimodal",
        output=None if output is None else str(output),
        verdicts=_verdicts(record[score_name], where),
        refusal=bool(record.get("refusal", is_refusal(response))),
        empty=bool(record.get("empty", output is not None and not has_letter_or_digit(response))),
        failed=bool(record.get("failed", output is None)),
        question=str(record.get("question", "")),
        gold=str(record.get("gold", sample.get("target", ""))),
        record=record if isinstance(whole, dict) else {},
        question_hash=str(sample.get("doc_hash") or ""),
    )


def _verdicts(score: Any, where: str) -> dict[RuleName, float]:
    found = score if isinstance(score, Mapping) else {"default": score}
    try:
        verdicts = {rule: float(found[rule]) for rule in RULE_NAMES if rule in found}
    except (TypeError, ValueError):
        verdicts = {}
    if "default" not in verdicts:
        raise DataError(f"expected a number or one a rule as the score, found {score!r}. Evaluate again.", file=where)
    return verdicts


def _older_record(sample: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the record under the default rule's metric names, which have no suffix."""
    records = (sample.get(name) for name in (*METRICS, *sample))
    return next((record for record in records if isinstance(record, dict) and "modality" in record), None)
