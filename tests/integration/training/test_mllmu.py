"""Every method on MLLMU-Bench's data: rows of `ft_Data`, the published presets, and the separate training layout."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import yaml

from umu_trainers import objectives, unlearn

ROOT = Path(__file__).parents[3]
SMALL = ROOT / "tests" / "fixtures" / "mllmu_small" / "data"
PRESETS = sorted((ROOT / "configs" / "unlearn" / "published" / "mllmu").glob("*.yaml"))
METHODS = objectives.available()
KWARGS = {"rmu": '{"hidden_layer": 1, "steering": 3.0}'}


@pytest.fixture
def train(flags, tmp_path, record, weights, checkpoint):
    """Run the script for two steps; returns its record, after seeing that the steps moved weights and broke none."""

    def run(*config, **changes):
        folder = tmp_path / "run"
        settings = {"benchmark": "mllmu", "modality": "mul", "forget_ratio": 5, "output_dir": folder, **changes}
        unlearn.main([*config, *flags(max_steps=2, per_device_train_batch_size=2, **settings)])
        before, after = weights(checkpoint), weights(folder)
        assert after.keys() == before.keys()
        assert all(torch.isfinite(one).all() for one in after.values())
        assert any(not torch.equal(one, before[name].to(one.dtype)) for name, one in after.items())
        return record(folder)

    return run


def rows_of(found, role):
    return found["data"][role]["rows"]


@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains_on_mllmu(train, method):
    """Forget and retain rows are the pairs of ft_Data, two a person, and not the one pair that their own rows hold."""
    found = train(method=method, method_kwargs=KWARGS.get(method), data=SMALL)
    assert found["data"]["source"] == str(SMALL)
    for role in ("forget", "retain") if "retain" in found["data"] else ("forget",):
        assert rows_of(found, role) == {"mul": 6}


def test_methods_with_a_retain_term_get_mllmu_s_retain_set(train):
    """`retain95`, not the celebrities of the published `Retain_Set`, who have some of the forgotten people's IDs."""
    assert train(method="gd", data=SMALL)["data"]["retain"]["split"] == "retain95"


@pytest.mark.parametrize("preset", PRESETS, ids=lambda path: path.stem)
def test_published_presets_train(train, checkpoint, preset):
    """As users type them, with a model that a test can load; all else is the preset's: LoRA targets, labels, phases."""
    written = yaml.safe_load(preset.read_text(encoding="utf-8"))
    reference = {"reference_model": checkpoint} if "reference_model" in written else {}
    own = dict.fromkeys(("benchmark", "modality", "learning_rate", "gradient_checkpointing", "save_strategy"))
    found = train("--config", str(preset), data=SMALL, use_lora=None, dtype="float32", **own, **reference)
    settings = found["settings"]
    assert (settings["method"], settings["benchmark"], settings["modality"]) == (preset.stem, "mllmu", "mul")
    assert settings["label_scope"] == "published"
    assert settings["learning_rate"] == 2e-5
    assert rows_of(found, "forget") == {"mul": 6}


def test_published_training_layout(train):
    """`MLLMMU/baseline_train_split`: image and metadata, no ID and no questions to score."""
    found = train(method="ga", data=SMALL / "baseline_train_split")
    assert found["data"]["forget"]["people"] == 3
    assert rows_of(found, "forget") == {"mul": 6}


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains_on_mini_in_both_modalities(train, method):
    """`--data mini`: its pairs come with and without portrait."""
    found = train(method=method, method_kwargs=KWARGS.get(method), data="mini", modality="mix", forget_ratio=10)
    assert set(rows_of(found, "forget")) == {"uni", "mul"}
    assert all(count > 0 for count in rows_of(found, "forget").values())
