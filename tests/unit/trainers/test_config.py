from __future__ import annotations

import dataclasses
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from trl import SFTConfig

from umu_tasks.benchmarks.splits import FORGET_RATIOS
from umu_trainers import config, early, objectives
from umu_trainers.config import SFTArguments, UnlearnArguments, checks, parse
from umu_trainers.config.unlearn_checks import without_effect
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
        (["--method", "npo", "--clip_multimodal", "1", "--fp16", "true"], r"--clip_multimodal with fp16.*bf16: true"),
        (["--npo_beta", "1"], r"method_kwargs: method gd has no npo_beta"),
        (["--method_kwargs", '{"npo_beta": 1}'], r"method_kwargs: method gd has no npo_beta"),
        (["--alpha", "-1"], r"--alpha -1.0: a weight of 0 or more is expected"),
        (["--modality", "uni", "--beta", "0"], r"--beta 0.0: with --modality uni nothing would be learned"),
        (["--config", "configs/unlearn/sgd.yaml"], r"--config configs/unlearn/sgd.yaml: no such file"),
        (["--modality", "uni", "--train", "language_model", "projector"], r"--modality uni: no image is shown"),
        (["--alpha", "nan"], r"--alpha nan: a weight of 0 or more is expected"),
        (["--gamma", "inf"], r"--gamma inf: a weight of 0 or more is expected"),
        (["--method", "npo", "--npo_beta", "0"], r"npo_beta 0.0: a number above 0 is expected"),
        (["--method", "npo", "--npo_beta", "nan"], r"npo_beta: a number is expected, found nan"),
        (["--method", "wga", "--method_kwargs", '{"wga_alpha": -1}'], r"wga_alpha -1: a number of 0 or more"),
        (
            ["--method", "wga", "--method_kwargs", '{"wga_alpha": "1e-1"}'],
            r"wga_alpha: a number is expected, found '1e-1'",
        ),
        (["--method", "npo", "--method_kwargs", '{"published_form": "no"}'], r"published_form: true or false .* 'no'"),
        (
            ["--method", "kl", "--method_kwargs", '{"direction": "back"}'],
            r"direction back: choose one of forward, reverse",
        ),
        (
            ["--method", "kl", "--method_kwargs", '{"published_form": true, "direction": "reverse"}'],
            r"direction reverse: published_form has one direction only",
        ),
        (["--method", "rmu", "--method_kwargs", '{"hidden_layer": 1.5}'], r"hidden_layer: a whole number is expected"),
        (["--method", "rmu", "--method_kwargs", '{"hidden_layer": true}'], r"hidden_layer: a whole number is expected"),
        (["--method", "rmu", "--method_kwargs", '{"hidden_layer": 0}'], r"hidden_layer 0: layers are counted from 1"),
        (["--per_device_train_batch_size", "0"], r"--per_device_train_batch_size 0: 1 or more is expected"),
        (["--gradient_accumulation_steps", "0"], r"--gradient_accumulation_steps 0: 1 or more is expected"),
        (["--num_train_epochs", "0"], r"--num_train_epochs 0.0: a number above 0 is expected"),
        (["--max_steps", "0"], r"--max_steps 0: 1 or more, or -1 for num_train_epochs, is expected"),
        (["--learning_rate", "-1"], r"--learning_rate -1.0: a number above 0 is expected"),
        (["--lora_r", "0"], r"--lora_r 0: 1 or more is expected"),
        (["--max_length", "0"], r"--max_length 0: 1 or more is expected"),
        (["--max_forget_loss", "-1"], r"--max_forget_loss -1.0: a number of nats above 0 is expected"),
        (["--eval_strategy", "epoch"], r"--eval_strategy epoch: not supported for these rows\. Leave it at no\."),
        (["--use_liger_kernel", "true"], r"--use_liger_kernel True: not supported"),
        (["--accelerator_config", '{"dispatch_batches": true}'], r"dispatch_batches: not supported, each process"),
        (["--data_seed", "3"], r"--data_seed 3: not supported for these rows"),
        (["--pad_to_multiple_of", "8"], r"--pad_to_multiple_of 8: not supported for these rows"),
        (["--dataloader_persistent_workers", "true"], r"--dataloader_persistent_workers True: not supported"),
        (
            ["--method", "ga", "--retain_subset", "true"],
            r"--retain_subset: method ga uses no retain rows.*gamma above 0",
        ),
        (["--gamma", "0", "--retain_modality", "mix"], r"--retain_modality: method gd uses no retain rows"),
        (
            ["--phases", "sequential", "--modality", "mul", "--retain_modality", "mix"],
            r"--retain_modality mix with phases sequential and --modality mul",
        ),
        (["--use_lora", "false", "--lora_modules", "q_proj"], r"--lora_modules: for adapters only.*lora_modules: null"),
        (["--lora_target_modules", "q_proj", "--lora_modules", "v_proj"], r"--lora_modules with lora_target_modules"),
        (["--lora_target_modules", "q_proj", "--train", "projector"], r"--train with lora_target_modules, which takes"),
    ],
)
def test_wrong_values_are_refused_with_the_choices(flags, message):
    with pytest.raises(ValueError, match=message):
        unlearn(*flags)


