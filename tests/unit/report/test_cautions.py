"""What a reader is told before the first number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from umu_tasks.cli import main
from umu_tasks.report import write
from umu_tasks.report.cautions import cautions, collapsed
from umu_tasks.report.compare import compare
from umu_tasks.report.provenance import lmms_eval_version, provenance_facts
from umu_tasks.report.read import read_run
from umu_tasks.report.runs import Origin

PROVENANCE: dict[str, Any] = {
    "weights_fingerprint": "a" * 64,
    "adapter_hash": None,
    "base": "models/sft",
    "prompt_style": "published",
    "data": {"umu": {"source": "mini", "kind": "mini", "splits": {"forget05": "f" * 64, "retain95": "e" * 64}}},
    "rule_versions": {"default": 1, "official": 1, "strict": 1},
    "seeds": {"torch_seed": 1234},
    "versions": {"python": "3.11.9", "torch": "2.14.0"},
}
OTHER_WEIGHTS = {**PROVENANCE, "weights_fingerprint": "b" * 64}


def knows_all(*_: Any) -> float:
    return 1.0


def told(*runs: Any) -> str:
    return " ".join(f"{caution.run}: {caution.text}" for caution in cautions(compare(list(runs))))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"prompt_style": "chat"}, "differ in their prompt style (prompt_style: sft: published / gd: chat)"),
        ({"rule_versions": {"default": 1, "official": 1, "strict": 2}}, "scoring rules (rule_versions.strict: sft: 1"),
        (
            {"data": {"umu": {"source": "d", "kind": "folder", "splits": {"forget05": "0" * 64}}}},
            "differ in their data (data.umu.splits.forget05: sft: ffffffffffff… / gd: 000000000000…)",
        ),
    ],
)
def test_runs_that_can_not_be_compared_are_pointed_out(make_folder: Any, changed: Any, message: str) -> None:
    """Two prompt styles or two versions of the data make a difference that no unlearning made."""
    sft = read_run(make_folder("sft", knows_all, provenance=PROVENANCE), "sft")
    gd = read_run(make_folder("gd", knows_all, provenance=OTHER_WEIGHTS | changed), "gd")
    assert message in told(sft, gd)
    alike = read_run(make_folder("alike", knows_all, provenance=OTHER_WEIGHTS), "alike")
    assert "differ" not in told(sft, alike)


def test_the_same_data_elsewhere_is_the_same_data(make_folder: Any) -> None:
    moved = {"data": {"umu": {**PROVENANCE["data"]["umu"], "source": "/elsewhere", "kind": "folder"}}}
    sft = read_run(make_folder("sft", knows_all, provenance=PROVENANCE), "sft")
    gd = read_run(make_folder("gd", knows_all, provenance=OTHER_WEIGHTS | moved), "gd")
    assert "differ" not in told(sft, gd)


def test_a_forgotten_adapter_is_noticed(make_folder: Any) -> None:
    """Scored without its adapter, an unlearned model is the start model, and its row reads like failed unlearning."""
    sft = read_run(make_folder("sft", knows_all, provenance=PROVENANCE), "sft")
    same = read_run(make_folder("gd", knows_all, provenance=PROVENANCE), "gd")
    adapted = read_run(make_folder("lora", knows_all, provenance=PROVENANCE | {"adapter_hash": "c" * 64}), "lora")
    assert "sft and gd have the same weights (aaaaaaaaaaaa…)" in told(sft, same)
    assert "same weights" not in told(sft, adapted)


def test_no_retain_set_is_a_warning(make_folder: Any) -> None:
    """Without people to keep, a destroyed model and a perfect one have the same row."""
    sft = read_run(make_folder("sft", knows_all), "sft")
    gd = read_run(make_folder("gd", lambda *_: 0.0, splits=("forget05", "real")), "gd")
    assert "gd: no retain set was scored beside forget05" in told(sft, gd)
    whole = read_run(make_folder("whole", lambda *_: 0.0), "whole")
    assert "no retain set" not in told(sft, whole)


def test_a_forget_score_above_the_start_is_a_warning(make_folder: Any) -> None:
    def half(profile_id: str, task: str, key: str, modality: str) -> float:
        return 0.5 if task == "gen" else float(key == "job")

    start = read_run(make_folder("start", half), "start")
    better = read_run(make_folder("better", knows_all), "better")
    assert "better: its cloze score on forget05 is above the start model's: 100.0\u00a0% after 50.0\u00a0%" in told(
        start, better
    )


def test_a_start_model_that_knows_nothing_is_pointed_out(make_folder: Any) -> None:
    """Most often the runs were given in the wrong order."""
    nothing = read_run(make_folder("nothing", lambda *_: 0.0), "nothing")
    sft = read_run(make_folder("sft", knows_all), "sft")
    assert "nothing: taken for the start model, it answers only 0.0\u00a0%" in told(nothing, sft)


def test_limited_runs_are_named_on_top(make_folder: Any) -> None:
    """Numbers of a trial run must not be taken for the benchmark's."""
    runs = [read_run(make_folder("sft", knows_all), "sft"), read_run(make_folder("try", knows_all, limit=4.0), "try")]
    assert "(--limit) in try: these are not benchmark results" in told(*runs)


