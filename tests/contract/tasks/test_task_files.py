"""Every task file in every benchmark's folder, collected and not listed: names, metrics, directions, selectors."""

from __future__ import annotations

import importlib
import json

import pytest

from umu_tasks import plugin
from umu_tasks.benchmarks.instances import TASKS
from umu_tasks.benchmarks.names import BENCHMARKS
from umu_tasks.benchmarks.splits import SPLITS, is_forget
from umu_tasks.scoring.metrics import QUESTION_METRICS, reported_metrics
from umu_tasks.tasks import files
from umu_tasks.tasks.command import builtin_clashes, describe

OURS = files.our_tasks()
LEAVES = {name: settings for name, settings in OURS.items() if isinstance(settings["task"], str)}
GROUPS = {name: settings["task"] for name, settings in OURS.items() if name not in LEAVES}


def functions(value):
    """Yield every dotted function name in a task's settings."""
    if isinstance(value, dict):
        for one in value.values():
            yield from functions(one)
    elif isinstance(value, list):
        for one in value:
            yield from functions(one)
    elif isinstance(value, str) and value.startswith("umu_tasks."):
        yield value


def test_umu_has_every_name_people_type():
    leaves = {f"umu_{split}_{task}" for split in SPLITS for task in TASKS}
    assert leaves <= LEAVES.keys()
    for split in SPLITS:
        assert GROUPS[f"umu_{split}"] == [f"umu_{split}_{task}" for task in TASKS]
    for ratio in (5, 10, 15):
        assert GROUPS[f"umu{ratio:02d}"] == [f"umu_forget{ratio:02d}", f"umu_retain{100 - ratio}", "umu_real"]


def test_names_are_unique_and_prefixed():
    assert len(files.task_files()) == len(OURS)
    assert all(name.startswith(BENCHMARKS) for name in OURS)


@pytest.mark.parametrize("group", GROUPS)
def test_groups_name_what_there_is(group):
    assert set(GROUPS[group]) <= OURS.keys()


def better(name, split):
    """Whether a higher value is better: scores should fall on a forget set; some values have no direction."""
    if name.startswith(("modality_gap", "refusal_rate")):
        return None
    return name not in ("empty_rate", "failed") and not is_forget(split)


@pytest.mark.parametrize("name", [name for name in LEAVES if name.startswith("umu_")])
def test_umu_leaf(name):
    """A leaf's metrics, directions and selector follow from its name; lmms-eval fails on an undeclared metric."""
    _, split, task = name.split("_")
    settings = LEAVES[name]
    reported = reported_metrics(task, split)
    functions = {one.name: one.base for one in reported} | {name: name for name in QUESTION_METRICS}
    found = {metric["metric"]: metric for metric in settings["metric_list"]}
    assert list(found) == ["record", *functions]
    for metric, function in functions.items():
        assert found[metric]["aggregation"] == f"umu_tasks.tasks.records.{function}"
        assert found[metric]["higher_is_better"] is better(metric, split)
    kwargs = settings["dataset_kwargs"]
    file = files.task_path() / name.split("_")[0] / kwargs["data_files"]["test"]
    assert json.loads(file.read_text())[kwargs["field"]] == [{"split": split, "task": task}]
    assert settings["generation_kwargs"]["max_new_tokens"] == (200 if task == "gen" else 50)
    assert settings["generation_kwargs"]["do_sample"] is False


@pytest.mark.parametrize("name", sorted({one for settings in LEAVES.values() for one in functions(settings)}))
def test_functions_are_named_by_full_path(name):
    """A short name would make lmms-eval run the file again for each reference, sharing no cache."""
    module, _, function = name.rpartition(".")
    assert callable(getattr(importlib.import_module(module), function))


def test_no_clash_with_lmms_eval():
    assert builtin_clashes(OURS) == {}


def test_a_clash_is_reported_by_name(tmp_path):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "other.yaml").write_text(
        "task: umu_real_cls\ntag: [umu_real]\ndoc_to_text: !function utils.text\n"
    )
    (tmp_path / "x" / "near.yaml").write_text("task: my_umu_real_cls\n")
    file = str(tmp_path / "x" / "other.yaml")
    assert builtin_clashes(OURS, tmp_path) == {"umu_real_cls": file, "umu_real": file}
    assert plugin.clash_message("umu_real_cls", file) == (
        f"task umu_real_cls of umu-bench is hidden by another task of that name: {file}. Rename or remove that one."
    )


def test_list_shows_every_task_with_its_metrics():
    lines = describe(OURS)
    assert all(any(line.split()[:1] == [name] for line in lines) for name in OURS)
    (line,) = [line for line in lines if line.split()[:1] == ["umu_forget05_gen"]]
    assert line.split()[1:] == ["rl_mul-", "rl_uni-", "rl_f-", "modality_gap", "refusal_rate", "empty_rate-", "failed-"]
