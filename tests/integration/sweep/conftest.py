"""`umu sweep` as a process of its own, with programs in place of trainer and evaluator that take half a second.

The stand-in (`programs.py`) reads and writes the same files and prints the same lines as the real ones, so what is
tested is real: processes, kills, locks, storage. The real programs run in the slow test.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

HERE = Path(__file__).parent
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def config(tmp_path: Path) -> Callable[..., Path]:
    """Write a sweep's config; returns its path."""

    def build(**changes: Any) -> Path:
        base = {"model": "mini", "data": "mini", "use_cpu": True}
        (tmp_path / "base.yaml").write_text(yaml.safe_dump(base))
        content = {
            "name": "s",
            "base": "base.yaml",
            "methods": ["gd", "npo"],
            "budget": {"trials": 3, "steps": 10},
            "sampler": "random",
            "space": {"learning_rate": {"low": 0.1, "high": 0.5}},
            "output_dir": str(tmp_path / "out"),
            **changes,
        }
        file = tmp_path / "sweep.yaml"
        file.write_text(yaml.safe_dump(content, sort_keys=False))
        return file

    return build


@pytest.fixture
def start() -> Iterator[Start]:
    """Start `umu sweep` with the stand-ins in a process group of its own; what is left of it ends with the test."""
    begun: list[subprocess.Popen[str]] = []

    def run(config: Path, *flags: str, seconds: float = 0.0) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, str(HERE / "sweep_with_stand_ins.py"), "sweep", str(config), *flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            env={**os.environ, "STAND_IN_SECONDS": str(seconds), "STAND_IN_PYTHON": sys.executable},
        )
        begun.append(process)
        return process

    yield run
    for process in begun:
        if process.poll() is None:
            os.killpg(process.pid, 9)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@pytest.fixture
def sweep(start: Start) -> Callable[..., str]:
    """Run `umu sweep` to its end; returns what it said."""

    def run(config: Path, *flags: str, status: int = 0) -> str:
        process = start(config, *flags)
        said, _ = process.communicate(timeout=120)
        assert process.returncode == status, said
        return said

    return run
