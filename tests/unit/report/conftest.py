"""Result folders as lmms-eval writes them, made by hand from a rule that says which questions are answered right.

The real program's folders are read in tests/integration/report; these only have the parts that matter here, so that a
test can say exactly what a model got right.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from umu_tasks.benchmarks.instances import TASKS, Modality, Task
from umu_tasks.results.run import plain
from umu_tasks.results.validity import judge
from umu_tasks.scoring.answers import parse_response
from umu_tasks.scoring.metrics import value_of
from umu_tasks.scoring.refusals import is_refusal
from umu_tasks.scoring.summary import summarize

RULES = ("default", "official", "strict")
Verdicts = Callable[[int], Mapping[str, int]]
"""Score under the default rule -> the verdict under each rule."""

Right = Callable[[str, Task, str, Modality], float]
"""(profile_id, task, key, modality) -> score in [0, 1]."""

KEYS: dict[Task, tuple[str, ...]] = {"cls": ("job", "town"), "cloze": ("job", "town"), "gen": ("job", "town")}
SPLITS: dict[str, tuple[str, ...]] = {
    "forget05": ("001", "002"),
    "retain95": ("003", "004", "005", "006"),
    "real": ("001", "002"),
    "full": ("001", "002", "003", "004", "005", "006"),
}


class FolderMaker:
    """Writes result folders below `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def __call__(
        self,
        name: str,
        right: Right,
        *,
        splits: Sequence[str] = ("forget05", "retain95", "real"),
        output: Callable[[str, float], str | None] = lambda answer, score: answer if score else "something else",
        date: str = "20260102_030405",
        samples: bool = True,
        block: bool = True,
        provenance: Mapping[str, Any] | None = None,
        verdicts: Verdicts = lambda score: dict.fromkeys(RULES, score),
        people: Mapping[str, Sequence[str]] = SPLITS,
        **config: Any,
    ) -> Path:
        """Write one results file with its sample files; returns the run's folder.

        Args:
            output: (right answer, score) -> the output the model is said to have written.
            block: our plugin's part of the results file is there, with `provenance`.
            config: entries of the results file's `config`, such as `limit` or `model_args`.
        """
        folder = self.root / name / f"checkpoints__{name}"
        folder.mkdir(parents=True, exist_ok=True)
        results: dict[str, Any] = {}
        summaries: dict[str, Any] = {}
        for split in splits:
            results[f"umu_{split}"] = {"alias": f"umu_{split}", " ": ""}
            for task in TASKS:
                leaf = f"umu_{split}_{task}"
                records = _records(split, task, people[split], right, output, verdicts)
                summaries[leaf] = summarize(records)
                results[leaf] = _scores(leaf, summaries[leaf])
                if samples:
                    lines = "".join(json.dumps(sample) + "\n" for sample in _samples(split, task, records))
                    (folder / f"{date}_samples_{leaf}.jsonl").write_text(lines, encoding="utf-8")
        leaves = [leaf for leaf in results if "alias" in results[leaf] and " " not in results[leaf]]
        content = {
            "results": results,
            "versions": dict.fromkeys(leaves, 1),
            "n-samples": {leaf: _asked(leaf, people) for leaf in leaves},
            "config": {
                "model": "umu_hf",
                "model_args": f"pretrained=checkpoints/{name}",
                "batch_size": 64,
                "limit": None,
                **config,
            },
            "git_hash": "abc1234",
            "lmms_eval_version": "v0.7.3",
            "date": date,
        }
        if block:
            content["umu"] = {
                "format": 1,
                "tasks": plain(summaries),
                "validity": judge(summaries),
                "provenance": dict(provenance or {}),
            }
        (folder / f"{date}_results.json").write_text(json.dumps(content), encoding="utf-8")
        return self.root / name


def write_others(
    folder: Path,
    scores: Mapping[str, Mapping[str, Any]],
    *,
    better: Mapping[str, Mapping[str, bool]] | None = None,
    model_args: str = "",
    date: str = "20260105_000000",
    **content: Any,
) -> Path:
    """Write a results file of other people's tasks, as lmms-eval does; returns the folder.

    Args:
        scores: task -> key of lmms-eval (``exact_match,none``) -> value.
        better: task -> metric -> whether higher is better.
        content: other parts of the file, such as `versions`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    document = {
        "results": {task: {"alias": task, **own} for task, own in scores.items()},
        "higher_is_better": better or {},
        "config": {"model": "umu_hf", "model_args": model_args, "limit": None},
        "date": date,
        **content,
    }
    (folder / f"{date}_results.json").write_text(json.dumps(document), encoding="utf-8")
    return folder


@pytest.fixture
def make_others() -> Callable[..., Path]:
    return write_others


@pytest.fixture
def make_folder(tmp_path: Path) -> FolderMaker:
    return FolderMaker(tmp_path / "results")


def _records(
    split: str,
    task: Task,
    people: Sequence[str],
    right: Right,
    output: Callable[[str, float], str | None],
    verdicts: Verdicts,
) -> list[dict[str, Any]]:
    records = []
    for profile_id in people:
        for key in KEYS[task]:
            for modality in ("unimodal", "multimodal"):
                score = float(right(profile_id, task, key, modality))
                record: dict[str, Any] = {"profile_id": profile_id, "task": task, "key": key, "field": key}
                answer = f"{key} of {profile_id}"
                written = output(answer, score)
                parsed = parse_response(written or "")
                record |= {
                    "modality": modality,
                    "split": split,
                    "question": f"Which {key}?",
                    "gold": answer,
                    "output": written,
                }
                record |= {"parsed": parsed, "refusal": int(is_refusal(parsed))}
                record |= {"empty": int(written is not None and not parsed), "failed": int(written is None)}
                if task == "gen":
                    record |= dict.fromkeys(("rouge_l", "rouge_1", "rouge_2", "bleu"), score)
                else:
                    record["correct"] = dict(verdicts(int(score)))
                records.append(record)
    return records


def _scores(leaf: str, summary: Mapping[str, Any]) -> dict[str, Any]:
    scores: dict[str, Any] = {"alias": leaf}
    for name, found in summary["metrics"].items():
        scores |= {f"{name},none": found["value"], f"{name}_stderr,none": "N/A"}
    return scores


def _samples(split: str, task: Task, records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    samples = []
    for number, record in enumerate(records):
        samples.append(
            {
                "doc_id": number,
                "target": record["gold"],
                "filtered_resps": [record["output"]],
                "doc_hash": f"{split} {task} {number} {record['gold']}",
                "record": record,
                **_plain_scores(task, record),
                "input": "a prompt",
            }
        )
    return samples


def _plain_scores(task: Task, record: Mapping[str, Any]) -> dict[str, float]:
    if task == "gen":
        return {"rl_mul": value_of(record, "rouge_l"), "rl_uni": value_of(record, "rouge_l")}
    return {"acc_mul": value_of(record, "default"), "acc_mul_strict": value_of(record, "strict")}


def _asked(leaf: str, people: Mapping[str, Sequence[str]]) -> dict[str, int]:
    _, split, task = leaf.split("_")
    questions = len(people[split]) * len(KEYS["cls" if task == "cls" else "cloze"]) * 2
    return {"original": questions, "effective": questions}
