"""Kills, restarts and several processes on one storage: every trial runs once, none is lost, the total is exact."""

from __future__ import annotations

import csv
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

NAMES = [f"{method}-{slot:03d}" for method in ("gd", "npo") for slot in range(3)]


def report(tmp_path: Path) -> dict[str, Any]:
    return json.loads((tmp_path / "out" / "sweep.json").read_text())


def trials(tmp_path: Path) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in report(tmp_path)["trials"]}


def times_trained(tmp_path: Path) -> dict[str, int]:
    folders = (tmp_path / "out" / "trials").glob("*-*")
    return {one.name: len((one / "times_trained").read_text()) for one in folders if (one / "times_trained").exists()}


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_sweep_ends_in_a_report(config, sweep, tmp_path, monkeypatch) -> None:
    """One command gives tables, a plot, data and a config a method that can be run."""
    monkeypatch.setenv("STAND_IN_DRAWS", "1")
    said = sweep(config(), "--jobs", "2")
    assert "[7/7]" in said
    out = tmp_path / "out"
    found = trials(tmp_path)
    assert list(found) == ["start", *NAMES]
    best = min((one for one in found.values() if one["method"] == "gd"), key=lambda one: one["scores"]["forget"])
    assert report(tmp_path)["recommended"]["gd"]["trial"] == best["name"]
    rate = best["values"]["learning_rate"]
    assert best["scores"] == pytest.approx({"forget": 1 - rate, "utility": 1 - rate / 10, "gap": rate / 4})
    text = (out / "recommended-gd.yaml").read_text()
    assert f"learning_rate: {rate}" in text
    assert "max_steps: 10" in text
    rows = list(csv.DictReader((out / "sweep.csv").open()))
    assert [row["trial"] for row in rows] == ["start", *NAMES]
    assert sum(row["recommended"] == "True" for row in rows) == 2
    assert "data:image/png;base64," in (out / "sweep.html").read_text()
    assert (out / "tradeoff.png").stat().st_size > 1000
    assert (out / "tradeoff.svg").read_text().startswith("<?xml")
    for name in ("sweep.md", "sweep.json"):
        (out / name).unlink()
    again = sweep(config(), "--report_only")
    assert "[1/7]" not in again
    assert "least 95% of the start model's utility (95.0 %)" in (out / "sweep.md").read_text()
    assert times_trained(tmp_path) == dict.fromkeys(NAMES, 1)


def test_kill_9_loses_and_repeats_nothing(config, start, sweep, tmp_path) -> None:
    """Killed in the middle of a trial, the same command runs that trial again with the same values, and no other."""
    first = start(config(), seconds=0.3)
    out = tmp_path / "out"
    wait_for(lambda: len(times_trained(tmp_path)) == 3)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    before = {one: (out / "trials" / one / "config.yaml").read_text() for one in times_trained(tmp_path)}
    killed = [one for one in before if not any((out / "trials" / one / "results").rglob("*_results.json"))]
    assert len(killed) == 1
    said = sweep(config())
    assert f"{killed[0]}: its process died; it is run again" in said
    assert times_trained(tmp_path) == dict.fromkeys(NAMES, 1) | {killed[0]: 2}
    assert {one: (out / "trials" / one / "config.yaml").read_text() for one in before} == before
    found = trials(tmp_path)
    assert list(found) == ["start", *NAMES]
    assert {one["state"] for one in found.values()} == {"complete"}


def test_a_killed_start_is_scored_first(config, start, sweep, tmp_path, monkeypatch) -> None:
    """Where the start model cannot be scored a sweep ends at once, not after a night of trials."""
    monkeypatch.setenv("STAND_IN_SCORING_SECONDS", "60")
    first = start(config())
    wait_for((tmp_path / "out" / "trials" / "start" / "score.log").is_file)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    monkeypatch.delenv("STAND_IN_SCORING_SECONDS")
    said = [line for line in sweep(config()).splitlines() if line.startswith("[")]
    assert said[0].startswith("[1/7] start:")


@pytest.mark.slow
def test_a_program_left_behind_is_waited_for(config, start, sweep, tmp_path) -> None:
    """Only the sweep's own process dies: its trainer still writes into the folder and must not be disturbed."""
    first = start(config(budget={"trials": 1, "steps": 1}, methods=["gd"]), seconds=2)
    wait_for(lambda: bool(times_trained(tmp_path)))
    first.kill()
    first.wait()
    sweep(config(budget={"trials": 1, "steps": 1}, methods=["gd"]))
    # Its training ended well, so only the scoring was left to do.
    assert times_trained(tmp_path) == {"gd-000": 1}
    assert trials(tmp_path)["gd-000"]["state"] == "complete"


