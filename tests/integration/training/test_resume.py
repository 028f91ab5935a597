"""A run that is broken off and taken up again ends with the weights of one that was not."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from transformers import AutoProcessor, TrainerCallback

from umu_tasks.backend.generation import GenerationSettings
from umu_trainers import sft, unlearn
from umu_trainers.config import UnlearnArguments, parse
from umu_trainers.guards import last_checkpoint
from umu_trainers.merging import MERGED
from umu_trainers.record import note_start
from umu_trainers.scoring import SampleScorer, Score

ROOT = Path(__file__).parents[3]
RUNS = {
    "sft": (sft, {"replay_real": 0.5, "train_sampling_strategy": "group_by_length"}),
    "ga": (unlearn, {"method": "ga"}),
    "gd-lora": (unlearn, {"method": "gd", "use_lora": True, "lora_r": 4, "lora_dropout": 0.1}),
}


@pytest.mark.parametrize("stop_at", [1, 3], ids=["first step", "second epoch"])
@pytest.mark.parametrize("name", RUNS)
def test_resumed_run_equals_an_uninterrupted_one(flags, weights, record, tmp_path, name, stop_at):
    script, settings = RUNS[name]
    settings = {**settings, "num_train_epochs": 3, "save_strategy": "steps", "save_steps": 1, "learning_rate": 1e-3}
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    script.main(flags(**settings, output_dir=whole))

    # As after kill -9: the checkpoints up to that step, and one more that was not finished.
    broken.mkdir()
    for step in range(1, stop_at + 1):
        shutil.copytree(whole / f"checkpoint-{step}", broken / f"checkpoint-{step}")
    shutil.copytree(whole / f"checkpoint-{stop_at + 1}", broken / f"checkpoint-{stop_at + 1}")
    (broken / f"checkpoint-{stop_at + 1}" / "trainer_state.json").unlink()
    script.main(flags(**settings, output_dir=broken, resume_from_checkpoint="last"))

    expected, found = weights(whole), weights(broken)
    assert expected.keys() == found.keys()
    for key, value in expected.items():
        assert torch.equal(found[key], value), key
    logs = [record(folder)["result"]["log"] for folder in (whole, broken)]
    curves = [[{name: one[name] for name in one if "/" in name or name == "loss"} for one in log] for log in logs]
    assert curves[0] == curves[1]


def test_a_run_taken_up_at_its_last_step_takes_no_further_one(flags, weights, record, tmp_path):
    """Killed between its last checkpoint and the end, in the middle of an epoch."""
    settings = {"method": "ga", "max_steps": 3, "save_strategy": "steps", "save_steps": 1, "learning_rate": 1e-3}
    unlearn.main(flags(**settings))
    ended = weights(tmp_path / "run")
    (tmp_path / "run" / "training_record.json").unlink()
    unlearn.main(flags(**settings, resume_from_checkpoint="last"))
    assert record(tmp_path / "run")["result"]["steps"] == 3
    assert all(torch.equal(one, ended[name]) for name, one in weights(tmp_path / "run").items())


@pytest.mark.parametrize(
    "moment", ["while a checkpoint is written", pytest.param("between checkpoints", marks=pytest.mark.slow)]
)
def test_after_kill_9_the_run_goes_on_to_the_same_weights(flags, weights, tmp_path, moment):
    settings = {"method": "gd", "num_train_epochs": 4, "save_strategy": "steps", "save_steps": 1}
    unlearn.main(flags(**settings, output_dir=tmp_path / "whole"))
    command = [sys.executable, "-m", "umu_trainers.unlearn", *flags(**settings, output_dir=tmp_path / "broken")]
    sign = tmp_path / "broken" / "checkpoint-3"
    sign = sign if moment.startswith("while") else sign / "trainer_state.json"
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while process.poll() is None and not sign.exists():
            time.sleep(0.001)
    finally:
        process.kill()
    assert process.wait() == -signal.SIGKILL
    assert not (tmp_path / "broken" / "training_record.json").exists()
    unlearn.main(flags(**settings, output_dir=tmp_path / "broken", resume_from_checkpoint="last"))
    expected, found = weights(tmp_path / "whole"), weights(tmp_path / "broken")
    assert expected.keys() == found.keys()
    assert all(torch.equal(found[name], value) for name, value in expected.items())


LORA = {"use_lora": True, "lora_r": 4, "lora_dropout": 0.1}
# Settings that keep something of their own between steps: stored values, features, the best step, an order of rows.
KEEPING = {
    "scored": {"method": "ga", "score_every": 2, "score_sample": 2, "learning_rate": 3e-2},
    "scored, merged": {"method": "ga", "score_every": 2, "score_sample": 2, "merge_adapter": True, **LORA},
    "reference off": {"method": "kl", **LORA},
    "reference frozen": {"method": "kl"},
    "reference stored": {"method": "npo", "precompute_reference": True, **LORA},
    "packed": {"method": "gd", "pack_by_profile": True, **LORA},
    "features": {"method": "gd", "cache_image_features": True},
    "accumulated": {"method": "gd", "per_device_train_batch_size": 1, "gradient_accumulation_steps": 4},
    "in phases": {"method": "gd", "phases": "sequential"},
    "refusals": {"method": "po", **LORA},
}


class Killed(BaseException):
    """In place of a signal, which leaves no more behind."""


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) for name in KEEPING])
def test_killed_after_a_checkpoint_it_ends_with_the_same_weights(flags, weights, record, tmp_path, monkeypatch, name):
    settings = {**KEEPING[name], "num_train_epochs": 3, "save_strategy": "steps", "save_steps": 1}

    class Kill(TrainerCallback):
        def on_save(self, args, state, control, **kwargs):
            if state.global_step == 2:
                raise Killed

    real = unlearn.UnlearnTrainer.__init__

    def init(self, *args, **kwargs):
        real(self, *args, **kwargs)
        self.add_callback(Kill())

    short = GenerationSettings(max_new_tokens=2)  # answers mean nothing here
    monkeypatch.setattr(GenerationSettings, "from_task", lambda _: short)
    unlearn.main(flags(**settings, output_dir=tmp_path / "whole"))
    monkeypatch.setattr(unlearn.UnlearnTrainer, "__init__", init)
    with pytest.raises(Killed):
        unlearn.main(flags(**settings, output_dir=tmp_path / "broken"))
    monkeypatch.setattr(unlearn.UnlearnTrainer, "__init__", real)
    unlearn.main(flags(**settings, output_dir=tmp_path / "broken", resume_from_checkpoint="last"))
    require_same(weights, tmp_path)
    logs = [record(tmp_path / folder)["result"]["log"] for folder in ("whole", "broken")]
    curves = [[{part: one[part] for part in one if "/" in part or part == "loss"} for one in log] for log in logs]
    assert curves[0] == curves[1]


def require_same(weights, folder):
    expected, found = weights(folder / "whole"), weights(folder / "broken")
    assert expected.keys() == found.keys()
    assert [name for name, value in expected.items() if not torch.equal(found[name], value)] == []


@pytest.mark.parametrize("name", ["scored", "scored, merged"])
def test_killed_while_the_result_is_written_it_ends_with_the_same_weights(
    flags, weights, record, tmp_path, monkeypatch, name
):
    """The weights lie there already, the record does not: neither the last step's weights nor an error may follow."""
    settings = {**KEEPING[name], "num_train_epochs": 2, "save_strategy": "steps", "save_steps": 1}
    scores = iter([(0.9, 0.9), (0.1, 0.9), (0.5, 0.5)] * 2)  # at the start, after step 2 and after step 4
    monkeypatch.setattr(SampleScorer, "score", lambda self, step: Score(step, *next(scores)))
    unlearn.main(flags(**settings, output_dir=tmp_path / "whole"))
    monkeypatch.setattr("umu_trainers.record.asdict", lambda _: (_ for _ in ()).throw(Killed))
    with pytest.raises(Killed):
        unlearn.main(flags(**settings, output_dir=tmp_path / "broken"))
    assert any((tmp_path / "broken").glob("*.safetensors"))
    monkeypatch.undo()
    unlearn.main(flags(**settings, output_dir=tmp_path / "broken", resume_from_checkpoint="last"))
    assert record(tmp_path / "broken")["result"]["saved_step"]["step"] == 2
    require_same(weights, tmp_path)
    assert not (tmp_path / "broken" / "best").exists()
    assert (tmp_path / "broken" / "adapter_config.json").exists() == (
        tmp_path / "whole" / "adapter_config.json"
    ).exists()


