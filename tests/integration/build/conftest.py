"""The worked example, written once; each test builds from it, or from a damaged copy."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from umu_tasks.build.sample import write_sample
from umu_tasks.cli import main


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch) -> None:
    """Nothing is read from or left in the user's cache, and no variable of theirs chooses the data."""
    monkeypatch.setenv("UMU_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.delenv("UMU_DATA", raising=False)


@pytest.fixture(scope="session")
def written(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("example") / "people"
    write_sample(folder)
    return folder


@pytest.fixture
def example(written, tmp_path) -> Path:
    """A copy of the example that a test may change: people.csv, photos, real.csv, leaving.txt, templates.yaml."""
    return Path(shutil.copytree(written, tmp_path / "example"))


@pytest.fixture
def build(example) -> Callable[..., int]:
    """Return a function that runs `umu data build` on the example; options are added, `forget=None` leaves one out."""

    def run(*more: str, **changed: object) -> int:
        options = {
            "images": example / "photos",
            "forget": example / "leaving.txt",
            "real": example / "real.csv",
            "templates": example / "templates.yaml",
            "out": example / "data",
        } | changed
        table = options.pop("table", example / "people.csv")
        named = [part for name, value in options.items() if value is not None for part in (f"--{name}", str(value))]
        return main(["data", "build", str(table), *named, *more])

    return run
