"""What happens on versions of lmms-eval that lack a place of ours, and when something of ours breaks."""

from __future__ import annotations

import json
import logging
import math
from pathlib import Path
from types import SimpleNamespace

import pytest

from umu_tasks.results import hooks
from umu_tasks.results.run import Run, plain

DATA = Path(__file__).parents[2] / "fixtures" / "umu_small" / "data"


@pytest.mark.parametrize(
    ("module", "owner", "method", "lost"),
    [
        ("lmms_eval.evaluator_utils", "TaskOutput", "calculate_aggregate_metric", "check for empty outputs"),
        ("lmms_eval.loggers.evaluation_tracker", "EvaluationTracker", "save_results_aggregated", "exit status 1"),
        ("lmms_eval.loggers.evaluation_tracker", "GeneralConfigTracker", "log_experiment_args", "stock backend"),
        ("lmms_eval.caching.response_cache", "ResponseCache", "create", "cache=DIR"),
        ("lmms_eval.caching.response_cache", "ResponseCache", "execute", "cache=DIR"),
    ],
)
def test_missing_place_is_told_with_what_is_lost(monkeypatch, caplog, module, owner, method, lost):
    """A silent loss would read as a run without problems."""
    import importlib

    monkeypatch.delattr(getattr(importlib.import_module(module), owner), method)
    with caplog.at_level(logging.ERROR):
        hooks.install()
    (message,) = [record.getMessage() for record in caplog.records]
    assert f"this lmms-eval has no {module}:{owner}.{method}" in message
    assert lost in message


def test_installed_once():
    """lmms-eval may load its plugins twice; a task must not be summarized twice."""
    from lmms_eval.evaluator_utils import TaskOutput

    hooks.install()
    method = TaskOutput.calculate_aggregate_metric
    hooks.install()
    assert TaskOutput.calculate_aggregate_metric is method


def test_other_peoples_tasks_get_no_block():
    run = Run()
    run.start("some_model", "pretrained=x")
    assert run.block({"results": {"mmlu": {}}}) is None


def test_what_breaks_in_us_costs_no_results():
    """Records that can't be summarized (here two that contradict each other) make the run invalid; no exception."""
    record = {"profile_id": "1", "task": "cls", "key": "a", "field": "a", "modality": "unimodal", "split": "real"}
    run = Run()
    assert run.summarize("umu_real_cls", [{**record, "output": "x"}, {"nonsense": 1}]) is None
    block = run.block({"config": {"model": "m"}})
    assert block["tasks"] == {}
    assert block["validity"]["valid"] is False
    assert block["validity"]["reasons"][0].startswith("umu_real_cls can't be summarized (")


@pytest.fixture
def answered(monkeypatch):
    """A task of ours that lmms-eval has put through without its metrics, and the run that it belongs to."""
    monkeypatch.setenv("UMU_DATA", str(DATA))
    run = Run()
    run.start("m", "")
    monkeypatch.setattr(hooks, "RUN", run)
    document = {"published_prompt": "", "profile_id": "001", "modality": "unimodal", "split": "real"}

    def aggregate(metric="bypass", document=document):
        task = SimpleNamespace(eval_docs=[document])
        output = SimpleNamespace(task_name="umu_real_cls", task=task, sample_metrics={(metric, "none"): [999]})
        hooks._summarizing(lambda _: None)(output)
        return run.block({"configs": {"umu_real_cls": {"generation_kwargs": {"max_new_tokens": 50}}}})

    return aggregate


def test_predict_only_says_what_wrote_the_answers(answered):
    """Answers that are scored later, elsewhere, need their provenance as much as scores do."""
    block = answered()
    assert block["tasks"] == {}
    assert block["validity"]["reasons"] == ["nothing was scored, since --predict_only was given: umu_real_cls"]
    assert block["provenance"]["max_new_tokens"] == {"umu_real_cls": 50}
    assert len(block["provenance"]["data"]["umu"]["splits"]["real"]) == 64


def test_predict_only_on_other_peoples_tasks_writes_no_block(answered):
    assert answered(document={"question": "?"}) is None


@pytest.mark.parametrize(("problems", "status"), [([], []), (["the disk is full"], ["nothing was scored", "disk"])])
def test_predict_only_is_no_failure_of_its_own(monkeypatch, answered, problems, status):
    """Scripts go on after it; what else went wrong still ends with status 1."""
    reasons: list[str] = []
    monkeypatch.setattr(hooks, "fail_at_exit", reasons.append)
    hooks.RUN.problems.extend(problems)
    hooks._judge(answered(), SimpleNamespace(output_path=None))
    assert len(reasons) == bool(status)
    assert all(part in reasons[0] for part in status)


def test_each_evaluation_starts_anew():
    """`--config` with two runs: the second file must not hold the first one's tasks."""
    run = Run()
    run.summaries["umu_real_cls"] = {"questions": 1, "counts": {"empty": 1, "failed": 0}}
    run.start("m", "")
    assert run.block({}) is None


def test_block_is_json():
    """An interval over one person is no number, and NaN is no JSON."""
    assert json.loads(json.dumps(plain({"a": (1.0, math.nan), 2: {"b": "x"}}), allow_nan=False)) == {
        "a": [1.0, None],
        "2": {"b": "x"},
    }