@pytest.mark.parametrize("stage", ["written", "moved"])
def test_killed_while_it_is_merged_it_ends_with_the_same_weights(flags, weights, tmp_path, monkeypatch, stage):
    settings = {"method": "ga", "merge_adapter": True, "save_strategy": "steps", "save_steps": 1, **LORA}
    unlearn.main(flags(**settings, output_dir=tmp_path / "whole"))
    broken = tmp_path / "broken"
    real = Path.replace

    def fail(path, target):
        if path.parent.name == MERGED and (stage == "written" or path.name == "config.json"):
            raise Killed
        return real(path, target)

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(Killed):
        unlearn.main(flags(**settings, output_dir=broken))
    monkeypatch.undo()
    assert not (broken / "config.json").exists(), "a part of a model must not open"
    with pytest.raises(ValueError, match="already holds a run"):
        unlearn.main(flags(**settings, output_dir=broken))
    unlearn.main(flags(**settings, output_dir=broken, resume_from_checkpoint="last"))
    require_same(weights, tmp_path)
    names = [{one.name for one in folder.iterdir()} for folder in (tmp_path / "whole", broken)]
    assert names[0] == names[1]
    assert names[0].isdisjoint({"adapter_config.json", MERGED})


def test_what_merging_left_is_taken_away_by_a_run_that_does_not_merge(flags, tmp_path):
    settings = {"method": "ga", "save_strategy": "steps", "save_steps": 1, **LORA}
    left = tmp_path / "run" / MERGED
    left.mkdir(parents=True)
    (left / "model.safetensors").write_bytes(b"another run's")
    with pytest.raises(ValueError, match="already holds a run"):
        unlearn.main(flags(**settings))
    unlearn.main(flags(**settings, resume_from_checkpoint="last"))
    assert (tmp_path / "run" / "adapter_config.json").is_file()
    assert not left.exists()