@pytest.mark.slow
def test_ctrl_c_keeps_everything_and_says_how_to_go_on(config, start, sweep, tmp_path) -> None:
    process = start(config(), seconds=0.5)
    wait_for(lambda: len(times_trained(tmp_path)) == 2)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=30)
    assert process.returncode == 130, said
    assert "2 of 7 trials are finished and kept" in said
    assert "its process died" not in sweep(config())
    assert sorted(times_trained(tmp_path).values()) == [1, 1, 1, 1, 1, 2]


@pytest.mark.slow
def test_a_second_ctrl_c_leaves_no_trainer_behind(config, start, sweep, tmp_path) -> None:
    """Who presses Ctrl-C twice must not find a GPU busy with a trainer that nobody waits for."""
    process = start(config(), "--jobs", "2", seconds=20)
    wait_for(lambda: len(times_trained(tmp_path)) == 2)
    process.send_signal(signal.SIGINT)
    for _ in range(5):
        time.sleep(0.05)
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=30)
    assert process.returncode in (130, -signal.SIGINT), said  # a shell shows both as 130
    assert "1 of 7 trials are finished and kept" in said
    said = sweep(config(), "--jobs", "2")
    assert "its process died" not in said
    assert "left behind" not in said


def test_sqlite_gives_a_trial_to_one_process(config, tmp_path, monkeypatch) -> None:
    """SQLite locks no rows: without a lock of ours two processes that look at once both take the trial."""
    from optuna.storages import RDBStorage

    from umu_trainers.sweep.config import read_config
    from umu_trainers.sweep.locks import try_lock
    from umu_trainers.sweep.studies import open_studies

    study = open_studies(read_config(config(storage=f"sqlite:///{tmp_path}/s.db")))[1]
    locked: list[bool] = []
    take = RDBStorage.set_trial_state_values

    def look(self, *arguments: Any, **named: Any) -> bool:
        stream = try_lock(tmp_path, ".s.db.lock")
        locked.append(stream is None)
        if stream is not None:
            stream.close()
        return take(self, *arguments, **named)

    monkeypatch.setattr(RDBStorage, "set_trial_state_values", look)
    assert study.claim() is not None
    assert locked == [True]


@pytest.mark.parametrize("storage", ["journal", pytest.param("sqlite", marks=pytest.mark.slow)])
def test_processes_on_one_storage_share_the_trials(config, start, tmp_path, storage) -> None:
    """Three machines on one sweep: each trial runs on one of them, and not one more runs than was asked for."""
    changes = {} if storage == "journal" else {"storage": f"sqlite:///{tmp_path}/s.db"}
    file = config(**changes)
    together = [start(file, "--jobs", "2", seconds=0.1) for _ in range(3)]
    said = [process.communicate(timeout=120)[0] for process in together]
    assert [process.returncode for process in together] == [0, 0, 0], said
    assert times_trained(tmp_path) == dict.fromkeys(NAMES, 1)
    lines = [line for one in said for line in one.splitlines() if line.startswith("[")]
    assert len(lines) == 7
    assert list(trials(tmp_path)) == ["start", *NAMES]


@pytest.mark.slow
def test_a_grid_is_complete_after_a_kill(config, start, sweep, tmp_path) -> None:
    grid = {"sampler": "grid", "budget": {"steps": 1}, "space": {"learning_rate": [0.1, 0.2], "alpha": [1, 2]}}
    first = start(config(**grid), "--jobs", "2", seconds=0.2)
    wait_for(lambda: len(times_trained(tmp_path)) == 3)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    sweep(config(**grid), "--jobs", "2")
    for method in ("gd", "npo"):
        points = [one["values"] for one in trials(tmp_path).values() if one["method"] == method]
        assert [(one["learning_rate"], one["alpha"]) for one in points] == [(0.1, 1), (0.1, 2), (0.2, 1), (0.2, 2)]


def test_what_is_no_forgetting_never_counts_as_it(config, sweep, tmp_path) -> None:
    """Empty outputs, diverged training and pruned trials have no scores; a broken program is tried again."""
    rates = [0.2, 0.65, 0.7, 0.8, 0.95]
    changes = {
        "methods": ["gd"],
        "sampler": "grid",
        "budget": {"steps": 10},
        "space": {"learning_rate": rates},
        "pruning": {"every": 5, "floor": 0.5, "after": 5},
    }
    # 0.95 is scored and found invalid; the rule would prune it first, so its sample is let pass.
    said = sweep(config(**changes), status=1)
    ended = {one["values"].get("learning_rate"): one["state"] for one in trials(tmp_path).values()}
    assert ended[0.2] == "complete"
    assert ended[0.65] == "pruned"
    assert ended[0.7] == "stopped"
    assert 0.8 not in ended
    assert "broken: training failed with status 1: CUDA out of memory" in said
    assert ended[0.95] in ("invalid", "pruned")
    assert [one["name"] for one in trials(tmp_path).values() if one["on_front"]] == ["gd-000"]
    assert all(not one["scores"] for one in trials(tmp_path).values() if one["state"] != "complete")
    assert "1 trials are not finished" in said
    sweep(config(**changes), status=1)
    assert times_trained(tmp_path) == {"gd-000": 1, "gd-001": 1, "gd-002": 1, "gd-003": 2, "gd-004": 1}


