"""An objective that compares with the model before unlearning gets exactly that model, at every step, in every mode."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
import torch

from umu_trainers import objectives, sft, unlearn


@pytest.fixture
def seen(monkeypatch):
    """Register a method with a reference pass; returns the pairs (forget, forget_reference) of each call."""
    calls = []

    def loss(forget, forget_reference):
        calls.append((forget, forget_reference))
        return (forget.logps - forget_reference.logps).mean()

    module = ModuleType("umu_trainers.objectives.compare")
    module.loss = loss
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(objectives, "available", lambda: ("compare", "ga", "gd"))
    return calls


@pytest.mark.parametrize("mode", ["full", "fresh adapter", "adapter trained on"])
def test_reference_is_the_start_and_stays_it(flags, seen, tmp_path, mode):
    """With dropout in the adapter: the reference has none, or it would differ from itself."""
    settings = {"use_lora": mode != "full", "lora_r": 4, "lora_dropout": 0.5 if mode != "full" else 0.0}
    if mode == "adapter trained on":
        target = tmp_path / "target"
        sft.main(flags(**settings, max_steps=3, learning_rate=1e-2, output_dir=target))
        settings["model"] = target
    # Six rows a half in one batch: every step sees the same rows, in another order.
    unlearn.main(
        flags(**settings, method="compare", per_device_train_batch_size=6, num_train_epochs=4, learning_rate=1e-2)
    )
    for half in (0, 1):
        calls = seen[half::2]
        assert len(calls) == 4
        first = calls[0][1].logps.sort().values
        for forget, reference in calls:
            assert not reference.logps.requires_grad
            assert forget.logps.requires_grad
            torch.testing.assert_close(reference.logps.sort().values, first, rtol=1e-5, atol=1e-5)
        moved = calls[-1][0].logps - calls[-1][1].logps
        assert bool((moved.abs() > 1e-2).any()), "the model moved away from it"
    if mode == "full":
        torch.testing.assert_close(seen[0][0].logps, seen[0][1].logps, rtol=1e-5, atol=1e-5)


def test_full_training_leaves_no_trace_of_the_reference(flags, seen, weights, checkpoint, tmp_path):
    unlearn.main(flags(method="compare", max_steps=1))
    assert weights(tmp_path / "run").keys() == weights(checkpoint).keys()
