"""UMU-mini's people and files, made once for all tests here."""

from __future__ import annotations

from pathlib import Path

import pytest

from umu_tasks.mini.build import build_mini
from umu_tasks.mini.people import Person, invent_people


@pytest.fixture(scope="session")
def invented() -> list[Person]:
    return invent_people(60, group="invented", seed=0)


@pytest.fixture(scope="session")
def real() -> list[Person]:
    return invent_people(20, group="real", seed=0)


@pytest.fixture(scope="session")
def pretraining() -> list[Person]:
    return invent_people(1500, group="pretraining", seed=0)


@pytest.fixture(scope="session")
def mini_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mini")
    build_mini(folder)
    return folder
