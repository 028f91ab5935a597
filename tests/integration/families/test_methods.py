"""Objectives on families whose images are grids or tiles: every extra image input must reach the model in each pass."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import pytest
import transformers
from safetensors.torch import load_file

from umu_trainers import objectives, unlearn

DATA = Path(__file__).parents[2] / "fixtures" / "umu_small" / "data"
# Together these need every kind of pass there is: with and without reference, refusals, retain rows, hidden states.
COVERING = ("dpo", "kl", "rmu")
# Family -> its class in transformers, and the image inputs that its forward pass takes.
FAMILIES = {
    "qwen2_5_vl": ("Qwen2_5_VLForConditionalGeneration", {"pixel_values", "image_grid_thw"}),
    "smolvlm": ("SmolVLMForConditionalGeneration", {"pixel_values", "pixel_attention_mask"}),
    "llava": ("LlavaForConditionalGeneration", {"pixel_values"}),
}
IMAGE_INPUTS = set().union(*(inputs for _, inputs in FAMILIES.values()))


def cases():
    for family in FAMILIES:
        for method in objectives.available():
            is_quick = family == "qwen2_5_vl" and method in COVERING
            yield pytest.param(family, method, marks=[] if is_quick else pytest.mark.slow)


@pytest.fixture
def image_inputs_of_passes(monkeypatch, family):
    """The names of the image inputs of each forward pass, in the order in which the passes run."""
    model_class, seen = getattr(transformers, FAMILIES[family][0]), []
    forward = model_class.forward

    @functools.wraps(forward)
    def spy(self, *args, **inputs):
        seen.append({name for name in IMAGE_INPUTS & inputs.keys() if inputs[name] is not None})
        return forward(self, *args, **inputs)

    monkeypatch.setattr(model_class, "forward", spy)
    return seen


@pytest.fixture
def unlearned(folder_of, tmp_path):
    """Run the script with one step of two rows a half; return the log's first entry, and the run's folder."""

    def run(family, method, **changes):
        folder = tmp_path / f"run_{len(list(tmp_path.iterdir()))}"
        settings = {
            "model": folder_of(family),
            "data": DATA,
            "output_dir": folder,
            "method": method,
            "gamma": 0.5,
            "max_steps": 1,
            "per_device_train_batch_size": 2,
            "lora_r": 2,
            "report_to": "none",
            "disable_tqdm": True,
            "save_strategy": "no",
            "logging_steps": 1,
            "use_cpu": True,
            "gradient_checkpointing": False,
            **({"method_kwargs": '{"hidden_layer": 1}'} if method == "rmu" else {}),
            **changes,
        }
        unlearn.main([text for name, value in settings.items() for text in (f"--{name}", str(value))])
        log = json.loads((folder / "training_record.json").read_text(encoding="utf-8"))["result"]["log"]
        return log[0], folder

    return run


@pytest.mark.parametrize(("family", "method"), list(cases()))
def test_one_step_of_every_method(unlearned, image_inputs_of_passes, family, method):
    """Trainers that white-list input names forget the pixels on a grid-based model, or stop at it."""
    log, folder = unlearned(family, method)
    assert {"loss/uni", "loss/mul"} <= log.keys()
    assert FAMILIES[family][1] in image_inputs_of_passes
    assert all(names in (set(), FAMILIES[family][1]) for names in image_inputs_of_passes)
    adapter = load_file(folder / "adapter_model.safetensors")
    assert any(one.any() for name, one in adapter.items() if "lora_B" in name), "they start at 0: no step was taken"


def test_accumulation_changes_no_step(unlearned):
    """transformers divides the loss by the number of micro-batches for Qwen's models, as they ask: ours is a sum.

    Its versions differ in how a trainer says so; where it goes unheard, the gradients are too small.
    """
    whole, _ = unlearned("qwen2_5_vl", "gd", bf16=False, lora_dropout=0.0)
    cut = {"per_device_train_batch_size": 1, "gradient_accumulation_steps": 2}
    split, _ = unlearned("qwen2_5_vl", "gd", bf16=False, lora_dropout=0.0, **cut)
    for name in ("loss", "grad_norm"):
        assert split[name] == pytest.approx(whole[name], rel=1e-3)


def test_a_seed_gives_the_same_adapter_again(unlearned):
    """TRL's versions differ in whether the seed is set before the adapter is made: runs could not be repeated."""
    first, again, other = (
        load_file(unlearned("llava", "ga", seed=seed)[1] / "adapter_model.safetensors") for seed in (5, 5, 6)
    )
    for name, one in first.items():
        assert one.equal(again[name])
    assert not all(one.equal(other[name]) for name, one in first.items())
