"""The fixture in MLLMU-Bench's schema: six invented people, three real ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from umu_tasks.benchmarks.sources import Source, open_source

DATA = Path(__file__).parents[2] / "fixtures" / "mllmu_small" / "data"


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Source:
    monkeypatch.setenv("MLLMU_DATA", str(DATA))
    monkeypatch.delenv("MLLMU_SEED", raising=False)
    return open_source(benchmark="mllmu")
