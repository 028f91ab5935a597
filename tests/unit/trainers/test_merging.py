from __future__ import annotations

import warnings

import pytest
import torch
from peft import IA3Config, LoraConfig, PeftModel, get_peft_model
from peft.tuners.lora import Linear
from torch import nn

from umu_trainers.guards import TrainingStopped
from umu_trainers.merging import merge, replace_adapter


@pytest.fixture(params=["lora", "dora"])
def adapted(request):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 4)).to(torch.bfloat16)
    config = LoraConfig(r=2, target_modules=["0", "2"], init_lora_weights=False, use_dora=request.param == "dora")
    return get_peft_model(model, config)


def test_the_merged_model_is_a_plain_one_with_the_adapters_answers(adapted):
    inputs = torch.randn(5, 8, dtype=torch.bfloat16)
    expected = adapted(inputs)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        merged = merge(adapted, torch.device("cpu"))
    assert [type(one) for one in merged] == [nn.Linear, nn.Tanh, nn.Linear]
    torch.testing.assert_close(merged(inputs), expected, rtol=0.05, atol=0.05)


def test_a_layer_without_room_on_the_device_is_merged_where_it_is(adapted, monkeypatch):
    inputs = torch.randn(5, 8, dtype=torch.bfloat16)
    before, expected = adapted.base_model.model[0].get_base_layer()(inputs), adapted(inputs)
    real, fails = Linear.to, iter([True, False, False, False, False, False])
    moved = []

    def to(layer, device):
        moved.append(device)
        if next(fails):
            raise torch.OutOfMemoryError("CUDA out of memory")
        return real(layer, device)

    monkeypatch.setattr(Linear, "to", to)
    merged = merge(adapted, torch.device("cpu"))
    assert len(moved) == 5  # there, back; back; there, back
    assert not torch.equal(merged[0](inputs), before)
    torch.testing.assert_close(merged(inputs), expected, rtol=0.05, atol=0.05)


def test_other_adapters_are_merged_once(monkeypatch):
    """Some types of peft's merge again what is merged already."""
    torch.manual_seed(0)
    base = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 4))
    model = get_peft_model(base, IA3Config(target_modules=["0"], feedforward_modules=[], init_ia3_weights=False))
    expected = model(torch.ones(1, 8))
    counted = []
    layer = model.base_model.model[0]
    real = type(layer).merge
    monkeypatch.setattr(
        type(layer), "merge", lambda self, *args, **kwargs: (counted.append(1), real(self, *args, **kwargs))
    )
    merged = merge(model, torch.device("cpu"))
    assert len(counted) == 1
    torch.testing.assert_close(merged(torch.ones(1, 8)), expected)


def test_a_full_disk_leaves_the_adapter_and_nothing_else(adapted, tmp_path):
    adapted.save_pretrained(tmp_path)
    before = sorted(one.name for one in tmp_path.iterdir())

    class Model:
        def save_pretrained(self, folder):
            folder.mkdir()
            (folder / "model-00001-of-00002.safetensors").write_bytes(b"some")
            raise OSError(28, "No space left on device")

    with pytest.raises(TrainingStopped, match=r"No space left on device.*adapter there is whole"):
        replace_adapter(tmp_path, Model())
    assert sorted(one.name for one in tmp_path.iterdir()) == before
    assert PeftModel.from_pretrained(nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 4)), tmp_path)
