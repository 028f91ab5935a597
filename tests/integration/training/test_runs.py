"""Whole training runs on a tiny model: what moves, where the loss goes, what is written."""

from __future__ import annotations

import json
import math

import pytest
import torch
from transformers import AutoModelForImageTextToText, AutoProcessor

from umu_tasks.benchmarks.sources import open_source
from umu_trainers import sft, unlearn
from umu_trainers.collator import Collator, fillers
from umu_trainers.data import training_set
from umu_trainers.encoding import RowEncoder
from umu_trainers.outputs import run_pass

METHODS = ("ga", "gd")


def moved(before, after):
    return {name for name, one in after.items() if not torch.equal(one, before[name])}


def mean_nll(folder, builder, data, split):
    """Mean negative log-likelihood per answer token of a split under a saved model, by half."""
    model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()
    rows = training_set("x", open_source(str(data)).load(split), ("uni", "mul")).rows
    collator = Collator(RowEncoder(builder), fillers({"x": rows}))
    with torch.no_grad():
        return {half: run_pass(model, collator.rows_batch(own)).nll.item() for half, own in rows.items()}


# ---- which weights move --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("train", "parts"),
    [
        (["language_model"], {"language_model"}),
        (["projector"], {"multi_modal_projector"}),
        (["vision_tower", "projector"], {"vision_tower", "multi_modal_projector"}),
    ],
)
def test_full_training_moves_exactly_the_chosen_parts(flags, checkpoint, weights, tmp_path, train, parts):
    sft.main([*flags(max_steps=2), "--train", *train])
    changed = moved(weights(checkpoint), weights(tmp_path / "run"))
    known = ("language_model", "multi_modal_projector", "vision_tower")
    assert {next((part for part in known if part in name), name) for name in changed} == parts
    still = {name for name in weights(checkpoint) if name not in changed and any(part in name for part in parts)}
    # LLaVA takes the tower's last but one layer, so what comes after it has no gradient.
    assert all("encoder.layers.1" in name or "post_layernorm" in name for name in still), still


@pytest.mark.parametrize(("script", "size"), [(unlearn, 4), (unlearn, 1), (sft, 1)])
def test_text_rows_beside_a_part_that_only_images_reach(flags, checkpoint, weights, tmp_path, script, size):
    """Projector alone, both modalities: text rows have no gradient, nor has a batch of text rows only."""
    script.main([*flags(max_steps=3, per_device_train_batch_size=size), "--train", "projector"])
    changed = moved(weights(checkpoint), weights(tmp_path / "run"))
    assert changed
    assert all("multi_modal_projector" in name for name in changed)


@pytest.mark.parametrize("method", METHODS)
def test_lora_goes_to_the_language_model_only(flags, checkpoint, weights, record, tmp_path, capsys, method):
    unlearn.main(flags(method=method, use_lora=True, max_steps=2, lora_r=4))
    trained = record(tmp_path / "run")["trained"]
    assert len(trained["modules"]) == 2 * 7  # layers x (q, k, v, o, gate, up, down)
    assert all(name.startswith("model.language_model.layers.") for name in trained["modules"])
    adapter = weights(tmp_path / "run")
    assert all(".language_model.layers." in name for name in adapter)
    assert all(bool(one.abs().sum() > 0) for name, one in adapter.items() if "lora_B" in name), (
        "every adapter was trained"
    )
    printed = capsys.readouterr().out
    assert "model.language_model.layers.*.self_attn.q_proj" in printed
    assert f"{trained['parameters']:,} of {trained['total_parameters']:,} parameters" in printed


def test_lora_on_the_vision_tower_when_asked(flags, weights, tmp_path):
    arguments = flags(use_lora=True, max_steps=2, lora_r=2)
    sft.main([*arguments, "--train", "vision_tower", "--lora_modules", "q_proj", "v_proj"])
    names = weights(tmp_path / "run")
    assert names
    assert all(".vision_tower." in name and ("q_proj" in name or "v_proj" in name) for name in names)


def test_every_adapter_is_trained_with_gradient_checkpointing(flags, weights, tmp_path):
    plain = flags(use_lora=True, lora_r=2, lora_dropout=0, max_steps=2, output_dir=tmp_path / "plain")
    sft.main(plain)
    sft.main(flags(use_lora=True, lora_r=2, lora_dropout=0, max_steps=2, gradient_checkpointing=True))
    torch.testing.assert_close(weights(tmp_path / "run"), weights(tmp_path / "plain"))


# ---- where the loss goes -------------------------------------------------------------------------------------------