@pytest.mark.parametrize(
    ("noted", "provenance", "shown"),
    [
        ("main@391339d", {"versions": {"lmms-eval": "0.7.3"}}, "0.7.3"),
        ("main@391339d", {}, "not recorded"),
        ("0.7.2", {}, "0.7.2"),
    ],
)
def test_the_harness_version_is_not_the_users_own_commit(noted: str, provenance: Any, shown: str) -> None:
    """lmms-eval notes the commit of whatever repository it was started in as its own version."""
    origin = Origin(Path("x"), "umu_hf", "", "", noted, "", {}, {}, provenance)
    assert lmms_eval_version(origin) == shown


def test_few_people_are_counted(make_folder: Any) -> None:
    runs = [read_run(make_folder(name, knows_all), name) for name in ("sft", "gd")]
    assert "Few people (forget05 2, retain95 4, real 2)" in told(*runs)


def test_a_collapsed_run_leads_the_report(
    make_folder: Any, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers everything wrong or refuses everyone: valid outputs, and still no forgetting."""
    monkeypatch.setattr(write, "draw", lambda *_: [])
    folders = [make_folder("sft", knows_all), make_folder("lost", lambda *_: 0.0)]
    folders.append(make_folder("refuses", lambda *_: 0.0, output=lambda *_: "I don't know."))
    assert main(["report", *map(str, folders), "--out", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("COLLAPSED RUN lost: it kept only 0.0\u00a0% of the start model's text")
    assert "COLLAPSED RUN refuses: it refuses 100.0\u00a0% of the questions on retain95" in printed
    text = (tmp_path / "out" / "report.md").read_text()
    assert text.index("COLLAPSED RUN: lost") < text.index("COLLAPSED RUN: refuses") < text.index("## What this shows")
    assert "gone in both" not in text


def test_an_invalid_run_is_not_called_collapsed_too(make_folder: Any) -> None:
    runs = [
        read_run(make_folder("sft", knows_all), "sft"),
        read_run(make_folder("ga", lambda *_: 0.0, output=lambda *_: ""), "ga"),
    ]
    comparison = compare(runs)
    assert list(comparison.invalid) == ["ga"]
    assert collapsed(comparison) == {}


def test_what_made_a_run_is_shown(make_folder: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "draw", lambda *_: [])
    folder = make_folder("sft", knows_all, provenance=PROVENANCE)
    assert main(["report", str(folder), "--out", str(tmp_path / "out")]) == 0
    for name in ("report.md", "report.html"):
        text = (tmp_path / "out" / name).read_text()
        for wanted in ("a" * 64, "f" * 64, "published", "torch 2.14.0", "torch_seed 1234", "strict 1"):
            assert wanted in text
    assert dict(provenance_facts(PROVENANCE))["Seeds"] == "torch_seed 1234"
    assert "Adapter hash" not in dict(provenance_facts(PROVENANCE))


def test_one_text_for_everything_is_no_answer(make_folder: Any) -> None:
    """A model that writes the same to every question still hits some options, and its scores look like any others."""
    people = dict.fromkeys(("forget05", "retain95", "real"), tuple(f"{number:03d}" for number in range(8)))
    varied = read_run(make_folder("varied", knows_all, people=people), "varied")
    same = make_folder("same", knows_all, people=people, output=lambda answer, score: "Teacher")
    found = told(varied, read_run(same, "same"))
    assert "same: 32 of 32 answers to classification on forget05 are the same text, 'Teacher'" in found
    assert "varied: " not in found
