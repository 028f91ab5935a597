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

from umu_tasks.benchmarks.instances import TASKS, InstanceKey, Modality, Task
from umu_tasks.scoring.metrics import METRICS, metric_names
from umu_tasks.scoring.pairing import Pair

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
        people: Mapping[str, Sequence[str]] = SPLITS,
        **config: Any,
    ) -> Path:
        """Write one results file with its sample files; returns the run's folder.

        Args:
            output: (right answer, score) -> the output the model is said to have written.
            config: entries of the results file's `config`, such as `limit` or `model_args`.
        """
        folder = self.root / name / f"checkpoints__{name}"
        folder.mkdir(parents=True, exist_ok=True)
        results: dict[str, Any] = {}
        for split in splits:
            results[f"umu_{split}"] = {"alias": f"umu_{split}", " ": ""}
            for task in TASKS:
                leaf = f"umu_{split}_{task}"
                records = _records(split, task, people[split], right, output)
                results[leaf] = _scores(split, task, records)
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
            "lmms_eval_version": "main@abc1234",
            "date": date,
        }
        (folder / f"{date}_results.json").write_text(json.dumps(content), encoding="utf-8")
        return self.root / name


@pytest.fixture
def make_folder(tmp_path: Path) -> FolderMaker:
    return FolderMaker(tmp_path / "results")


def _records(
    split: str, task: Task, people: Sequence[str], right: Right, output: Callable[[str, float], str | None]
) -> list[dict[str, Any]]:
    records = []
    for profile_id in people:
        for key in KEYS[task]:
            for modality in ("unimodal", "multimodal"):
                score = float(right(profile_id, task, key, modality))
                record = {"profile_id": profile_id, "task": task, "key": key, "modality": modality, "split": split}
                answer = f"{key} of {profile_id}"
                record |= {"output": output(answer, score), "gold": answer}
                records.append(record | ({"rouge_l": score} if task == "gen" else {"correct": int(score)}))
    return records


def _scores(split: str, task: Task, records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    pairs: dict[InstanceKey, dict[str, float]] = {}
    for record in records:
        key = InstanceKey(record["profile_id"], task, record["key"])
        pairs.setdefault(key, {})[record["modality"]] = record["rouge_l" if task == "gen" else "correct"]
    values = [Pair(pair["multimodal"], pair["unimodal"]) for pair in pairs.values()]
    scores: dict[str, Any] = {"alias": f"umu_{split}_{task}"}
    for name in metric_names(task, split):
        scores |= {f"{name},none": METRICS[name](values), f"{name}_stderr,none": "N/A"}
    return scores


def _samples(split: str, task: Task, records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    samples = []
    for number, record in enumerate(records):
        own = {name: one for name, one in record.items() if name != "gold"}
        samples.append(
            {
                "doc_id": number,
                "target": record["gold"],
                "filtered_resps": [record["output"]],
                "doc_hash": f"{split} {task} {number} {record['gold']}",
                **dict.fromkeys(metric_names(task, split), own),
                "input": "a prompt",
            }
        )
    return samples


def _asked(leaf: str, people: Mapping[str, Sequence[str]]) -> dict[str, int]:
    _, split, task = leaf.split("_")
    questions = len(people[split]) * len(KEYS["cls" if task == "cls" else "cloze"]) * 2
    return {"original": questions, "effective": questions}
