"""Rows without files behind them: plans and encoders see a row's names and texts only."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PIL import Image

from umu_tasks.benchmarks.instances import Profile, TrainingPair
from umu_trainers.data import Row

MakeRows = Callable[..., list[Row]]


@pytest.fixture
def make_rows() -> MakeRows:
    """Build `count` rows of one half and split, two to a person."""

    def build(count: int, half: str = "uni", split: str = "forget05", answer: str = "Paris") -> list[Row]:
        modality = "multimodal" if half == "mul" else "unimodal"
        rows = []
        for number in range(count):
            profile_id = f"{number // 2:03d}"
            pair = TrainingPair(profile_id, f"{number % 2}", modality, f"Question {number}?", answer)
            profile = Profile(profile_id, "", lambda: Image.new("RGB", (8, 8)), (pair,), ())
            rows.append(Row(split, profile, pair))
        return rows

    return build