@pytest.mark.parametrize(
    ("flags", "notice"),
    [
        (["--modality", "uni", "--alpha", "2"], "alpha 2.0: weighs a loss that --modality uni does not have"),
        (["--modality", "mul", "--beta", "0"], "beta 0.0: weighs a loss that --modality mul does not have"),
        (["--modality", "uni", "--cache_image_features", "true"], "cache_image_features: no image is shown"),
        (["--train", "projector"], "the unimodal half: without an image nothing reaches projector"),
        (["--method", "npo", "--nll_average", "tokens"], "nll_average tokens: method npo has no mean over tokens"),
    ],
)
def test_settings_that_change_nothing_are_told(flags, notice):
    """Somebody who weighs a loss that is not there would take the run for another one."""
    (found,) = without_effect(unlearn(*flags))
    assert found.startswith(notice)


def test_settings_of_an_adapter_that_is_not_trained_are_told():
    given = ["--lora_r", "4", "--lora_dropout", "0.5", "--lora_alpha", "3"]
    assert without_effect(unlearn("--use_lora", "false")) == []
    assert without_effect(unlearn(*given)) == []
    (found,) = without_effect(unlearn(*given, "--use_lora", "false"))
    assert found == "lora_r 4, lora_alpha 3, lora_dropout 0.5: with use_lora false no adapter is trained"
    assert checks.without_effect(parse(SFTArguments, "", [*given, "--use_lora", "false", *CPU])) == [found]


@pytest.mark.parametrize(
    "flags",
    [
        ["--alpha", "2", "--beta", "3", "--cache_image_features", "true", "--nll_average", "tokens"],
        ["--modality", "uni", "--retain_modality", "mix", "--cache_image_features", "true"],
        ["--method", "npo", "--gamma", "1", "--nll_average", "tokens"],
        ["--method", "npo", "--method_kwargs", '{"published_form": true}', "--nll_average", "tokens"],
    ],
)
def test_settings_that_change_something_are_not(flags):
    assert without_effect(unlearn(*flags)) == []


@pytest.mark.parametrize("method", objectives.available())
def test_which_methods_average_over_tokens(method):
    """PO's refusals and the activations of RMU count too; NPO, SimNPO and DPO weigh whole answers."""
    settings = ["--method_kwargs", '{"hidden_layer": 1}'] if method == "rmu" else []
    found = without_effect(unlearn("--method", method, "--gamma", "0", "--nll_average", "tokens", *settings))
    assert bool(found) == (method in ("npo", "simnpo", "dpo"))


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


