from __future__ import annotations

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import nn

from umu_tasks.backend.low_rank import LowRankLinear, shorten_adapter


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.first = nn.Linear(8, 6)
        self.last = nn.Linear(6, 5, bias=False)

    def forward(self, ids):
        return self.last(torch.tanh(self.first(self.embed(ids))))


def adapted(dtype=torch.float32, targets=("first", "last"), **settings):
    torch.manual_seed(0)
    settings = {"r": 3, "lora_alpha": 5, "init_lora_weights": False, "lora_dropout": 0.5, **settings}
    return get_peft_model(Net().to(dtype), LoraConfig(target_modules=list(targets), **settings)).eval()


IDS = torch.arange(10).view(2, 5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_answers_are_pefts(dtype):
    model, base = adapted(dtype), adapted(dtype).unload()
    expected = model(IDS)
    assert (expected - base(IDS)).abs().max() > 0.3, "an adapter that changes nothing would show nothing"
    assert shorten_adapter(model) == 2
    found = model(IDS)
    assert found.dtype == expected.dtype
    tolerance = 1e-6 if dtype == torch.float32 else 0.05
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
    assert not model.training
    assert all(not one.training for one in model.modules())


def test_what_model_code_reads_of_a_layer_is_there_as_before():
    model = adapted()
    first = model.base_model.model.first
    weight, bias = first.weight, first.bias
    shorten_adapter(model)
    first = model.base_model.model.first
    assert isinstance(first, LowRankLinear)
    assert first.weight is weight
    assert first.bias is bias
    assert (first.in_features, first.out_features) == (8, 6)


@pytest.mark.parametrize(
    ("settings", "replaced"),
    [
        ({"use_dora": True}, 0),
        ({"lora_bias": True, "targets": ("first",)}, 0),
        ({"dtype": torch.float16}, 0),
        ({"targets": ("embed", "first")}, 1),
        ({"use_rslora": True}, 2),
        ({"bias": "lora_only"}, 2),  # a bias of the layer itself, which stays its own
    ],
)
def test_only_plain_layers_are_replaced(settings, replaced):
    model = adapted(**settings)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "bias" in name:
                parameter.add_(1)
    expected = model(IDS)
    assert shorten_adapter(model) == replaced
    torch.testing.assert_close(model(IDS), expected, rtol=1e-6, atol=1e-6)


def test_two_adapters_one_that_is_off_and_one_that_is_merged_stay():
    two = adapted()
    two.add_adapter("other", LoraConfig(r=2, target_modules=["first"], init_lora_weights=False))
    two.base_model.set_adapter(["default", "other"])
    off = adapted()
    off.base_model.disable_adapter_layers()
    merged = adapted()
    merged.merge_adapter()
    for model in (two, off, merged):
        expected = model(IDS)
        assert shorten_adapter(model) == 0
        assert torch.equal(model(IDS), expected)


def test_a_model_without_an_adapter():
    assert shorten_adapter(Net()) == 0
