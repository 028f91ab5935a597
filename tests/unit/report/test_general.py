"""General ability: other people's tasks beside ours, and what changed in them."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from umu_tasks.benchmarks.errors import DataError
from umu_tasks.cli import main
from umu_tasks.report import write
from umu_tasks.report.cautions import cautions
from umu_tasks.report.compare import Comparison, compare
from umu_tasks.report.general import change_interval, plain_number, signed, table, verdict
from umu_tasks.report.read import read_run, read_runs
from umu_tasks.report.runs import GeneralScore
from umu_tasks.report.story import tell

BETTER = {"mmmu_val": {"mmmu_acc": True}, "chair": {"chair_i": False}}


def knows_all(*_: Any) -> float:
    return 1.0


def text_forgotten(profile_id: str, task: str, key: str, modality: str) -> float:
    return 0.0 if profile_id in ("001", "002") and modality == "unimodal" else 1.0


def scores(accuracy: float, hallucinated: float = 20.0) -> dict[str, dict[str, Any]]:
    return {
        "mmmu_val": {"mmmu_acc,none": accuracy, "mmmu_acc_stderr,none": 0.03, "mmmu_acc_stderr_clt,none": 0.5},
        "chair": {"chair_i,none": hallucinated, "chair_i_stderr,none": "N/A"},
    }


@pytest.fixture
def comparison(make_folder: Any, make_others: Any, tmp_path: Path) -> Comparison:
    """A start model, and one that lost 0.2 of MMMU and hallucinates more; results in folders of their own."""
    arguments = []
    for name, right, own in (("start", knows_all, scores(0.5)), ("gd", text_forgotten, scores(0.3, 31.5))):
        others = make_others(
            tmp_path / "general" / name, own, better=BETTER, model_args=f"pretrained=checkpoints/{name},prompt=chat"
        )
        arguments += [f"{name}={make_folder(name, right)}", f"{name}={others}"]
    return compare(read_runs(arguments))


def told(comparison: Comparison) -> str:
    return " ".join(f"{caution.run}: {caution.text}" for caution in cautions(comparison))


def test_scores_of_other_tasks_stand_beside_ours(comparison: Comparison) -> None:
    """Neither lmms-eval's other standard errors nor ours are metrics of their own."""
    start, gd = comparison.runs
    assert set(gd.general) == {("chair", "chair_i"), ("mmmu_val", "mmmu_acc")}
    score = start.general["mmmu_val", "mmmu_acc"]
    assert (score.value, score.stderr, score.higher_is_better) == (0.5, 0.03, True)
    assert start.general["chair", "chair_i"].stderr is None
    assert start.splits == ("forget05", "retain95", "real", "full")
    assert not told(comparison).count("general ability")


def test_table_by_hand(comparison: Comparison) -> None:
    """The change -0.2 with sqrt(0.03² + 0.03²) = 0.0424: 1.96 of it make -0.283 to -0.117."""
    found = table(comparison)
    assert found is not None
    assert found.columns == ("Task", "Metric", "start", "gd", "gd − start")
    chair, mmmu = ([(cell.text, cell.note) for cell in row.cells] for row in found.rows)
    assert mmmu[:4] == [("mmmu_val", ""), ("mmmu_acc ↑", ""), ("0.5", "± 0.03"), ("0.3", "± 0.03")]
    assert mmmu[4] == ("−0.2", "−0.2832 to −0.1168, worse")
    assert chair[1:] == [("chair_i ↓", ""), ("20", ""), ("31.5", ""), ("+11.5", "worse, noise not known")]


def test_a_loss_beyond_the_noise_is_told(comparison: Comparison) -> None:
    (sentence,) = [one for one in tell(comparison) if "general ability" in one.text]
    assert (sentence.run, sentence.tone) == ("gd", "warning")
    assert "mmmu_val mmmu_acc 0.5 to 0.3" in sentence.text
    assert "chair" not in sentence.text  # nobody knows the noise there


@pytest.mark.parametrize(
    ("after", "before", "higher", "word"),
    [
        ((0.3, 0.01), (0.5, 0.01), True, "worse"),
        ((0.3, 0.01), (0.5, 0.01), False, "better"),
        ((0.48, 0.02), (0.5, 0.02), True, "within the noise"),
        ((0.3, None), (0.5, 0.01), True, "worse, noise not known"),
        ((0.3, 0.01), (0.5, 0.01), None, ""),
        ((0.5, 0.01), (0.5, 0.01), None, "same"),
    ],
)
def test_verdicts(comparison: Comparison, after: Any, before: Any, higher: bool | None, word: str) -> None:
    origin = comparison.runs[0].origins[0]
    one, other = (GeneralScore(*numbers, higher, {}, origin) for numbers in (after, before))
    assert verdict(one, other) == word
    interval = change_interval(one, other)
    assert (interval is None) == (after[1] is None)


def test_filters_groups_and_reruns(make_folder: Any, make_others: Any, tmp_path: Path) -> None:
    """A rerun's newer scores replace the task's older ones, also where an old metric is gone; ours never mix in."""
    folder = make_folder("a", knows_all, model_args="pretrained=a")
    older = {"gsm": {"em,strict": 0.1, "em_stderr,strict": 0.02, "em,flexible": 0.2}, "gone": {"score,none": 1}}
    make_others(tmp_path / "more", older | {"umu05": {"acc_mul,none": 0.4}}, model_args="pretrained=a")
    newer = {"gsm": {"em,strict": 0.3, "em_stderr,strict": 0.04, " ,none": ""}}
    make_others(tmp_path / "more", newer, date="20260106_000000", model_args="pretrained=a")
    run = read_run(folder, "a", more=[tmp_path / "more"])
    assert {key: (one.value, one.stderr) for key, one in run.general.items()} == {
        ("gone", "score"): (1.0, None),
        ("gsm", "em (strict)"): (0.3, 0.04),
    }