def test_sft_learns_both_halves(flags, checkpoint, builder, data, tmp_path):
    before = mean_nll(checkpoint, builder, data, "full")
    sft.main(flags(num_train_epochs=6, learning_rate=1e-2))
    after = mean_nll(tmp_path / "run", builder, data, "full")
    assert all(after[half] < before[half] - 1 for half in before)


@pytest.mark.parametrize("modality", ["mix", "uni", "mul"])
@pytest.mark.parametrize("method", METHODS)
def test_one_step_makes_the_forget_answers_less_likely(
    flags, checkpoint, builder, data, record, tmp_path, method, modality
):
    before = mean_nll(checkpoint, builder, data, "forget05")
    unlearn.main(flags(method=method, modality=modality, max_steps=1, per_device_train_batch_size=6))
    after = mean_nll(tmp_path / "run", builder, data, "forget05")
    for half in ("uni", "mul") if modality == "mix" else (modality,):
        assert after[half] > before[half]
    log = record(tmp_path / "run")["result"]["log"][0]
    assert {name for name in log if name.startswith("nll/forget")} == {
        f"nll/forget_{half}" for half in (("uni", "mul") if modality == "mix" else (modality,))
    }


def test_gd_keeps_the_retain_set_where_ga_loses_it(flags, checkpoint, builder, data, tmp_path):
    target = tmp_path / "target"
    sft.main(flags(num_train_epochs=8, learning_rate=1e-2, output_dir=target))
    start = {split: mean_nll(target, builder, data, split) for split in ("forget05", "retain95")}
    found = {}
    for method in METHODS:
        unlearn.main(flags(model=target, method=method, max_steps=8, learning_rate=3e-3, output_dir=tmp_path / method))
        found[method] = {split: mean_nll(tmp_path / method, builder, data, split) for split in start}
    for half in ("uni", "mul"):
        assert found["gd"]["forget05"][half] > start["forget05"][half] + 0.5
        assert found["gd"]["retain95"][half] < found["ga"]["retain95"][half]


def test_the_logged_loss_is_alpha_multimodal_plus_beta_unimodal(flags, record, tmp_path):
    unlearn.main(flags(method="gd", gamma=2.0, alpha=0.5, beta=3.0, max_steps=1))
    log = record(tmp_path / "run")["result"]["log"][0]
    for half in ("uni", "mul"):
        assert log[f"loss/{half}"] == pytest.approx(2 * log[f"nll/retain_{half}"] - log[f"nll/forget_{half}"], rel=1e-5)
    assert log["loss"] == pytest.approx(0.5 * log["loss/mul"] + 3 * log["loss/uni"], rel=1e-5)


@pytest.mark.parametrize("modality", ["uni", "mul"])
def test_one_half_alone_runs_no_pass_of_the_other(flags, monkeypatch, modality):
    """Text-only unlearning must never see a pixel, image-only unlearning no text-only row."""
    seen = []
    forward = unlearn.UnlearnTrainer._passes

    def spy(trainer, model, batch, half):
        seen.extend("pixel_values" in one["inputs"] for name, one in batch.items() if name != "counts")
        return forward(trainer, model, batch, half)

    monkeypatch.setattr(unlearn.UnlearnTrainer, "_passes", spy)
    unlearn.main(flags(method="gd", modality=modality))
    assert set(seen) == {modality == "mul"}