@pytest.mark.slow
def test_an_invalid_model_is_recorded_with_its_reason(config, sweep, tmp_path) -> None:
    sweep(config(methods=["gd"], sampler="grid", budget={"steps": 1}, space={"learning_rate": [0.3, 0.95]}))
    found = trials(tmp_path)["gd-001"]
    assert (found["state"], found["reason"], found["scores"]) == ("invalid", "umu_forget05_cls: 24 empty", {})
    assert report(tmp_path)["recommended"]["gd"]["trial"] == "gd-000"


@pytest.mark.slow
def test_a_changed_sweep_is_not_mixed_with_the_old_one(config, sweep) -> None:
    """Trials of another search space under one name would make one table of two experiments."""
    sweep(config(budget={"trials": 1, "steps": 10}))
    said = sweep(config(space={"learning_rate": {"low": 0.1, "high": 0.4}}), status=2)
    assert "was begun with another space" in said
    said = sweep(config(budget={"trials": 2, "steps": 10}))  # more trials of the same are welcome
    assert "[5/5]" in said


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["tpe", "nsga2"])
def test_searching_samplers_run(config, sweep, tmp_path, sampler) -> None:
    sweep(config(sampler=sampler, methods=["gd"], budget={"trials": 8, "steps": 10}), "--jobs", "2")
    rates = [one["values"]["learning_rate"] for one in trials(tmp_path).values() if one["method"] == "gd"]
    assert len(set(rates)) == 8


def test_a_dry_run_says_what_the_run_would(config, sweep, tmp_path) -> None:
    """It must not say yes to a config that the run then refuses, nor count finished trials as to come."""
    assert "nothing is finished yet" in sweep(config(), "--dry_run")
    assert not (tmp_path / "out" / "journal.log").exists()
    sweep(config(budget={"trials": 1, "steps": 10}))
    assert "3 of these trials are finished already" in sweep(config(), "--dry_run")
    changed = config(space={"learning_rate": {"low": 0.1, "high": 0.4}})
    assert "was begun with another space" in sweep(changed, "--dry_run", status=2)
    # Nor may a recommended config hold settings that no trial had.
    assert "was begun with another space" in sweep(changed, "--report_only", status=2)


def test_two_sweeps_do_not_share_a_folder(config, sweep, tmp_path) -> None:
    """Their trials have the same names: the second one would delete the models of the first."""
    sweep(config(budget={"trials": 1, "steps": 10}, storage=f"{tmp_path}/j.log"))
    said = sweep(config(name="other", budget={"trials": 1, "steps": 9}, storage=f"{tmp_path}/j.log"), status=2)
    assert "holds the trials of sweep s. Name another folder" in said
    sweep(config(budget={"trials": 1, "steps": 10}, storage=f"{tmp_path}/j.log"))


def test_a_damaged_journal_is_named(config, sweep, tmp_path) -> None:
    sweep(config(budget={"trials": 1, "steps": 10}))
    (tmp_path / "out" / "journal.log").write_text("hello\n")
    assert "journal.log, line 1: no record of a sweep" in sweep(config(), status=2)


def test_a_sweep_that_was_never_run_has_no_report(config, sweep) -> None:
    said = sweep(config(), "--report_only", status=2)
    assert "nothing to report" in said


def test_a_start_model_that_is_not_there_is_told_at_once(config, sweep, tmp_path) -> None:
    """Not after the minutes that the evaluator takes to say so; a dry run may come before it is trained."""
    file = config(fixed={"model": str(tmp_path / "target")})
    assert f"The start model {tmp_path / 'target'} is not there" in sweep(file, "--dry_run")
    assert f"The start model {tmp_path / 'target'} is not there" in sweep(file, status=2)
    assert "[1/" not in sweep(file, status=2)


@pytest.mark.parametrize(
    ("model", "is_missing"),
    [
        ("mini", False),
        ("owner/name", False),
        ("./x", True),
        ("runs/mini/sft", True),
        ("here/sft", True),
        ("here", False),
    ],
)
def test_what_looks_like_a_folder(config, tmp_path, monkeypatch, model, is_missing) -> None:
    from umu_trainers.sweep.check import missing_start
    from umu_trainers.sweep.config import read_config

    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    assert bool(missing_start(read_config(config(fixed={"model": model})))) is is_missing
