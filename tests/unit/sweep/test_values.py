"""From a results file to the three objectives, by numbers worked by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest

from umu_trainers.sweep.objectives import Objective, read_objectives
from umu_trainers.sweep.problems import ConfigFile
from umu_trainers.sweep.values import Invalid, Unreadable, values_of


def leaf(split: str, task: str, **metrics: float) -> dict[str, Any]:
    named = {name: {"value": value, "low": 0.0, "high": 1.0} for name, value in metrics.items()}
    return {f"umu_{split}_{task}": {"split": split, "task": task, "metrics": named}}


@pytest.fixture
def document() -> dict[str, Any]:
    tasks = {
        **leaf("forget05", "cls", acc_f=0.4, acc_any=0.6, acc_f_strict=0.2, modality_gap=0.3),
        **leaf("forget05", "cloze", acc_f=0.2, acc_any=0.3, acc_f_strict=0.0, modality_gap=-0.1),
        **leaf("forget05", "gen", rl_f=0.9, modality_gap=0.5),
        **leaf("retain95", "cls", acc_r=0.9),
        **leaf("retain95", "cloze", acc_r=0.7),
        **leaf("real", "cls", acc_r=0.6),
        **leaf("real", "cloze", acc_r=0.2),
    }
    return {"umu": {"tasks": tasks, "validity": {"valid": True, "reasons": []}}}


def objectives(**changes: Any) -> dict[str, Objective]:
    from pathlib import Path

    return read_objectives(ConfigFile(Path("s.yaml")), changes, ["umu05"])


def test_default_objectives(document) -> None:
    """forget (0.4 + 0.2) / 2; utility ((0.9 + 0.7) / 2 + (0.6 + 0.2) / 2) / 2; gap (|0.3| + |-0.1|) / 2."""
    found = values_of(document, objectives(), "f")
    assert found == pytest.approx({"forget": 0.3, "utility": 0.6, "gap": 0.2})


def test_chosen_objectives(document) -> None:
    chosen = objectives(
        forget={"metric": "any", "tasks": ["cloze"]},
        utility={"splits": ["real"], "tasks": ["cls"]},
        gap={"tasks": ["cls", "cloze", "gen"]},
    )
    assert values_of(document, chosen, "f") == pytest.approx({"forget": 0.3, "utility": 0.6, "gap": 0.3})
    strict = objectives(forget={"rule": "strict"})
    assert values_of(document, strict, "f")["forget"] == pytest.approx(0.1)


def test_generation_counts_by_its_own_metric(document) -> None:
    chosen = objectives(forget={"tasks": ["cls", "cloze", "gen"]})
    assert values_of(document, chosen, "f")["forget"] == pytest.approx(0.5)


def test_an_invalid_run_has_no_values(document) -> None:
    """An empty model scores 0 on the forget set: that must never be taken for the best trial."""
    document["umu"]["validity"] = {"valid": False, "reasons": ["umu_forget05_cls: 24 empty and 0 failed"]}
    with pytest.raises(Invalid, match="24 empty"):
        values_of(document, objectives(), "f")
    document["umu"]["validity"] = {}
    with pytest.raises(Invalid):
        values_of(document, objectives(), "f")


@pytest.mark.parametrize("value", [None, math.nan])
def test_no_number_is_no_score(document, value) -> None:
    document["umu"]["tasks"]["umu_forget05_cls"]["metrics"]["acc_f"]["value"] = value
    with pytest.raises(Invalid, match="umu_forget05_cls: acc_f is no number"):
        values_of(document, objectives(), "f")


def test_a_missing_task_is_an_error(document) -> None:
    del document["umu"]["tasks"]["umu_real_cloze"]
    with pytest.raises(Unreadable, match="utility needs cls, cloze on a real split"):
        values_of(document, objectives(), "f")
    with pytest.raises(Unreadable, match="no `umu` block"):
        values_of({"results": {}}, objectives(), "f")