@pytest.mark.parametrize("script", [sft, unlearn])
def test_accumulation_changes_nothing(flags, record, weights, tmp_path, script):
    """4 x 1 = 2 x 2 = 1 x 4: a step is its rows, however they are cut into micro-batches."""
    curves = []
    for size in (4, 2, 1):
        folder = tmp_path / str(size)
        cut = {"per_device_train_batch_size": size, "gradient_accumulation_steps": 4 // size}
        script.main(flags(**cut, output_dir=folder, num_train_epochs=2))
        curves.append([(one["loss"], one["grad_norm"]) for one in record(folder)["result"]["log"] if "loss" in one])
    assert len(curves[0]) == len(curves[1]) == len(curves[2]) > 3
    for curve in curves[1:]:
        torch.testing.assert_close(torch.tensor(curve), torch.tensor(curves[0]), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(weights(tmp_path / "1"), weights(tmp_path / "4"), rtol=1e-3, atol=1e-5)


def test_a_half_that_is_not_in_every_step_is_averaged_over_those_it_is_in(flags, record, tmp_path):
    """One row a step: each step has one half only, and neither figure may be diluted by the other's steps."""
    sft.main(flags(per_device_train_batch_size=1, learning_rate=1e-12, logging_steps=30))
    (log,) = [one for one in record(tmp_path / "run")["result"]["log"] if "loss" in one]
    halves = [log["nll/train_uni"], log["nll/train_mul"]]
    assert log["loss"] == pytest.approx(sum(halves) / 2, rel=1e-4)
    assert min(halves) > 5, "near ln 400, the untrained model's"


# ---- what is written -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("use_lora", [False, True])
def test_output_folder_opens_as_it_is(flags, checkpoint, tmp_path, use_lora):
    """The harness opens the folder and nothing else; ids and vocabulary are the base's."""
    from umu_tasks.backend.arguments import BackendArguments
    from umu_tasks.backend.checkpoint import load_checkpoint

    folder = tmp_path / "run"
    unlearn.main(flags(use_lora=use_lora, max_steps=2))
    opened = load_checkpoint(BackendArguments(pretrained=str(folder)), torch.device("cpu"))
    base = AutoProcessor.from_pretrained(checkpoint)
    processor = opened.builder.processor
    assert processor.tokenizer.get_vocab() == base.tokenizer.get_vocab()
    assert opened.model.get_input_embeddings().num_embeddings == 400
    assert AutoProcessor.from_pretrained(folder).tokenizer("USER: hi").input_ids == base.tokenizer("USER: hi").input_ids
    assert (folder / "adapter_config.json").exists() == use_lora
    assert not list(folder.glob("*.bin"))


def test_an_adapter_is_applied_when_its_folder_is_opened(flags, checkpoint, builder, data, tmp_path):
    from umu_tasks.backend.arguments import BackendArguments
    from umu_tasks.backend.checkpoint import load_checkpoint

    values = {}
    for merge in (False, True):
        folder = tmp_path / f"merge-{merge}"
        sft.main(flags(use_lora=True, learning_rate=1e-2, max_steps=4, merge_adapter=merge, output_dir=folder))
        model = load_checkpoint(BackendArguments(pretrained=str(folder)), torch.device("cpu")).model
        rows = training_set("x", open_source(str(data)).load("full"), ("mul",)).rows
        batch = Collator(RowEncoder(builder), fillers({"x": rows})).rows_batch(rows["mul"][:4])
        with torch.no_grad():
            values[merge] = run_pass(model, batch).logps
        assert (folder / "adapter_config.json").exists() != merge
    base = AutoModelForImageTextToText.from_pretrained(checkpoint, dtype=torch.float32).eval()
    with torch.no_grad():
        assert not torch.allclose(run_pass(base, batch).logps, values[False], atol=0.1)
    torch.testing.assert_close(values[True], values[False], rtol=1e-4, atol=1e-4)


def test_training_goes_on_from_an_adapter_folder(flags, checkpoint, weights, record, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    sft.main(flags(use_lora=True, lora_r=4, max_steps=2, output_dir=first))
    unlearn.main(flags(model=first, use_lora=True, method="gd", max_steps=2, output_dir=second))
    config = json.loads((second / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == str(checkpoint)
    assert config["r"] == 4
    assert moved(weights(first), weights(second)) == set(weights(first))
    assert record(second)["start"]["adapter"] == str(first)


def test_the_record_says_what_made_the_model(flags, record, data, tmp_path):
    unlearn.main(flags(method="gd", gamma=0.5, seed=7))
    found = record(tmp_path / "run")
    assert found["command"] == "unlearn"
    assert found["seed"] == 7
    assert found["settings"]["gamma"] == 0.5
    assert found["data"]["forget"]["split"] == "forget05"
    assert found["data"]["forget"]["rows"] == {"uni": 6, "mul": 6}
    assert found["data"]["retain"]["rows"] == {"uni": 9, "mul": 9}
    assert found["data"]["forget"]["fingerprint"] == open_source(str(data)).load("forget05").fingerprint
    assert {"torch", "transformers", "trl", "peft", "umu-bench"} <= found["versions"].keys()
    assert found["result"]["steps"] == math.ceil(6 / 4)


def test_losses_go_to_tensorboard(flags, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    unlearn.main(flags(method="gd", report_to="tensorboard"))
    events = EventAccumulator(str(next((tmp_path / "run" / "runs").iterdir()))).Reload()
    tags = events.Tags()["scalars"]
    assert {"train/loss", "train/loss/mul", "train/nll/forget_uni", "train/nll/retain_mul"} <= set(tags)
    assert len(events.Scalars("train/nll/forget_mul")) == 2


def test_counts_are_printed(flags, capsys):
    sft.main(flags(max_steps=1, replay_real=0.5))
    printed = capsys.readouterr().out
    assert "train (full): 5 people, 15 multimodal, 15 unimodal rows" in printed
    assert "replay (real): 2 people, 6 multimodal, 6 unimodal rows" in printed
