"""Every MLLMU-Bench task file: names, metrics, directions, examples."""

from __future__ import annotations

import json

import pytest

from umu_tasks.benchmarks.instances import TASKS
from umu_tasks.benchmarks.splits import is_to_be_forgotten
from umu_tasks.scoring.metrics import QUESTION_METRICS
from umu_tasks.scoring.unpaired import reported_metrics
from umu_tasks.tasks import files

OURS = {name: one for name, one in files.our_tasks().items() if name.startswith("mllmu")}
LEAVES = {name: one for name, one in OURS.items() if isinstance(one["task"], str)}
GROUPS = {name: one["task"] for name, one in OURS.items() if name not in LEAVES}
SPLITS = [f"{kind}{ratio:02d}" for kind in ("forget", "test") for ratio in (5, 10, 15)]
SPLITS += ["retain95", "retain90", "retain85", "real"]


def test_every_name_people_type():
    for split in SPLITS:
        assert GROUPS[f"mllmu_{split}"] == [f"mllmu_{split}_{task}" for task in TASKS]
        assert set(GROUPS[f"mllmu_{split}_0shot"]) <= LEAVES.keys()
    for ratio in (5, 10, 15):
        for ending in ("", "_0shot"):
            names = (f"forget{ratio:02d}", f"test{ratio:02d}", f"retain{100 - ratio}", "real")
            assert GROUPS[f"mllmu{ratio:02d}{ending}"] == [f"mllmu_{name}{ending}" for name in names]
            assert set(GROUPS[f"mllmu{ratio:02d}{ending}"]) <= GROUPS.keys()


@pytest.mark.parametrize("name", LEAVES)
def test_leaf(name):
    """Metrics, directions, examples and limits follow from the name."""
    _, split, task, *ending = name.split("_")
    settings = LEAVES[name]
    expected = ["record", *(one.name for one in reported_metrics(task, split)), *QUESTION_METRICS]
    assert [metric["metric"] for metric in settings["metric_list"]] == expected
    scores = [one for one in settings["metric_list"] if one["metric"].startswith(("acc", "rl", "rouge", "bleu"))]
    assert {metric["higher_is_better"] for metric in scores} == {not is_to_be_forgotten(split)}
    for metric in scores:
        assert metric["aggregation"].endswith(f"mllmu.records.{metric['metric'].removesuffix('_strict')}")
    people = 0 if ending or task == "gen" or (split, task) == ("real", "cls") else {"cls": 1, "cloze": 2}[task]
    kwargs = settings["dataset_kwargs"]
    selectors = json.loads((files.task_path() / "mllmu" / kwargs["data_files"]["test"]).read_text())
    assert selectors[kwargs["field"]] == [{"split": split, "task": task, "examples": people}]
    assert settings["metadata"]["example_people"] == people
    assert settings["generation_kwargs"]["max_new_tokens"] == 50
    assert settings["generation_kwargs"]["do_sample"] is False
