"""What a user can get wrong: each stops before or while training with a message that says what to do."""

from __future__ import annotations

import shutil

import pyarrow.parquet as pq
import pytest
import torch

from umu_tasks.benchmarks.errors import DataError
from umu_trainers import sft, unlearn
from umu_trainers.guards import TrainingStopped


def copy_data(data, folder):
    shutil.copytree(data, folder, copy_function=shutil.copyfile)
    return folder


def change(folder, split, edit):
    file = folder / split / "train-00000-of-00001.parquet"
    rows = edit(pq.read_table(file).to_pylist())
    schema = pq.read_schema(file)
    pq.write_table(pq.read_table(file).from_pylist(rows, schema=schema), file)


def test_overlap_of_forget_and_retain_names_the_person(flags, data, tmp_path):
    folder = copy_data(data, tmp_path / "data")
    stolen = pq.read_table(folder / "forget_5" / "train-00000-of-00001.parquet").to_pylist()[0]
    change(folder, "retain_95", lambda rows: [*rows, stolen])
    with pytest.raises(DataError, match=rf"forget05 and retain95.* {stolen['ID']}"):
        unlearn.main(flags(method="gd", data=folder))


def test_empty_retain_set_with_gd(flags, data, tmp_path):
    folder = copy_data(data, tmp_path / "data")
    nothing = "{'question': {}, 'answer': {}}"
    change(folder, "retain_95", lambda rows: [{**row, "MM_QA": nothing, "UM_QA": nothing} for row in rows])
    with pytest.raises(DataError, match=r"retain95: the retain set has no unimodal question-answer pairs"):
        unlearn.main(flags(method="gd", data=folder))
    unlearn.main(flags(method="ga", data=folder, max_steps=1))  # a method without retain term does not need it


def test_no_retain_split_with_gd(flags, data, tmp_path):
    folder = copy_data(data, tmp_path / "data")
    shutil.rmtree(folder / "retain_95")
    with pytest.raises(DataError, match="retain95"):
        unlearn.main(flags(method="gd", data=folder))


def test_ratio_the_data_does_not_have(flags):
    with pytest.raises(DataError, match=r"forget10.*forget05"):
        unlearn.main(flags(forget_ratio=10))


def test_max_length_shorter_than_the_image(flags):
    """Cutting image tokens would end deep in the model, dropping images in a run on text alone."""
    with pytest.raises(ValueError, match=r"row ID \d+, .*: its image alone takes 9 tokens, .*but max_length is 9"):
        unlearn.main(flags(max_length=9))


def test_rows_whose_answer_would_be_cut_are_counted_and_named(flags, record, tmp_path, capsys):
    unlearn.main(flags(method="ga", max_length=50, max_steps=1))
    found = record(tmp_path / "run")["data"]["forget"]
    kept, left_out = sum(found["rows"].values()), found["too_long"]
    assert left_out
    assert kept
    assert kept + len(left_out) == 12
    assert f"forget: {len(left_out)} rows skipped, since max_length would cut their answers: {left_out[0]}" in (
        capsys.readouterr().out
    )


def test_max_length_that_leaves_no_row(flags):
    with pytest.raises(DataError, match=r"no unimodal row of the forget set is within max_length"):
        unlearn.main(flags(max_length=12))


def test_model_folder_missing(flags, tmp_path):
    with pytest.raises(ValueError, match=r"--model .*no/such/run: .*no such folder"):
        unlearn.main(flags(model=tmp_path / "no/such/run"))


