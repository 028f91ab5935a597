from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest
from trl import SFTConfig

from umu_tasks.benchmarks.splits import FORGET_RATIOS
from umu_trainers import config, early, objectives
from umu_trainers.config import SFTArguments, UnlearnArguments, parse
from umu_trainers.model import PARTS

CPU = ["--use_cpu", "true", "--output_dir", "out"]


def unlearn(*flags: str) -> UnlearnArguments:
    return parse(UnlearnArguments, "", [*CPU, *flags])


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--forget_ratio", "7"], r"--forget_ratio 7: UMU-Bench has 5, 10, 15\. Choose one of these\."),
        (["--method", "sgd"], r"--method sgd: no such method\. Choose one of: .*ga.*gd"),
        (["--modality", "both"], r"--modality both: choose one of mix, uni, mul\."),
        (["--train", "head"], r"--train head: choose one of language_model, projector, vision_tower\."),
        (["--prompt", "plain"], r"--prompt plain: choose one of published, chat\."),
        (["--dtype", "int8"], r"--dtype int8: choose one of float32"),
        (["--lora_init", "zeros"], r"--lora_init zeros: choose one of gaussian, default\."),
        (["--packing", "true"], r"--packing True: not supported for these rows\. Leave it at False\."),
        (["--train_sampling_strategy", "group_by_length"], r"--train_sampling_strategy group_by_length: not supported"),
        (["--method", "po", "--max_forget_loss", "2"], r"--max_forget_loss: method po never computes the forget loss"),
        (["--method", "ga", "--phases", "sequential"], r"--phases sequential: method ga needs .*Use gd"),
        (["--phases", "sequential", "--gamma", "0"], r"--phases sequential: .*gamma above 0"),
        (["--retain_modality", "uni"], r"--retain_modality uni: choose one of same, mix"),
        (["--label_scope", "all"], r"--label_scope all: choose one of answer, all_text, published"),
        (["--modality", "uni", "--clip_multimodal", "1"], r"--clip_multimodal: for --modality mix"),
        (["--npo_beta", "1"], r"method_kwargs: method gd has no npo_beta"),
        (["--method_kwargs", '{"npo_beta": 1}'], r"method_kwargs: method gd has no npo_beta"),
        (["--alpha", "-1"], r"--alpha -1.0: a weight of 0 or more is expected"),
        (["--modality", "uni", "--beta", "0"], r"--beta 0.0: with --modality uni nothing would be learned"),
        (["--config", "configs/unlearn/sgd.yaml"], r"--config configs/unlearn/sgd.yaml: no such file"),
        (["--modality", "uni", "--train", "language_model", "projector"], r"--modality uni: no image is shown"),
    ],
)
def test_wrong_values_are_refused_with_the_choices(flags, message):
    with pytest.raises(ValueError, match=message):
        unlearn(*flags)


def test_unknown_split_and_replay_share_are_refused():
    with pytest.raises(ValueError, match=r"--split retain7: UMU-Bench has forget05, .*full"):
        parse(SFTArguments, "", [*CPU, "--split", "retain7"])
    with pytest.raises(ValueError, match=r"--replay_real 2.0: a fraction from 0 to 1"):
        parse(SFTArguments, "", [*CPU, "--replay_real", "2"])


def test_alpha_weighs_the_multimodal_loss_and_beta_the_unimodal_one():
    """The paper's letters; the published scripts use alpha for the other half."""
    args = unlearn("--alpha", "0.25", "--beta", "2")
    assert args.weights == {"mul": 0.25, "uni": 2.0}


def test_ratio_names_the_splits():
    args = unlearn("--forget_ratio", "10")
    assert (args.forget_split, args.retain_split) == ("forget10", "retain90")


def test_one_part_may_stand_without_brackets(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("train: projector\n")
    assert unlearn("--config", str(file)).train == ["projector"]


def test_flags_override_the_file(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("method: ga\nlearning_rate: 1e-5\nforget_ratio: 15\n")
    args = unlearn("--config", str(file), "--forget_ratio", "10")
    assert (args.method, args.learning_rate, args.forget_ratio) == ("ga", 1e-5, 10)


def test_unknown_setting_in_the_file_is_named(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("learning_rat: 1e-5\n")
    with pytest.raises(ValueError, match="learning_rat"):
        unlearn("--config", str(file))


def test_help_lists_our_settings_first_each_with_a_text(capsys):
    with pytest.raises(SystemExit) as stop:
        parse(UnlearnArguments, "Unlearn.", ["--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert "--config FILE" in text
    script, _, rest = text.partition("settings of both scripts:")
    shared, _, others = rest.partition("often used settings of transformers:")
    for flag in ("--method", "--forget_ratio", "--alpha", "--gamma", "--score_every"):
        assert flag in script, flag
    for flag in ("--model", "--modality", "--train ", "--max_length"):
        assert flag in shared, flag
    assert "--learning_rate" in others
    assert "--hub_token" not in text
    inherited = {one.name for one in dataclasses.fields(SFTConfig)}
    fields = (*dataclasses.fields(UnlearnArguments), *dataclasses.fields(SFTArguments))
    own = {one.name: one.metadata.get("help") for one in fields if one.name not in inherited}
    assert {"method", "replay_real", "model"} <= own.keys()
    assert [name for name, text in own.items() if not text] == []


def test_help_all_lists_every_setting(capsys):
    with pytest.raises(SystemExit):
        parse(UnlearnArguments, "Unlearn.", ["--help_all"])
    text = capsys.readouterr().out
    assert [one.name for one in dataclasses.fields(UnlearnArguments) if f"--{one.name}" not in text] == []


def test_early_checks_know_the_choices_of_the_settings():
    """What is refused before the imports must be what the settings refuse."""
    assert early.CHOICES["modality"] == tuple(config.HALVES)
    assert early.CHOICES["train"] == tuple(PARTS)
    assert early.CHOICES["method"] == objectives.available()
    assert early.FORGET_RATIOS == FORGET_RATIOS


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--method", "sgd"], "error: --method sgd: no such method. Choose one of: dpo, ga"),
        (["--config", "nix.yaml"], "error: --config nix.yaml: no such file."),
        (["--train", "language_model", "head"], "error: --train head: choose one of language_model, projector"),
        (["--forget_ratio=7"], "error: --forget_ratio 7: UMU-Bench has 5, 10, 15"),
    ],
)
def test_wrong_settings_are_named_before_the_imports(capsys, flags, message):
    with pytest.raises(SystemExit):
        early.check(flags)
    assert capsys.readouterr().err.startswith(message)


def test_early_checks_import_no_heavy_library():
    """Else a misspelt method takes as long to be named as PyTorch takes to load."""
    code = "import sys; from umu_trainers import early; early.check(['--method', 'ga']); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_misspelt_flag_is_not_taken_for_another(capsys):
    """`--learning_rat 1` would train with learning rate 1."""
    with pytest.raises((SystemExit, ValueError)) as stopped:
        unlearn("--learning_rat", "1")
    assert "learning_rat" in f"{stopped.value}{capsys.readouterr().err}"
