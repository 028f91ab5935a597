"""Training curves: read from whatever log there is, and marked where the scored weights are from."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from umu_tasks.benchmarks.errors import DataError
from umu_tasks.cli import main
from umu_tasks.report import plots
from umu_tasks.report.compare import compare
from umu_tasks.report.plots_training import at_step, training_curves
from umu_tasks.report.read import read_run
from umu_tasks.report.training import RECORD, STATE, read_curves, split_training

LOG = [
    {"loss": -2.4, "learning_rate": 1e-4, "nll/forget_uni": 2.5, "nll/retain_uni": 0.1, "epoch": 1.0, "step": 5},
    {"loss": -9.0, "learning_rate": 5e-5, "nll/forget_uni": 9.2, "nll/retain_uni": 0.2, "epoch": 2.0, "step": 10},
    {"score/forget": 0.1, "score/retain": 0.9, "epoch": 2.0, "step": 10},
    {"train_loss": -5.0, "train_runtime": 3.0, "epoch": 2.0, "step": 12},
    {"step": 12, "stopped": "the forget loss 9.2 is above max_forget_loss 9"},
]


def knows_all(*_: Any) -> float:
    return 1.0


def write_json(file: Path, content: Any) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content))
    return file


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "models" / "gd"
    write_json(
        folder / RECORD, {"command": "unlearn", "settings": {"method": "gd"}, "result": {"steps": 12, "log": LOG}}
    )
    return folder


@pytest.fixture
def run(make_folder: Any, model: Path) -> Any:
    return read_run(make_folder("gd", knows_all, model_args=f"pretrained={model}"), "gd")


def test_curves_are_found_beside_the_weights(run: Any, model: Path) -> None:
    curves = read_curves(run)
    assert curves is not None
    assert curves.file == model / RECORD
    assert curves.values["loss"] == [(5, -2.4), (10, -9.0)]
    assert curves.values["score/retain"] == [(10, 0.9)]
    assert "epoch" not in curves.values
    assert curves.scored_step == 12


def test_the_saved_step_is_the_scored_one(run: Any, model: Path) -> None:
    """Where training kept its best step, the last step's model was never scored."""
    record = json.loads((model / RECORD).read_text())
    record["result"]["saved_step"] = {"step": 10, "forget": 0.1, "retain": 0.9}
    write_json(model / RECORD, record)
    curves = read_curves(run)
    assert curves is not None
    assert curves.scored_step == 10


def test_a_scored_checkpoint_is_marked_on_the_whole_log(make_folder: Any, model: Path) -> None:
    checkpoint = write_json(model / "checkpoint-5" / STATE, {"log_history": LOG[:1]}).parent
    run = read_run(make_folder("early", knows_all, model_args=f"pretrained={checkpoint}"), "early")
    curves = read_curves(run)
    assert curves is not None
    assert curves.values["loss"] == [(5, -2.4), (10, -9.0)]
    assert curves.scored_step == 5


def test_an_adapters_training_comes_before_its_start_models(make_folder: Any, model: Path, tmp_path: Path) -> None:
    start = write_json(tmp_path / "models" / "sft" / RECORD, {"result": {"steps": 3, "log": [{"loss": 1, "step": 3}]}})
    arguments = f"pretrained={start.parent},peft={model}"
    run = read_run(make_folder("lora", knows_all, model_args=arguments), "lora")
    curves = read_curves(run)
    assert curves is not None
    assert curves.file == model / RECORD


def test_a_killed_training_is_read_from_its_last_checkpoint(run: Any, tmp_path: Path) -> None:
    """Ten comes after nine, and a checkpoint that was cut off in writing is passed over."""
    folder = tmp_path / "killed"
    write_json(folder / "checkpoint-9" / STATE, {"log_history": LOG[:1]})
    write_json(folder / "checkpoint-10" / STATE, {"log_history": LOG[:3]})
    (folder / "checkpoint-11").mkdir()
    (folder / "checkpoint-11" / STATE).write_text('{"log_hist')
    curves = read_curves(run, folder)
    assert curves is not None
    assert curves.file.parent.name == "checkpoint-10"
    assert curves.scored_step == 10


def test_tensorboard_events_are_the_last_resort(run: Any, tmp_path: Path) -> None:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(str(tmp_path / "tb" / "runs" / "today"))
    for step, value in ((1, 2.5), (2, 1.5)):
        summary = Summary(value=[Summary.Value(tag="train/loss", simple_value=value)])
        writer.add_event(Event(step=step, wall_time=float(step), summary=summary))
    writer.close()
    curves = read_curves(run, tmp_path / "tb")
    assert curves is not None
    assert curves.values == {"loss": [(1, 2.5), (2, 1.5)]}
    assert curves.scored_step == 2


def test_a_folder_without_a_log_is_an_error_only_if_it_was_given(make_folder: Any, tmp_path: Path) -> None:
    (tmp_path / "bare").mkdir()
    run = read_run(make_folder("bare", knows_all, model_args=f"pretrained={tmp_path / 'bare'}"), "bare")
    assert read_curves(run) is None
    with pytest.raises(DataError, match=r"no training log: expected training_record.json.*--output_dir"):
        read_curves(run, tmp_path / "bare")


@pytest.mark.parametrize("argument", ["gd", "gd=", "npo=here", "gd=no/such/folder"])
def test_training_is_named_by_its_run(argument: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"--training {argument}: "):
        split_training([argument], ["sft", "gd"])
    assert split_training([f"gd={tmp_path}"], ["sft", "gd"]) == {"gd": tmp_path}


def test_marks_lie_on_the_curve() -> None:
    points = [(10, 4.0), (20, 2.0)]
    assert at_step(points, 15) == (15, 3.0)
    assert at_step(points, 20) == (20, 2.0)
    assert at_step(points, 23) == (20, 2.0)  # logged every few steps; the end was not
    assert at_step(points, 5) is None
    assert at_step(points, None) is None


def test_report_shows_curves_and_their_data(
    make_folder: Any, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--training` for one run, the weights' own folder for the other, and a run without a log is just not drawn."""
    monkeypatch.setattr(plots, "_knowledge", lambda *_: None)  # the other pictures take seconds
    own = {"splits": ("real",)}
    folders = [
        make_folder("sft", knows_all, **own),
        make_folder("gd", knows_all, model_args=f"pretrained={model}", **own),
        make_folder("moved", knows_all, **own),
    ]
    out = tmp_path / "out"
    assert main(["report", *map(str, folders), "--training", f"moved={model}", "--out", str(out)]) == 0
    page = (out / "report.html").read_text()
    assert "Training curves" in page
    assert "method gd, 12 steps (record in --training)" in page
    with (out / "training.csv").open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert {row["run"] for row in rows} == {"gd", "moved"}
    assert {row["quantity"] for row in rows} == {
        "loss", "learning_rate", "nll/forget_uni", "nll/retain_uni", "score/forget", "score/retain",
    }  # fmt: skip
    assert [row["value"] for row in rows if row["run"] == "gd" and row["quantity"] == "loss"] == ["-2.4", "-9.0"]
    with Image.open(out / "training.png") as image:
        assert image.width > 1000
    assert (out / "training.svg").read_bytes().startswith(b"<?xml")


def test_no_log_no_picture(make_folder: Any) -> None:
    comparison = compare([read_run(make_folder("sft", knows_all, splits=("real",)), "sft")])
    assert training_curves(comparison, {}) is None