def test_model_folder_without_weights(flags, checkpoint, tmp_path):
    folder = tmp_path / "empty"
    shutil.copytree(checkpoint, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    with pytest.raises(ValueError, match=r"--model .*empty: .*without weights"):
        sft.main(flags(model=folder))


def test_text_only_model(flags, checkpoint, tmp_path):
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = LlamaConfig(vocab_size=400, **sizes)
    folder = tmp_path / "text"
    LlamaForCausalLM(config).save_pretrained(folder)
    with pytest.raises(ValueError, match=r"--model .*text: .*'llama' takes no images"):
        sft.main(flags(model=folder))


def test_a_reference_model_that_is_not_there_is_named_by_its_own_setting(flags):
    with pytest.raises(ValueError, match=r"--reference_model /nix: .*no such folder"):
        unlearn.main(flags(method="kl", reference_model="/nix"))


def test_a_layer_the_decoder_does_not_have_is_named_before_the_first_step(flags):
    with pytest.raises(ValueError, match=r"hidden_layer 3: this model's decoder has layers 1 to 2"):
        unlearn.main(flags(method="rmu", method_kwargs='{"hidden_layer": 3}'))
    with pytest.raises(ValueError, match=r"hidden_layer 2: is this model's last .*final norm.*one of 1 to 1"):
        unlearn.main(flags(method="rmu", method_kwargs='{"hidden_layer": 2}'))


def test_unknown_lora_module(flags):
    with pytest.raises(ValueError, match=r"--lora_modules c_attn: no such linear layer.*q_proj"):
        sft.main([*flags(use_lora=True), "--lora_modules", "c_attn"])


def test_published_prompt_on_a_model_of_another_family(flags, checkpoint, tmp_path):
    with pytest.raises(ValueError, match=r"prompt=chat: .*no chat template"):
        sft.main(flags(prompt="chat"))


def test_a_runaway_rate_stops_at_the_first_non_finite_loss(flags, tmp_path):
    """Gradient ascent with a huge rate: the run ends, names the step, and the last good checkpoint is still there."""
    arguments = flags(
        **{"method": "ga", "learning_rate": 1e38, "max_grad_norm": 0, "max_steps": 20},
        **{"lr_scheduler_type": "constant_with_warmup", "warmup_steps": 2, "save_strategy": "steps", "save_steps": 1},
    )
    with pytest.raises(TrainingStopped, match=r"step \d+: ") as stop:
        unlearn.main(arguments)
    folder = tmp_path / "run"
    assert not (folder / "training_record.json").exists()
    assert not (folder / "model.safetensors").exists()
    from safetensors.torch import load_file

    kept = sorted(folder.glob("checkpoint-*/model.safetensors"))
    assert kept, str(stop.value)
    assert all(bool(torch.isfinite(one).all()) for file in kept for one in load_file(file).values())
    assert str(kept[-1].parent) in str(stop.value)


def test_a_non_finite_loss_exits_with_its_message(flags, monkeypatch, capsys):
    monkeypatch.setattr("umu_trainers.objectives.ga.loss", lambda forget: forget.nll * float("nan"))
    with pytest.raises(SystemExit) as stop:
        unlearn.run.run_script(lambda: unlearn.main(flags(method="ga")))
    assert stop.value.code == 1
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("stopped: ")]
    assert "step 1: the loss is nan (" in line
    assert "nll/forget_uni" in line


def test_bound_on_the_forget_loss_ends_the_run_and_saves(flags, record, weights, tmp_path, capsys):
    arguments = {"method": "ga", "learning_rate": 1e-2, "max_steps": 30, "max_forget_loss": 6.5}
    saving = {"save_strategy": "steps", "save_steps": 1}
    unlearn.main(flags(**arguments, **saving))
    result = record(tmp_path / "run")["result"]
    assert result["stopped"].endswith("is above max_forget_loss 6.5")
    assert 1 < result["steps"] < 30
    assert f"step {result['steps']}: the forget loss" in capsys.readouterr().out
    losses = [one["nll/forget_uni"] for one in result["log"] if "nll/forget_uni" in one]
    assert len(losses) == result["steps"]

    # Taken up again at its last checkpoint, the run is over: one more step would go beyond the bound.
    ended = weights(tmp_path / "run")
    (tmp_path / "run" / "training_record.json").unlink()
    unlearn.main(flags(**arguments, **saving, resume_from_checkpoint="last"))
    again = record(tmp_path / "run")["result"]
    assert (again["steps"], again["stopped"]) == (result["steps"], result["stopped"])
    assert all(torch.equal(one, ended[name]) for name, one in weights(tmp_path / "run").items())


def test_a_last_step_that_breaks_the_model_is_not_saved(flags, tmp_path):
    """No loss is computed after the last update, so weights blown up by it would be saved as a finished run."""
    with pytest.raises(TrainingStopped, match=r"not finite"):
        unlearn.main(flags(method="gd", use_lora=False, learning_rate=1e30, max_steps=1))
    assert not (tmp_path / "run" / "training_record.json").exists()


def test_the_start_model_is_not_overwritten(flags, checkpoint):
    with pytest.raises(ValueError, match=r"--output_dir .*is the model that training starts from"):
        unlearn.main(flags(output_dir=checkpoint))
