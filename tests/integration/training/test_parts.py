"""Which weights get an adapter, on model families whose layers share names across parts, and that each is trained."""

from __future__ import annotations

import pytest
import torch

from umu_trainers import run, sft, unlearn
from umu_trainers.config import SFTArguments, parse
from umu_trainers.model import describe_trained, lora_config, lora_targets


@pytest.fixture(scope="module")
def qwen():
    """Qwen2.5-VL of a few thousand parameters: its projector lies inside its tower, and layers share names."""
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

    text = {
        "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
        "num_key_value_heads": 2, "vocab_size": 300,
    }  # fmt: skip
    vision = {"depth": 2, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2, "out_hidden_size": 32}
    return Qwen2_5_VLForConditionalGeneration(Qwen2_5_VLConfig(text_config=text, vision_config=vision))


def settings(*flags):
    return parse(SFTArguments, "", ["--use_cpu", "true", "--output_dir", "out", *flags])


@pytest.mark.parametrize(
    ("train", "inside", "outside"),
    [
        (["language_model"], ("model.language_model.",), ("visual",)),
        (["projector"], ("model.visual.merger.",), ("language_model", "blocks")),
        (["vision_tower"], ("model.visual.blocks.",), ("language_model", "merger")),
        (["language_model", "projector"], ("model.language_model.", "model.visual.merger."), ("blocks",)),
    ],
)
def test_adapters_land_in_the_parts_asked_for(qwen, train, inside, outside):
    """`up_proj` is in Qwen's tower and decoder alike: a list of such names would put adapters on both."""
    names = lora_targets(qwen, train)
    assert names
    assert all(name.startswith(inside) for name in names)
    assert not [name for name in names for part in outside if part in name]
    assert {name for prefix in inside for name in names if name.startswith(prefix)} == set(names)


def test_the_stored_pattern_matches_these_layers_and_no_others(qwen):
    import copy
    import re

    from peft import get_peft_model

    config = lora_config(qwen, ["language_model"], settings())
    adapted = get_peft_model(copy.deepcopy(qwen), config)
    assert set(describe_trained(adapted).modules) == set(lora_targets(qwen, ["language_model"]))
    assert not re.fullmatch(config.target_modules, "model.visual.blocks.0.mlp.up_proj")


def test_suffix_names_reach_the_vision_tower_too(flags, weights, record, tmp_path, capsys):
    """As in the published scripts; a preset needs it, and the list of trained modules must say so."""
    arguments = flags(method="ga", use_lora=True, lora_r=2, max_steps=1)
    unlearn.main([*arguments, "--lora_target_modules", "q_proj", "v_proj"])
    modules = record(tmp_path / "run")["trained"]["modules"]
    assert any(".vision_tower." in name for name in modules)
    assert any(".language_model." in name for name in modules)
    assert all(name.endswith(("q_proj", "v_proj")) for name in modules)
    assert "vision_tower.encoder.layers.*.self_attn.q_proj" in capsys.readouterr().out


def test_unknown_suffix_lists_the_choices(flags):
    with pytest.raises(ValueError, match=r"--lora_target_modules c_attn: no such linear layer\. Choose from: .*q_proj"):
        unlearn.main([*flags(method="ga", use_lora=True), "--lora_target_modules", "c_attn"])


@pytest.mark.parametrize("train", [["language_model"], ["language_model", "projector", "vision_tower"]])
def test_checkpointing_gives_every_adapter_the_gradient_it_has_without(flags, monkeypatch, train):
    """Reentrant checkpointing under frozen embeddings once left all adapters untrained, without a word."""
    found = []
    monkeypatch.setattr(run, "save_run", lambda *_, **__: None)
    monkeypatch.setattr(run, "check_outputs", lambda _: None)
    for checkpointing in (False, True):
        grads = {}

        def note(self, args, state, control, model, grads=grads, **kwargs):
            trained = {name: one for name, one in model.named_parameters() if one.requires_grad}
            grads.update({name: torch.zeros(()) if one.grad is None else one.grad for name, one in trained.items()})

        monkeypatch.setattr("umu_trainers.guards.ForgetBound.on_pre_optimizer_step", note, raising=False)
        arguments = flags(
            **{"method": "ga", "use_lora": True, "lora_r": 2, "lora_dropout": 0, "max_steps": 1, "max_forget_loss": 99},
            **{"gradient_checkpointing": checkpointing, "output_dir": f"/nonexistent-{checkpointing}"},
        )
        monkeypatch.setattr(run, "note_start", lambda *_: None)
        unlearn.main([*arguments, "--train", *train])
        found.append(grads)
    plain, checkpointed = found
    assert plain.keys() == checkpointed.keys()
    torch.testing.assert_close(checkpointed, plain)
    # A fresh adapter's A has no gradient while its B is zero; LLaVA does not use the tower's last layer.
    moved = {name for name, one in checkpointed.items() if "lora_B" in name and bool(one.abs().sum() > 0)}
    asleep = {name for name in checkpointed if "lora_B" in name} - moved
    assert moved
    assert all("vision_tower" in name and "layers.1." in name for name in asleep), asleep


def test_dora_trains_and_opens(flags, weights, tmp_path):
    from umu_tasks.backend.arguments import BackendArguments
    from umu_tasks.backend.checkpoint import load_checkpoint

    sft.main(flags(use_lora=True, use_dora=True, lora_r=2, max_steps=2))
    assert any("magnitude" in name for name in weights(tmp_path / "run"))
    load_checkpoint(BackendArguments(pretrained=str(tmp_path / "run")), torch.device("cpu"))


def test_an_adapter_s_card_says_what_is_known_and_no_more(flags, checkpoint, tmp_path):
    sft.main(flags(use_lora=True, lora_r=2, max_steps=1, save_strategy="steps", save_steps=1))
    for folder in (tmp_path / "run", tmp_path / "run" / "checkpoint-1"):
        card = (folder / "README.md").read_text()
        assert str(checkpoint) in card
        assert "[More Information Needed]" not in card


@pytest.mark.parametrize("name", ["quantization", "use_dora", "lora_target_modules"])
def test_adapter_settings_without_adapters(flags, name):
    value = {"quantization": "4bit", "use_dora": True, "lora_target_modules": "q_proj"}[name]
    with pytest.raises(ValueError, match=rf"--{name}: for adapters only\. Set use_lora: true"):
        sft.main(flags(use_lora=False, **{name: value}))


def test_quantization_says_what_to_install(flags, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"--quantization 4bit: needs bitsandbytes\. Install it: pip install bitsandb"):
        sft.main(flags(use_lora=True, quantization="4bit"))


def test_qlora_trains_and_its_adapter_opens_on_the_whole_base(flags, weights, tmp_path):
    pytest.importorskip("bitsandbytes")
    from umu_tasks.backend.arguments import BackendArguments
    from umu_tasks.backend.checkpoint import load_checkpoint

    sft.main(flags(use_lora=True, quantization="4bit", lora_r=2, max_steps=2))
    assert all(bool(one.abs().sum() > 0) for name, one in weights(tmp_path / "run").items() if "lora_B" in name)
    load_checkpoint(BackendArguments(pretrained=str(tmp_path / "run")), torch.device("cpu"))
