"""Which weights answered: by content, wherever they lie and in however many files."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from umu_tasks.backend.fingerprint import (
    adapter_fingerprint,
    local_folder,
    setup_fingerprint,
    weight_stamps,
    weights_fingerprint,
)

TENSORS = {"a.weight": torch.arange(6.0).reshape(2, 3), "b.bias": torch.ones(4)}


def checkpoint(folder: Path, tensors=TENSORS, **metadata) -> str:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt", **metadata})
    return str(folder)


def sharded(folder: Path, tensors=TENSORS) -> str:
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    files = {name: f"model-0000{number}-of-00002.safetensors" for number, name in enumerate(tensors, start=1)}
    for name, file in files.items():
        save_file({name: tensors[name]}, folder / file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    return str(folder)


def test_folder_name_metadata_and_shards_do_not_count(tmp_path):
    """The same weights moved, saved again or split into shards would else look like another model."""
    one = weights_fingerprint(checkpoint(tmp_path / "llava-x"))
    assert one == weights_fingerprint(checkpoint(tmp_path / "run_17", saved_by="another library"))
    assert one == weights_fingerprint(sharded(tmp_path / "shards"))
    assert len(one) == 64


@pytest.mark.parametrize(
    "other",
    [
        {**TENSORS, "b.bias": torch.tensor([1.0, 1.0, 1.0, 1.0000001])},
        {**TENSORS, "a.weight": TENSORS["a.weight"].reshape(3, 2)},
        {**TENSORS, "b.bias": torch.ones(4).to(torch.bfloat16)},
        {"a.weight": TENSORS["a.weight"], "c.bias": TENSORS["b.bias"]},
        {"a.weight": TENSORS["a.weight"]},
    ],
    ids=["value", "shape", "type", "name", "missing"],
)
def test_every_difference_counts(tmp_path, other):
    """A model after one more training step must not be taken for the one before."""
    assert weights_fingerprint(checkpoint(tmp_path / "a")) != weights_fingerprint(checkpoint(tmp_path / "b", other))


def test_other_weights_at_the_same_place(tmp_path):
    """Training again into the same folder gives a file of the same size: what is remembered of the old one is void."""
    place = checkpoint(tmp_path / "out")
    before, stamps = weights_fingerprint(place), weight_stamps(place)
    save_file({**TENSORS, "b.bias": torch.zeros(4)}, tmp_path / "out" / "model.safetensors", metadata={"format": "pt"})
    os.utime(tmp_path / "out" / "model.safetensors", ns=(1, 1))
    assert weight_stamps(place) != stamps
    assert weights_fingerprint(place) != before


def test_left_over_shards_do_not_count(tmp_path):
    """transformers loads model.safetensors where there is one."""
    whole = checkpoint(tmp_path / "whole")
    before = weights_fingerprint(whole)
    save_file({"old": torch.ones(2)}, tmp_path / "whole" / "model-00001-of-00002.safetensors")
    assert weights_fingerprint(whole) == before


def test_pickled_weights_are_hashed_unopened(tmp_path):
    """Opening a pickle runs it."""
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"no pickle at all")
    first = weights_fingerprint(str(tmp_path))
    (tmp_path / "pytorch_model.bin").write_bytes(b"no pickle at alL")
    assert None is not first != weights_fingerprint(str(tmp_path))


def test_cut_off_file_is_named(tmp_path):
    place = checkpoint(tmp_path / "cut")
    file = tmp_path / "cut" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-8])
    with pytest.raises(ValueError, match=r"model\.safetensors: cut off, 8 bytes of .* are missing"):
        weights_fingerprint(place)


def test_nothing_to_hash(tmp_path):
    assert weights_fingerprint(str(tmp_path)) is None
    assert weights_fingerprint("gpt-4o") is None
    assert weights_fingerprint("no such/folder at all") is None


def test_hub_id_stands_for_its_snapshot(tmp_path, monkeypatch):
    """A model from the hub has the fingerprint of the same weights in a folder."""
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    repository = tmp_path / "models--someone--vlm"
    place = checkpoint(repository / "snapshots" / "0123abc")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0123abc")
    assert local_folder("someone/vlm") == Path(place)
    assert weights_fingerprint("someone/vlm") == weights_fingerprint(place)


def adapter(folder: Path, **settings) -> str:
    folder.mkdir()
    save_file({"lora_A": torch.ones(2, 2)}, folder / "adapter_model.safetensors")
    config = {"r": 2, "lora_alpha": 4, "target_modules": ["q_proj", "v_proj"], "base_model_name_or_path": "/a"}
    (folder / "adapter_config.json").write_text(json.dumps({**config, **settings}))
    return str(folder)


def test_adapter_counts_with_its_settings_but_not_its_base_path(tmp_path):
    """The same tensors with another alpha answer differently; on a base that was moved they don't."""
    one = adapter_fingerprint(adapter(tmp_path / "a"))
    moved = adapter(tmp_path / "b", base_model_name_or_path="/elsewhere", target_modules=["v_proj", "q_proj"])
    assert one == adapter_fingerprint(moved)
    assert one != adapter_fingerprint(adapter(tmp_path / "c", lora_alpha=8))
    assert adapter_fingerprint(str(tmp_path)) is None


def test_setup_is_what_decides_answers_besides_the_weights(tmp_path):
    """A changed tokenizer changes answers; a README or a training log does not."""
    place = checkpoint(tmp_path / "a")
    before = setup_fingerprint(place)
    (tmp_path / "a" / "README.md").write_text("hello")
    (tmp_path / "a" / "training_record.json").write_text("{}")
    assert setup_fingerprint(place) == before
    (tmp_path / "a" / "tokenizer.json").write_text("{}")
    assert setup_fingerprint(place) != before