def test_suite_run_on_one_model_only_is_pointed_out(make_folder: Any, make_others: Any, tmp_path: Path) -> None:
    """A good score of the unlearned model alone says nothing about what unlearning cost."""
    others = make_others(tmp_path / "general", scores(0.3), better=BETTER)
    start, gd = f"start={make_folder('start', knows_all)}", f"gd={make_folder('gd', text_forgotten)}"
    one = compare(read_runs([start, gd, f"gd={others}"]))
    assert "The suite mmmu_val was run on gd and not on start" in told(one)
    found = table(one)
    assert found is not None
    assert [cell.text for cell in found.rows[1].cells][2:] == ["not run", "0.3", "–"]
    assert not any("general ability" in sentence.text for sentence in tell(one))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"model_args": "pretrained=checkpoints/gd,prompt=chat"}, "prompt style: start: none / gd: chat"),
        ({"versions": {"mmmu_val": 2}}, "version: start: none / gd: 2"),
        ({"config": {"model": "umu_hf", "model_args": "pretrained=checkpoints/gd", "limit": 8}}, "limit: start: none"),
        ({"n-samples": {"mmmu_val": {"original": 9, "effective": 7}}}, "questions: start: none / gd: 7"),
    ],
)
def test_suites_run_otherwise_are_pointed_out(
    make_folder: Any, make_others: Any, tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    before = make_others(tmp_path / "a", scores(0.5), model_args="pretrained=checkpoints/start")
    after = make_others(tmp_path / "b", scores(0.5), **{"model_args": "pretrained=checkpoints/gd", **changed})
    start, gd = make_folder("start", knows_all), make_folder("gd", text_forgotten)
    comparison = compare(read_runs([f"start={start}", f"start={before}", f"gd={gd}", f"gd={after}"]))
    assert f"mmmu_val was not run alike on all models ({message}" in told(comparison)


def test_a_folder_of_another_model_is_noticed(make_folder: Any, make_others: Any, tmp_path: Path) -> None:
    """The start model's MMMU scores given for the unlearned one would show that nothing was lost."""
    others = make_others(tmp_path / "general", scores(0.5), model_args="pretrained=checkpoints/start")
    start, gd = make_folder("start", knows_all), make_folder("gd", text_forgotten)
    comparison = compare(read_runs([f"start={start}", f"start={others}", f"gd={gd}", f"gd={others}"]))
    assert "gd: its general ability was measured on checkpoints/start, its forgetting on checkpoints/gd" in told(
        comparison
    )
    assert "start and gd were given the same results of other tasks" in told(comparison)


def test_folders_are_joined_by_a_given_name_only(make_folder: Any, make_others: Any, tmp_path: Path) -> None:
    """Two folders that happen to be called alike are two models until somebody says otherwise."""
    ours = make_folder("run", knows_all)
    others = make_others(tmp_path / "elsewhere" / "run", scores(0.5))
    with pytest.raises(DataError, match=r"results of other tasks only .*NAME=OURS NAME=OTHERS"):
        read_runs([str(ours), str(others)])
    (joined,) = read_runs([f"a={others}", f"a={ours}"])
    assert joined.general
    assert joined.tasks
    file = tmp_path / "published.json"
    file.write_text("{}")
    with pytest.raises(DataError, match="can't be put together with other results as a"):
        read_runs([f"a={ours}", f"a={file}"])


def test_report_and_data_hold_general_ability(
    make_folder: Any, make_others: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(write, "draw", lambda *_: [])  # pictures are looked at elsewhere, and take seconds
    before = make_others(tmp_path / "a", scores(0.5), better=BETTER, model_args="pretrained=checkpoints/start")
    after = make_others(tmp_path / "b", scores(0.3), better=BETTER, model_args="pretrained=checkpoints/gd")
    start, gd = make_folder("start", knows_all), make_folder("gd", text_forgotten)
    runs = [f"start={start}", f"start={before}", f"gd={gd}", f"gd={after}"]
    assert main(["report", *runs, "--out", str(tmp_path / "out")]) == 0
    assert "General ability" in capsys.readouterr().out
    for file in ("report.html", "report.md"):
        text = (tmp_path / "out" / file).read_text()
        assert "mmmu_acc ↑" in text
        assert "−0.2832 to −0.1168, worse" in text
        assert "pretrained=checkpoints/gd" in text
    with (tmp_path / "out" / "general.csv").open(newline="") as lines:
        rows = {(row["task"], row["run"]): row for row in csv.DictReader(lines)}
    assert float(rows["mmmu_val", "gd"]["change"]) == pytest.approx(-0.2)
    assert float(rows["mmmu_val", "gd"]["change_low"]) == pytest.approx(-0.28316, abs=1e-5)
    assert rows["mmmu_val", "start"]["change"] == ""


def test_numbers_keep_the_figures_that_count() -> None:
    assert [plain_number(one) for one in (0.36123, 1432.71, 0, -2.5)] == ["0.3612", "1433", "0", "−2.5"]
    assert [signed(one) for one in (0.5, 0.0, -0.25)] == ["+0.5", "0", "−0.25"]
