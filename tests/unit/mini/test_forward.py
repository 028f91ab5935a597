"""The pre-training script's own forward pass computes what transformers' modules compute."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from transformers import LlavaForConditionalGeneration

from umu_tasks.mini import base_model_dir

SCRIPTS = Path(__file__).parents[3] / "scripts"


def test_written_out_pass_equals_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slip here would pre-train another model than the one that is saved and loaded."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    forward = __import__("mini_forward")
    assert Path(sys.modules["mini_forward"].__file__ or "").parent == SCRIPTS
    model = LlavaForConditionalGeneration.from_pretrained(base_model_dir(), dtype=torch.float32)
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(5, 2000, (3, 48), generator=generator)
    ids[1:, 4:40] = model.config.image_token_index  # rows 1 and 2 show a portrait
    pixels = torch.rand(2, 3, 48, 48, generator=generator)
    with torch.inference_mode():
        logits = model(input_ids=ids, pixel_values=pixels).logits[:, 44:47].flatten(0, 1)
        expected = torch.nn.functional.cross_entropy(logits, ids[:, 45:48].flatten())
        positions = (torch.arange(3)[:, None] * 48 + torch.arange(44, 47)).flatten()
        batch = forward.Batch(ids, torch.tensor([1, 2]), pixels, positions, ids.flatten()[positions + 1], 4)
        assert torch.allclose(forward.answer_loss(model, batch), expected, atol=1e-4)
