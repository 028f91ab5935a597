"""`docs/add-an-objective.md` does what it says: its files make a method that trains and passes the project's tests."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from doc_blocks import ROOT, files_of

FILES = files_of(ROOT / "docs" / "add-an-objective.md")
OBJECTIVE = "umu_trainers/objectives/me.py"


@pytest.fixture
def method(tmp_path, monkeypatch):
    """The page's method, in the package of objectives as if its file lay there."""
    from umu_trainers import objectives

    (tmp_path / "objectives").mkdir()
    (tmp_path / "objectives" / "me.py").write_text(FILES[OBJECTIVE], encoding="utf-8")
    monkeypatch.setattr(objectives, "__path__", [*objectives.__path__, str(tmp_path / "objectives")])
    yield objectives.find("me")
    sys.modules.pop("umu_trainers.objectives.me", None)


def test_it_is_thirty_lines_at_most():
    assert len(FILES[OBJECTIVE].splitlines()) <= 30


def test_real_steps_lower_the_loss(method, tmp_path):
    """The page's file and config, on UMU-mini's model and five people, through the training script."""
    from umu_trainers import unlearn

    config = tmp_path / "me.yaml"
    config.write_text(FILES["configs/unlearn/mini/me.yaml"], encoding="utf-8")
    changes = {
        "model": "mini", "data": ROOT / "tests" / "fixtures" / "umu_small" / "data", "output_dir": tmp_path / "run",
        "max_steps": 3, "per_device_train_batch_size": 24, "learning_rate": "1e-3", "gamma": 0, "logging_steps": 1,
        "report_to": "none", "disable_tqdm": "true",
    }  # fmt: skip
    unlearn.main(
        ["--config", str(config), *(text for name, one in changes.items() for text in (f"--{name}", str(one)))]
    )
    record = json.loads((tmp_path / "run" / "training_record.json").read_text(encoding="utf-8"))
    losses = [one["loss"] for one in record["result"]["log"] if "loss" in one]
    assert len(losses) == 3
    assert losses[0] > losses[-1] > 0
    assert method.passes == ("forget", "retain")


@pytest.mark.slow
def test_it_passes_the_projects_own_tests(tmp_path):
    """In a copy of the project with the page's files and a row in the table, as a contributor has it."""
    copy = tmp_path / "copy"
    for folder in ("umu_trainers", "configs", "docs", "tests/unit/objectives", "tests/contract/objectives"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    for name, text in FILES.items():
        (copy / name).write_text(text, encoding="utf-8")
    with (copy / "docs" / "objectives.md").open("a", encoding="utf-8") as table:
        table.write("| [me](../configs/unlearn/me.yaml) | … | 1 | … |\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-k",
        "me or test_me",
        "tests/unit",
        "tests/contract",
    ]
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (Path(copy) / "tests/unit/objectives/test_me.py").is_file()
