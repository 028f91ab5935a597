"""A hub on this machine, the fixture as a repository on it, and programs that use it.

Each question is asked in a fresh process: the hub's libraries read their settings when they are imported.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from server import Hub, Repository

FIXTURE = Path(__file__).parents[2] / "fixtures" / "umu_small"
HUB_ID = "linbojunzi/UMU-bench"
CONFIGS = {"forget_5": "forget_5", "retain_95": "retain_95", "Real_Person_Set": "real_person", "Full_Set": "full_data"}
CLIENT = """
import json, logging, sys
from umu_tasks.benchmarks.errors import DataError
from umu_tasks.benchmarks.sources import open_source
logging.basicConfig(stream=sys.stderr)
answers = {}
try:
    source = open_source()
    answers["source"] = [source.kind, source.spec, list(source.splits())]
    for split in sys.argv[1:]:
        profiles = source.load(split)
        answers[split] = [profiles.split, list(profiles.ids), profiles.fingerprint, profiles[0].open_image().mode]
except DataError as error:
    answers["error"] = str(error)
print(json.dumps(answers))
"""


@pytest.fixture
def hub() -> Iterator[Hub]:
    with Hub() as server:
        yield server


@pytest.fixture
def repository(hub: Hub, tmp_path: Path) -> Repository:
    """The fixture on the hub, with a card that, like the published one, declares other row counts."""
    folder = tmp_path / "repository"
    shutil.copytree(FIXTURE / "data", folder)
    configs = "".join(
        f"- config_name: {config}\n  data_files:\n  - split: train\n    path: {place}/train-*\n"
        for config, place in CONFIGS.items()
    )
    infos = "".join(
        f"- config_name: {config}\n  splits:\n  - name: train\n    num_bytes: 9\n    num_examples: 25\n"
        for config in CONFIGS
    )
    (folder / "README.md").write_text(f"---\nconfigs:\n{configs}dataset_info:\n{infos}---\n# UMU\n")
    return hub.add("datasets", HUB_ID, folder)


@dataclass(frozen=True)
class Done:
    """A finished program."""

    status: int
    output: str
    log: str


@pytest.fixture
def run(hub: Hub, tmp_path: Path) -> Callable[..., Done]:
    """Return a function that runs a program with the local hub and a cache that lasts for the test."""

    def start(*command: str, **variables: str) -> Done:
        skipped = ("HF_", "UMU_", "TRANSFORMERS_OFFLINE")
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(skipped)}
        own = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "hf"), "UMU_CACHE": str(tmp_path / "umu")}
        environment = {**inherited, "NO_PROXY": "127.0.0.1,localhost", **own, **variables}
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=300, check=False, cwd=tmp_path
        )
        return Done(done.returncode, done.stdout, done.stderr)

    return start


@pytest.fixture
def load(run: Callable[..., Done]) -> Callable[..., tuple[dict[str, Any], str]]:
    """Return a function that loads splits of the default source: what it found or its error, and its log."""

    def ask(*splits: str, **variables: str) -> tuple[dict[str, Any], str]:
        done = run(sys.executable, "-c", CLIENT, *splits, **variables)
        assert done.status == 0, done.log
        return json.loads(done.output), done.log

    return ask
