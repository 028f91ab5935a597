"""What a checkpoint folder must hold, told from file names alone."""

from __future__ import annotations

import json
import shutil

import pytest

from umu_tasks.backend.checkpoint import CheckpointError, Location, locate


@pytest.fixture
def base(tmp_path):
    folder = tmp_path / "a base"
    folder.mkdir()
    for name in ("config.json", "model.safetensors", "preprocessor_config.json"):
        (folder / name).write_text("{}")
    return folder


@pytest.fixture
def adapter(tmp_path, base):
    folder = tmp_path / "adapter"
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": str(base)}))
    (folder / "adapter_model.safetensors").touch()
    return folder


def test_checkpoint_folder(base):
    assert locate(str(base)) == Location(str(base), None, str(base))


def test_hub_id_is_left_to_the_hub():
    assert locate("owner/name", "owner/adapter") == Location("owner/name", "owner/adapter", "owner/name")


def test_adapter_folder_leads_to_its_base(base, adapter):
    """The processor is taken from the adapter's folder where training left one."""
    assert locate(str(adapter)) == Location(str(base), str(adapter), str(base))
    assert locate(str(adapter)) == locate(str(base), str(adapter))
    (adapter / "processor_config.json").touch()
    assert locate(str(adapter)).processor == str(adapter)


def test_base_may_be_named_relative_to_the_adapter(base, adapter):
    (adapter / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "../a base"}))
    assert locate(str(adapter)).base == str(adapter / "../a base")


@pytest.mark.parametrize("has_adapter_weights", [True, False])
def test_a_whole_model_with_an_adapter_beside_it_is_refused(base, adapter, has_adapter_weights):
    """A merged model saved into its adapter's folder: transformers would put the adapter on the merged weights."""
    if not has_adapter_weights:
        (adapter / "adapter_model.safetensors").unlink()
    for name in ("config.json", "model.safetensors"):
        shutil.copy(base / name, adapter)
    message = error_of(adapter)
    assert f"pretrained={adapter}: found a whole model (model.safetensors) and an adapter (adapter_config" in message
    assert "Move the whole model or the adapter (adapter_config.json, adapter_model.safetensors) into a" in message
    assert f"pretrained=BASE,peft={adapter}" in message


def test_that_adapter_on_its_base_is_asked_all_the_same(base, adapter):
    """What the refusal advises."""
    for name in ("config.json", "model.safetensors"):
        shutil.copy(base / name, adapter)
    assert locate(str(base), str(adapter)) == Location(str(base), str(adapter), str(base))


def test_a_base_with_an_adapter_beside_it_is_refused(base, adapter):
    """It would come in under the adapter that names it."""
    (base / "adapter_config.json").write_text("{}")
    assert f"pretrained={base}: found a whole model" in error_of(adapter)


def test_an_adapter_with_its_base_s_config_is_an_adapter(base, adapter):
    shutil.copy(base / "config.json", adapter)
    assert locate(str(adapter)) == Location(str(base), str(adapter), str(base))


def error_of(*arguments):
    with pytest.raises(CheckpointError) as error:
        locate(*map(str, arguments))
    return str(error.value)


def test_missing_folder(tmp_path):
    assert "no such folder. Give the folder of a checkpoint, or its hub id" in error_of(tmp_path / "x" / "y")
    assert "no such folder" in error_of(f"{tmp_path}/y")


def test_misspelt_relative_folder_is_not_sought_on_the_hub(tmp_path, monkeypatch):
    """`runs/sftt` looks like a hub id, but `runs` is a folder here."""
    (tmp_path / "runs").mkdir()
    monkeypatch.chdir(tmp_path)
    assert "pretrained=runs/sftt: no such folder" in error_of("runs/sftt")


def test_file_instead_of_folder(base):
    assert "is a file. Give the folder" in error_of(base / "config.json")


def test_folder_without_config(tmp_path):
    (tmp_path / "notes.txt").touch()
    assert "no config.json in this folder. Give the folder that `save_pretrained` wrote; found notes.txt" in error_of(
        tmp_path
    )


def test_folder_without_weights(base):
    """Optimizer and argument files of a training run are no weights."""
    (base / "model.safetensors").rename(base / "training_args.bin")
    assert "a checkpoint without weights: expected model.safetensors" in error_of(base)


def test_missing_shard(base):
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (base / "model.safetensors.index.json").write_text(json.dumps(index))
    (base / "model.safetensors").rename(base / "model-00001-of-00002.safetensors")
    assert "1 of 2 weight files that model.safetensors.index.json lists are missing: model-00002" in error_of(base)


def test_adapter_that_is_none(base, tmp_path):
    assert "peft=" in error_of(base, base)
    assert "expected adapter_config.json and adapter_model.safetensors; found config.json" in error_of(base, base)
    assert "no such folder. Give the folder of an adapter" in error_of(base, tmp_path / "nowhere" / "x")


def test_adapter_on_an_adapter(adapter):
    assert "is an adapter itself, so peft=other can't be put on it" in error_of(adapter, "other")


def test_adapter_without_base(adapter):
    (adapter / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": None}))
    assert f"names no base model. Give it: pretrained=BASE,peft={adapter}" in error_of(adapter)
    (adapter / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "/gone/away"}))
    assert "names the base model /gone/away, and there is no such folder" in error_of(adapter)


def test_an_adapter_on_another_base_is_pointed_out(base, adapter, tmp_path, caplog):
    """Its answers would read like strong forgetting."""
    other = tmp_path / "other base"
    shutil.copytree(base, other)
    locate(str(base), str(adapter))
    assert not caplog.records
    locate(str(other), str(adapter))
    assert f"was trained on {base}, not on pretrained={other}" in caplog.text
