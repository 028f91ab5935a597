"""An objective that compares with the model before unlearning gets exactly that model, at every step, in every mode."""

from __future__ import annotations

import shutil
import sys
from types import ModuleType

import pytest
import torch
from transformers import AutoModelForImageTextToText

from umu_trainers import objectives, sft, trainer, unlearn
from umu_trainers.outputs import run_pass


class Calls(list):
    """What an objective was called with, and the `batches` that passes ran on."""

    batches: list


@pytest.fixture
def seen(monkeypatch):
    """Register a method with a reference pass; returns the pairs (forget, forget_reference) of each call."""
    calls = Calls()
    calls.batches = []

    def run(model, batch, **settings):
        calls.batches.append(batch)
        return run_pass(model, batch, **settings)

    monkeypatch.setattr(trainer, "run_pass", run)

    def loss(forget, forget_reference):
        calls.append((forget, forget_reference))
        return (forget.logps - forget_reference.logps).mean()

    module = ModuleType("umu_trainers.objectives.compare")
    module.loss = loss
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(objectives, "available", lambda: ("compare", "ga", "gd"))
    monkeypatch.setattr(objectives.Objective, "try_out", lambda self: None)  # a call with made-up outputs
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


def test_reference_model_is_the_one_given(flags, seen, checkpoint, tmp_path):
    """MLLMU-Bench's NPO compares with a model that was trained on the retain set."""
    other = tmp_path / "other"
    sft.main(flags(split="retain95", max_steps=3, learning_rate=1e-2, output_dir=other))
    seen.batches.clear()
    unlearn.main(
        flags(method="compare", use_lora=True, reference_model=other, max_steps=1, per_device_train_batch_size=6)
    )
    model = AutoModelForImageTextToText.from_pretrained(other, dtype=torch.float32).eval()
    for forget, reference in seen[:2]:
        assert not torch.allclose(forget.logps, reference.logps, atol=1e-2)
    batch = seen.batches[0]
    with torch.no_grad():
        torch.testing.assert_close(run_pass(model, batch).logps, seen[0][1].logps, rtol=1e-4, atol=1e-4)


def test_reference_model_that_reads_other_inputs(flags):
    """NPO on text would compare log-probabilities of other tokens and say nothing."""
    with pytest.raises(ValueError, match=r"--reference_model mini: another vocabulary in its tokenizer, unlike"):
        unlearn.main(flags(method="npo", reference_model="mini", modality="uni"))


def test_reference_model_with_other_images(flags, checkpoint, tmp_path):
    from transformers import AutoProcessor

    other = tmp_path / "other"
    shutil.copytree(checkpoint, other)
    processor = AutoProcessor.from_pretrained(other)
    processor.image_processor.image_mean = [0.1, 0.2, 0.3]
    processor.save_pretrained(other)
    with pytest.raises(ValueError, match=r"other pixel_values for the same question and image, unlike --model"):
        unlearn.main(flags(method="npo", reference_model=other))


@pytest.mark.parametrize("use_lora", [False, True])
@pytest.mark.parametrize("method", ["npo", "dpo"])
def test_stored_log_probabilities_change_nothing_but_the_time(flags, record, weights, tmp_path, method, use_lora):
    settings = {"method": method, "use_lora": use_lora, "lora_r": 4, "lora_dropout": 0, "num_train_epochs": 2}
    for name, stored in (("run", False), ("stored", True)):
        unlearn.main(flags(**settings, precompute_reference=stored, output_dir=tmp_path / name))
    expected, found = (
        [one.get("loss") for one in record(tmp_path / one)["result"]["log"]] for one in ("run", "stored")
    )
    assert found[:-1] == pytest.approx(expected[:-1], rel=1e-4)
    torch.testing.assert_close(weights(tmp_path / "stored"), weights(tmp_path / "run"), rtol=1e-3, atol=1e-5)


def test_stored_log_probabilities_are_used_again_when_resuming(flags, tmp_path, monkeypatch, capsys):
    settings = {"method": "npo", "precompute_reference": True, "save_strategy": "steps", "save_steps": 1}
    unlearn.main(flags(**settings))
    assert "kept in" in capsys.readouterr().out
    (tmp_path / "run" / "training_record.json").unlink()
    shutil.rmtree(tmp_path / "run" / "checkpoint-2")
    monkeypatch.setattr("umu_trainers.reference.FrozenModel.prepare", lambda *_: pytest.fail("loaded again"))
    unlearn.main(flags(**settings, resume_from_checkpoint="last"))
    assert "from an earlier run" in capsys.readouterr().out


@pytest.mark.parametrize("method", ["kl", "undial"])
def test_methods_that_compare_distributions_are_refused(flags, method):
    with pytest.raises(ValueError, match=rf"--precompute_reference: method {method} needs more .*it serves dpo, npo"):
        unlearn.main(flags(method=method, precompute_reference=True))


def test_reference_settings_on_a_method_without_one(flags):
    with pytest.raises(ValueError, match=r"--reference_model: method ga compares with no reference model"):
        unlearn.main(flags(method="ga", reference_model="x"))
