"""lmms-eval's command on MLLMU-Bench in UMU-mini, with a scripted model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Run:
    """A finished run of the command."""

    status: int
    log: str
    output: Path

    def results(self) -> dict[str, Any]:
        (file,) = self.output.rglob("*_results.json")
        return json.loads(file.read_text(encoding="utf-8"))

    def samples_file(self, task: str) -> Path:
        (file,) = self.output.rglob(f"*_samples_{task}.jsonl")
        return file

    def samples(self, task: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.samples_file(task).read_text(encoding="utf-8").splitlines()]


class Started:
    """A run of the command that is under way."""

    def __init__(self, folder: Path, process: subprocess.Popen[str]) -> None:
        self.folder = folder
        self.process = process

    def finish(self) -> Run:
        log, _ = self.process.communicate()
        return Run(self.process.returncode, log, self.folder / "out")


def start_lmms_eval(folder: Path, *argv: str, data: str = "mini", **env: str) -> Started:
    """Start `lmms-eval ARGV` as a user does; results go to `folder`/out."""
    path = os.pathsep.join([str(HERE / "plugins"), *filter(None, [os.environ.get("PYTHONPATH")])])
    own = {"MLLMU_DATA": data, "HF_HUB_OFFLINE": "1", "PYTHONPATH": path, **env}
    command = [str(Path(sys.executable).parent / "lmms-eval"), *argv, "--output_path", str(folder / "out")]
    process = subprocess.Popen(
        [*command, "--log_samples"],
        env={**os.environ, **own},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return Started(folder, process)


@pytest.fixture(scope="session")
def lmms_eval() -> Any:
    return start_lmms_eval
