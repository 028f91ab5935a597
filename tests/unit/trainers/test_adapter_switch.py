"""The switches do what PEFT's own do, and leave the model as it was."""

from __future__ import annotations

import copy

import pytest
import torch
from peft import LoraConfig, get_peft_model
from peft.helpers import disable_input_dtype_casting
from torch import nn

from umu_trainers.adapter_switch import AdapterSwitch

OTHER = "other"


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.drop, self.head = nn.Linear(6, 6), nn.Dropout(0.5), nn.Linear(6, 3)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.head(self.drop(self.first(values)))


@pytest.fixture(params=[False, True], ids=["lora", "dora"])
def model(request):
    """Two adapters that change something, one a trained copy of the head, dropout everywhere, in training."""
    torch.manual_seed(0)
    settings = {"r": 2, "target_modules": ["first"], "modules_to_save": ["head"], "lora_dropout": 0.5}
    adapted = get_peft_model(Block(), LoraConfig(**settings, use_dora=request.param))
    adapted.add_adapter(OTHER, LoraConfig(**settings, use_dora=request.param))
    for name, weight in adapted.named_parameters():
        if "lora" in name or "modules_to_save" in name:
            weight.data = torch.randn_like(weight)
    adapted.set_adapter("default")
    adapted.train()
    adapted.base_model.model.drop.eval()  # not all modules are in the same mode
    return adapted


def state(model):
    return (
        [one.training for one in model.modules()],
        [(name, one.requires_grad) for name, one in model.named_parameters()],
        [one.active_adapters for one in model.modules() if hasattr(one, "active_adapters")],
        [one.disable_adapters for one in model.modules() if hasattr(one, "disable_adapters")],
    )


@pytest.mark.parametrize("adapter", [None, OTHER])
def test_as_peft_does_it(model, adapter):
    values = torch.randn(4, 6)
    before = state(model)
    switch = AdapterSwitch(model)
    with torch.no_grad(), switch.evaluating(), switch.off() if adapter is None else switch.using(adapter):
        found = model(values)
    assert state(model) == before
    theirs = copy.deepcopy(model).eval()
    with torch.no_grad():
        trained = theirs(values)
        if adapter is None:
            with theirs.disable_adapter():
                expected = theirs(values)
        else:
            theirs.set_adapter(adapter)
            expected = theirs(values)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    assert not torch.allclose(found, trained)


def test_an_error_leaves_it_as_it_was(model):
    before = state(model)
    switch = AdapterSwitch(model)
    with pytest.raises(KeyError), switch.evaluating(), switch.off():
        raise KeyError
    assert state(model) == before


def test_without_input_casts(model):
    """A layer that PEFT's context leaves alone, or one more, would show."""

    def enabled():
        return [one.cast_input_dtype_enabled for one in model.modules() if hasattr(one, "cast_input_dtype_enabled")]

    before = enabled()
    with disable_input_dtype_casting(model):
        expected = enabled()
    with AdapterSwitch(model).without_input_casts():
        assert enabled() == expected != before
    assert enabled() == before


def test_a_peft_that_switches_in_another_way(model, monkeypatch):
    from peft.tuners.tuners_utils import BaseTunerLayer

    monkeypatch.setattr(BaseTunerLayer, "disable_adapters", property(lambda self: False))
    expected = pytest.raises(RuntimeError, match=r"disable_adapters is False where True was set.*Install peft")
    with expected, AdapterSwitch(model).off():
        pass
