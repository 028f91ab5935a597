"""A sweep on UMU-mini with the real trainer and the real lmms-eval, killed once on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from umu_trainers.config import UnlearnArguments, parse

ROOT = Path(__file__).parents[3]
# Without generation, which takes longest and enters no objective.
LEAVES = [f"umu_{split}_{task}" for split in ("forget05", "retain95", "real") for task in ("cls", "cloze")]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_real_sweep_survives_kill_9(tmp_path: Path) -> None:
    """Two methods, one trial of two steps each, killed while the second trains: the first and the start model are not
    run again, the killed one is, and the recommended config is one that the trainer takes."""
    file, out = tmp_path / "sweep.yaml", tmp_path / "out"
    content = {
        "base": str(ROOT / "configs" / "unlearn" / "mini" / "{method}.yaml"),
        "fixed": {"model": "mini", "forget_ratio": 5, "per_device_train_batch_size": 4},
        "methods": ["gd", "npo"],
        "budget": {"trials": 1, "steps": 2},
        "space": {"learning_rate": {"low": 1e-5, "high": 2e-5}},
        "scoring": {"tasks": LEAVES, "batch_size": 64, "limit": 8},
        "pruning": {"every": 1, "sample": 4, "floor": 0.0},
        "output_dir": str(out),
    }
    file.write_text(yaml.safe_dump(content))
    command = [sys.executable, "-m", "umu_tasks.cli", "sweep", str(file)]
    log = tmp_path / "log"
    with log.open("w") as sink:
        first = subprocess.Popen(command, stdout=sink, stderr=subprocess.STDOUT, start_new_session=True)
    killed = out / "trials" / "npo-000"
    until = time.monotonic() + 600
    while not (killed / "train.log").is_file():
        assert first.poll() is None, log.read_text()
        assert time.monotonic() < until
        time.sleep(0.2)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    finished = {one: _results(out, one).stat().st_mtime_ns for one in ("start", "gd-000")}
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stdout + said.stderr
    assert "npo-000: its process died; it is run again" in said.stdout
    assert "checking every setting" not in said.stdout
    assert [line.split()[1] for line in said.stdout.splitlines() if line.startswith("[")] == ["npo-000"]
    assert {one: _results(out, one).stat().st_mtime_ns for one in finished} == finished
    report = json.loads((out / "sweep.json").read_text())
    assert [(one["name"], one["state"]) for one in report["trials"]] == [
        ("start", "complete"),
        ("gd-000", "complete"),
        ("npo-000", "complete"),
    ]
    for one in report["trials"][1:]:
        assert list(one["sample"]) == ["0", "1", "2"]
        assert 0 <= one["scores"]["forget"] <= 1
        low, high = one["intervals"]["utility"]
        assert low <= one["scores"]["utility"] <= high
    assert (out / "sweep.html").is_file()
    for method, found in report["recommended"].items():
        config = out / f"recommended-{method}.yaml"
        assert config.is_file() == (found["trial"] is not None)
        if config.is_file():
            args = parse(UnlearnArguments, "", ["--config", str(config)])
            assert (args.method, args.max_steps, args.model) == (method, 2, "mini")


def _results(out: Path, trial: str) -> Path:
    (file,) = (out / "trials" / trial / "results").rglob("*_results.json")
    return file
