"""Tiny random checkpoints of many model families, each built and saved once a session."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for `builders`


@pytest.fixture(scope="session")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a family's checkpoint folder, under a name that says nothing about it."""
    from builders import FAMILIES

    made: dict[str, Path] = {}

    def folder(name: str) -> Path:
        if name not in made:
            model, processor = FAMILIES[name].build()
            made[name] = tmp_path_factory.mktemp("checkpoints") / f"run_{len(made)}"
            model.save_pretrained(made[name])
            processor.save_pretrained(made[name])
        return made[name]

    return folder
