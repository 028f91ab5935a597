"""`make` on a machine that is not quite as it should be."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `make install`; pip has nowhere to get anything from, so that it ends at once and installs nothing."""
    offline = {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": ""}
    environment = {name: one for name, one in os.environ.items() if name != "VIRTUAL_ENV"} | offline
    command = ["make", "install", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_an_environment_without_pip_gets_it(tmp_path):
    """Debian without python3-venv leaves such a one behind, and uv makes them: "No module named pip", for good."""
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    said = make(f"VENV={venv}", f"PYTHON={sys.executable}")
    assert "No module named pip" not in said.stderr
    assert (venv / "bin" / "pip3").is_file()


def test_a_python_that_is_not_there_is_named():
    said = make("PYTHON=python3.99", "VENV=/nowhere")
    assert said.returncode != 0
    assert "found no python3.99" in said.stdout