def test_a_run_that_has_ended_is_left_as_it_is(flags, weights, record, tmp_path, monkeypatch, capsys):
    """A script that always says `last` must not replace the best step by the last one."""
    scores = iter([(0.9, 0.9), (0.1, 0.9), (0.5, 0.5)])
    monkeypatch.setattr(SampleScorer, "score", lambda self, step: Score(step, *next(scores)))
    settings = {**KEEPING["scored"], "max_steps": 4, "save_strategy": "steps", "save_steps": 1}
    unlearn.main(flags(**settings))
    assert not (tmp_path / "run" / "README.md").exists(), "TRL's card, which would say what is not so"
    kept, said = weights(tmp_path / "run"), record(tmp_path / "run")
    unlearn.main(flags(**settings, resume_from_checkpoint="last"))
    assert "had ended already" in capsys.readouterr().out
    assert record(tmp_path / "run") == said
    assert all(torch.equal(kept[name], one) for name, one in weights(tmp_path / "run").items())


def test_a_mid_run_checkpoint_opens_too(flags, checkpoint, tmp_path):
    unlearn.main(flags(method="gd", use_lora=True, lora_r=4, save_strategy="steps", save_steps=1))
    base = AutoProcessor.from_pretrained(checkpoint).tokenizer.get_vocab()
    for step in (1, 2):
        folder = tmp_path / "run" / f"checkpoint-{step}"
        assert AutoProcessor.from_pretrained(folder).tokenizer.get_vocab() == base
        assert (folder / "adapter_config.json").is_file()


