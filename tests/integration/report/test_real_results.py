"""A report on result folders that lmms-eval's own command wrote, not on ones made by hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from umu_tasks.benchmarks.instances import TASKS
from umu_tasks.cli import main
from umu_tasks.report.compare import compare
from umu_tasks.report.details import disagreements
from umu_tasks.report.outputs import count_outputs
from umu_tasks.report.read import read_run
from umu_tasks.report.runs import RULE_NAMES, RunResult
from umu_tasks.scoring.metrics import METRICS, metric_names

ROOT = Path(__file__).parents[3]
FIXTURE = ROOT / "tests" / "fixtures" / "umu_small"
PLUGINS = ROOT / "tests" / "integration" / "harness" / "plugins"


def evaluation(outputs: Path, out: Path) -> dict[str, Any]:
    """One evaluation of the `scripted` model of the harness tests, which writes what a file of outputs says."""
    model = {"model": "scripted", "model_args": f"outputs={outputs}"}
    return {**model, "tasks": "umu05", "output_path": str(out), "log_samples": True}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The fixture's outputs; the same with every forget-set output empty; both made by one call of the command."""
    folder = tmp_path_factory.mktemp("real results")
    outputs = [json.loads(line) for line in (FIXTURE / "outputs.jsonl").read_text(encoding="utf-8").splitlines()]
    emptied = [{**one, "output": "" if one["split"] == "forget" else one["output"]} for one in outputs]
    (folder / "emptied.jsonl").write_text("\n".join(json.dumps(one) for one in emptied), encoding="utf-8")
    evaluations = [
        evaluation(FIXTURE / "outputs.jsonl", folder / "scripted"),
        evaluation(folder / "emptied.jsonl", folder / "emptied"),
    ]
    config = folder / "evaluations.yaml"
    config.write_text(json.dumps(evaluations), encoding="utf-8")  # JSON is YAML
    environment = {**os.environ, "UMU_DATA": str(FIXTURE / "data"), "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(PLUGINS)}
    command = [sys.executable, "-m", "lmms_eval", "--config", str(config)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr  # the emptied run is saved whole, and is no success
    return {name: folder / name for name in ("scripted", "emptied")}


@pytest.fixture(scope="module")
def scripted(folders: dict[str, Path]) -> RunResult:
    return read_run(folders["scripted"], "scripted")


@pytest.mark.parametrize(("split", "name"), [("forget05", "forget"), ("retain95", "retain"), ("real", "real_person")])
@pytest.mark.parametrize(("task", "published"), [("cls", "classify"), ("cloze", "cloze"), ("gen", "generation")])
def test_scores_are_the_known_ones(scripted: RunResult, split: str, name: str, task: Any, published: str) -> None:
    expected = json.loads((FIXTURE / "expected.json").read_text())["by_rule"]["default"][name][published]
    result = scripted.tasks[split, task]
    instances = expected.pop("n")
    assert {name: result.metrics[name] for name in expected} == pytest.approx(expected, abs=1e-9)
    assert result.instances == instances
    assert result.questions == 2 * instances


def test_answers_give_the_scores_they_stand_beside(scripted: RunResult) -> None:
    """Derived splits are computed from answers, so answers and scores of one folder must agree, under every rule."""
    for result in scripted.tasks.values():
        for rule in RULE_NAMES:
            pairs = list(result.pairs(rule).values())
            for name in metric_names(result.task, result.split):
                assert METRICS[name](pairs) == pytest.approx(result.metrics[result.name_under(name, rule)]), (
                    name,
                    rule,
                )


def test_rules_disagree_on_the_nasty_cases(scripted: RunResult) -> None:
    """The fixture was made so that the rules differ; a report that shows 0 has not read the counts."""
    counts = [disagreements(result) for result in scripted.tasks.values() if result.task != "gen"]
    assert all(one is not None for one in counts)
    assert sum(one["questions"] for one in counts if one) > 0


def test_intervals_and_fields_are_read(scripted: RunResult) -> None:
    for result in scripted.tasks.values():
        interval = result.interval(metric_names(result.task, result.split)[-1])
        assert interval is not None
        assert interval.low <= result.metrics[metric_names(result.task, result.split)[-1]] <= interval.high
        assert sum(numbers["n"] for numbers in result.summary["fields"].values()) == result.instances


def test_full_set_is_derived_from_the_parts(scripted: RunResult) -> None:
    (run,) = compare([scripted]).runs
    for task in TASKS:
        full, parts = run.tasks["full", task], [run.tasks[split, task] for split in ("forget05", "retain95")]
        assert full.derived_from == ("forget05", "retain95")
        assert full.instances == sum(part.instances or 0 for part in parts)


def test_what_made_the_run_is_known(scripted: RunResult) -> None:
    (origin,) = scripted.origins
    assert origin.model == "scripted"
    assert "outputs=" in origin.model_args
    assert len(origin.task_versions) == 9
    assert origin.date.count("-") == 2
    assert origin.limit == ""
    assert scripted.notices == ()
    assert set(origin.provenance["data"]["umu"]["splits"]) == {"forget05", "retain95", "real"}
    assert set(origin.provenance["rule_versions"]) >= set(RULE_NAMES)


def test_empty_outputs_of_a_real_run_make_it_invalid(folders: dict[str, Path], tmp_path: Path, capsys: Any) -> None:
    runs = [str(folders["scripted"]), str(folders["emptied"])]
    assert main(["report", *runs, "--out", str(tmp_path / "out")]) == 3
    emptied = read_run(folders["emptied"], "emptied")
    assert any("umu_forget05_cls" in reason for reason in emptied.invalid)
    counts = count_outputs([emptied.tasks["forget05", task] for task in TASKS])
    assert counts is not None
    assert counts.empty == counts.questions == 24
    assert "INVALID RUN emptied" in capsys.readouterr().out
    assert "Invalid run: emptied" in (tmp_path / "out" / "report.html").read_text()
