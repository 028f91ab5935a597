"""Objectives on families whose images are grids or tiles: every extra image input must reach the model in each pass."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from umu_trainers import objectives, unlearn

DATA = Path(__file__).parents[2] / "fixtures" / "umu_small" / "data"
# Together these need every kind of pass there is: with and without reference, refusals, retain rows, hidden states.
COVERING = ("dpo", "kl", "rmu")
FAMILIES = ("qwen2_5_vl", "smolvlm", "llava")


def cases():
    for family in FAMILIES:
        for method in objectives.available():
            is_quick = family == "qwen2_5_vl" and method in COVERING
            yield pytest.param(family, method, marks=[] if is_quick else pytest.mark.slow)


@pytest.mark.parametrize(("family", "method"), list(cases()))
def test_one_step_of_every_method(folder_of, tmp_path, family, method):
    """Trainers that white-list input names forget the pixels on a grid-based model, or stop at it."""
    settings = {
        "model": folder_of(family),
        "data": DATA,
        "output_dir": tmp_path / "run",
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
    }
    unlearn.main([text for name, value in settings.items() for text in (f"--{name}", str(value))])
    log = json.loads((tmp_path / "run" / "training_record.json").read_text(encoding="utf-8"))["result"]["log"]
    assert {"loss/uni", "loss/mul"} <= log[0].keys()