def test_ctrl_c_leaves_usable_checkpoints_and_says_how_to_go_on(flags, tmp_path, monkeypatch, capsys):
    class Interrupt(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            if state.global_step == 2:
                raise KeyboardInterrupt

    real = unlearn.UnlearnTrainer.__init__

    def init(self, *args, **kwargs):
        real(self, *args, **kwargs)
        self.add_callback(Interrupt())

    arguments = flags(method="ga", save_strategy="steps", save_steps=1, num_train_epochs=2)
    monkeypatch.setattr(unlearn.UnlearnTrainer, "__init__", init)
    with pytest.raises(SystemExit) as stop:
        unlearn.run.run_script(lambda: unlearn.main(arguments))
    assert stop.value.code == 130
    assert "--resume_from_checkpoint last" in capsys.readouterr().err
    assert last_checkpoint(str(tmp_path / "run")) == str(tmp_path / "run" / "checkpoint-1")

    monkeypatch.setattr(unlearn.UnlearnTrainer, "__init__", real)
    unlearn.main([*arguments, "--resume_from_checkpoint", "last"])
    assert (tmp_path / "run" / "training_record.json").is_file()


def test_a_folder_that_holds_a_run_is_not_overwritten(flags, tmp_path):
    unlearn.main(flags(method="ga", max_steps=1))
    with pytest.raises(ValueError, match=r"already holds a run\. Go on with it \(--resume_from_checkpoint last\)"):
        unlearn.main(flags(method="gd", max_steps=1))
    with pytest.raises(ValueError, match=r"no complete checkpoint there"):
        unlearn.main(flags(method="gd", resume_from_checkpoint=tmp_path / "run" / "checkpoint-7"))


def test_weights_without_a_record_are_not_trained_over(flags, tmp_path):
    """An adapter left beside whole weights would be applied on top of them when the folder is opened."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "adapter_model.safetensors").touch()
    with pytest.raises(ValueError, match=r"already holds a run"):
        unlearn.main(flags(method="ga", max_steps=1))


def test_another_experiment_is_not_continued(flags):
    """The record would claim settings that most of the steps never saw."""
    saving = {"save_strategy": "steps", "save_steps": 1, "max_steps": 2}
    unlearn.main(flags(method="gd", **saving))
    with pytest.raises(ValueError, match=r"other settings \(modality mix -> uni; method gd -> ga"):
        unlearn.main(flags(method="ga", modality="uni", resume_from_checkpoint="last", **saving))
    for name, value in {"weight_decay": 0.1, "max_length": 200, "benchmark": "mllmu", "lora_alpha": 4}.items():
        with pytest.raises(ValueError, match=rf"other settings \({name} .* -> {value}\)"):
            note_start(parse(UnlearnArguments, "", flags(method="gd", **saving, **{name: value})), "checkpoint-1")


def test_a_step_keeps_its_number_of_rows(flags):
    """A checkpoint counts steps: with more rows each, those between would be skipped, with fewer used twice."""
    note_start(parse(UnlearnArguments, "", flags(method="gd")), None)
    with pytest.raises(ValueError, match=r"other settings \(rows_per_step 4 -> 8\)"):
        note_start(parse(UnlearnArguments, "", flags(method="gd", gradient_accumulation_steps=2)), "checkpoint-1")
    split = {"per_device_train_batch_size": 1, "gradient_accumulation_steps": 4}
    note_start(parse(UnlearnArguments, "", flags(method="gd", **split)), "checkpoint-1")
