"""The packaged UMU-mini data, base model and configs, as the README's commands use them; a few steps each."""

from __future__ import annotations

from pathlib import Path

import pytest

from umu_trainers import sft, unlearn

CONFIGS = Path(__file__).parents[3] / "configs"
QUICK = {"report_to": "none", "disable_tqdm": "true", "logging_steps": "1"}


def arguments(config: str, output: Path, **changes: object) -> list[str]:
    settings = {"config": CONFIGS / config, "output_dir": output, **QUICK, **changes}
    return [text for name, value in settings.items() for text in (f"--{name}", str(value))]


def test_sft_lowers_the_loss_of_both_halves(tmp_path, record, capsys):
    sft.main(arguments("sft/mini.yaml", tmp_path / "sft", max_steps=8, per_device_train_batch_size=16))
    log = [one for one in record(tmp_path / "sft")["result"]["log"] if "loss" in one]
    for half in ("uni", "mul"):
        assert log[-1][f"nll/train_{half}"] < log[0][f"nll/train_{half}"]
    assert "train (full): 60 people, 360 multimodal, 360 unimodal rows" in capsys.readouterr().out


@pytest.mark.parametrize("method", ["ga", "gd"])
def test_unlearning_starts_from_any_checkpoint(tmp_path, record, method):
    """The base model knows nobody; its steps cost the same as the target model's."""
    settings = {"model": "mini", "max_steps": 2, "per_device_train_batch_size": 6, "forget_ratio": 10}
    unlearn.main(arguments(f"unlearn/mini/{method}.yaml", tmp_path / method, **settings))
    found = record(tmp_path / method)
    assert found["data"]["forget"]["rows"] == {"uni": 36, "mul": 36}
    assert found["result"]["steps"] == 2


def test_lora_on_mini(tmp_path, record):
    settings = {
        "model": "mini",
        "max_steps": 2,
        "per_device_train_batch_size": 4,
        "use_lora": "true",
        "modality": "uni",
    }
    unlearn.main(arguments("unlearn/mini/gd.yaml", tmp_path / "lora", **settings))
    assert (tmp_path / "lora" / "adapter_model.safetensors").is_file()
    assert len(record(tmp_path / "lora")["trained"]["modules"]) == 6 * 7