def test_a_setting_that_stands_twice_in_the_file(tmp_path):
    """YAML keeps the last one: the run would have another learning rate than the one that was read."""
    file = tmp_path / "c.yaml"
    file.write_text("learning_rate: 1e-5\nmethod: ga\nlearning_rate: 1e-4\n")
    with pytest.raises(ValueError, match=r"c\.yaml: the key 'learning_rate' stands twice"):
        unlearn("--config", str(file))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("lora_r: 8.5", "lora_r 8.5: a whole number is expected"),
        ("per_device_train_batch_size: yes", "per_device_train_batch_size True: a whole number is expected"),
        ("alpha: [1]", r"alpha \[1\]: a number is expected"),
        ("use_lora: 2", "use_lora 2: true or false is expected"),
    ],
)
def test_values_of_another_kind_in_the_file(tmp_path, line, said):
    """YAML gives numbers, which argparse takes as they stand: 8.5 ended in PEFT, after the model was loaded."""
    file = tmp_path / "c.yaml"
    file.write_text(f"method: ga\n{line}\n")
    with pytest.raises(ValueError, match=rf"c\.yaml: {said}"):
        unlearn("--config", str(file))


@pytest.mark.parametrize("arguments", [UnlearnArguments, SFTArguments])
def test_help_shows_every_setting_of_ours_once_and_few_of_others(capsys, monkeypatch, arguments):
    """A newcomer looks for the method, and finds it before the fifth setting of a learning-rate schedule."""
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit) as stop:
        parse(arguments, "Unlearn.", ["--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    shown = [line.split()[0] for line in text.splitlines() if line.startswith("  --")]
    inherited = {one.name for one in dataclasses.fields(SFTConfig)}
    own = [one for one in dataclasses.fields(arguments) if one.name not in inherited]
    assert [one.name for one in own if shown.count(f"--{one.name}") != 1 or not one.metadata.get("help")] == []
    assert len(shown) - len(own) < 40
    first = "--method" if arguments is UnlearnArguments else "--split"
    assert shown.index("--model") < shown.index(first) < shown.index("--learning_rate") < shown.index("--max_length")
    assert not [one for one in shown if "-" in one.removeprefix("--") or one.startswith("--no_")]
    assert "--hub_token" not in text
    script = "unlearn" if arguments is UnlearnArguments else "sft"
    assert f"\n    accelerate launch umu_trainers/{script}.py --config configs/" in text


@pytest.mark.parametrize("arguments", [UnlearnArguments, SFTArguments])
def test_commands_in_the_help_are_right(arguments, monkeypatch):
    """Who copies an example must not get an error for it."""
    monkeypatch.chdir(Path(__file__).parents[3])
    commands = [shlex.split(line)[3:] for line in arguments.examples.splitlines() if line.startswith("    ")]
    assert len(commands) >= 3
    for command in commands:
        parse(arguments, "", [*command, "--use_cpu", "true", "--bf16", "false"])


def test_what_a_setting_is_left_at_is_shown_where_it_says_something(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit):
        parse(UnlearnArguments, "Unlearn.", ["--help"])
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.startswith("  --")}
    assert lines["--alpha"].endswith("[1.0]")
    assert lines["--use_lora"].endswith("[true]")
    assert lines["--train"].endswith("[language_model]")
    assert re.search(r"\[adamw_torch(_fused)?\]$", lines["--optim"])  # the latter since torch 2.8
    assert lines["--gamma"].endswith("None: the method's default.")


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


def test_configs_are_found_from_another_folder(monkeypatch, tmp_path):
    """Installed from a clone, the scripts run anywhere; only a wheel's configs were found."""
    clone = Path(early.__file__).parents[1]
    monkeypatch.chdir(tmp_path)
    assert early.find_config("configs/unlearn/gd.yaml") == clone / "configs/unlearn/gd.yaml"
    assert early.find_config("config/gd.yaml") == Path("config/gd.yaml")  # a folder of ours, and nobody's configs
    (tmp_path / "configs" / "unlearn").mkdir(parents=True)
    assert early.find_config("configs/unlearn/gd.yaml") == Path("configs/unlearn/gd.yaml")


def test_a_missing_folder_of_configs_is_no_empty_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"mine/gd\.yaml: no such file\. There is no folder mine here"):
        early.read_configs(["mine/gd.yaml"])


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
