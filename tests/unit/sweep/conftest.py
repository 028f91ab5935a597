"""A sweep's config file on disk, small and right; each test changes what it is about."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from umu_trainers.sweep.config import SweepConfig, read_config

BASE = {"model": "mini", "data": "mini", "use_cpu": True, "per_device_train_batch_size": 4}


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write the config with some keys replaced (None takes one out); returns its path."""

    def build(**changes: Any) -> Path:
        (tmp_path / "base.yaml").write_text(yaml.safe_dump(BASE))
        content = {
            "base": "base.yaml",
            "methods": ["gd", "npo"],
            "budget": {"trials": 3, "steps": 10},
            "sampler": "random",
            "space": {"learning_rate": {"low": "1e-5", "high": 1e-3, "log": True}},
            "output_dir": str(tmp_path / "out"),
            **changes,
        }
        file = tmp_path / "sweep.yaml"
        file.write_text(
            yaml.safe_dump({name: one for name, one in content.items() if one is not None}, sort_keys=False)
        )
        return file

    return build


@pytest.fixture
def config(write: Callable[..., Path]) -> Callable[..., SweepConfig]:
    return lambda **changes: read_config(write(**changes))
