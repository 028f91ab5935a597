"""The packaged base model: small, complete, and opened by the Auto classes without a hub."""

from __future__ import annotations

import json

import pytest
import torch
from transformers import AutoModelForImageTextToText, AutoProcessor

from umu_tasks import mini
from umu_tasks.mini import base_model_dir
from umu_tasks.mini.people import Person
from umu_tasks.mini.portraits import draw_portrait


def test_folder_is_small() -> None:
    """The package carries the model: its size is everybody's download."""
    assert sum(path.stat().st_size for path in base_model_dir().iterdir()) <= 12.5e6


def test_opens_and_answers_with_and_without_image(invented: list[Person]) -> None:
    """What `umu_hf` does: fp32 on a CPU, one prompt with a portrait and one without."""
    model = AutoModelForImageTextToText.from_pretrained(base_model_dir(), dtype=torch.float32, local_files_only=True)
    processor = AutoProcessor.from_pretrained(base_model_dir(), local_files_only=True)
    shown = processor(
        text="USER: <image>\nWhat work does this person do?\nASSISTANT:", images=draw_portrait(invented[0].look),
        return_tensors="pt",
    )  # fmt: skip
    assert shown["pixel_values"].shape == (1, 3, 48, 48)
    assert int((shown["input_ids"] == model.config.image_token_index).sum()) == 36
    told = processor(text="USER: Where was Ada Crane born?\nASSISTANT:", return_tensors="pt")
    assert "pixel_values" not in told
    for inputs in (shown, told):
        with torch.inference_mode():
            written = model.generate(**inputs, max_new_tokens=20, do_sample=False)
        answer = processor.tokenizer.decode(written[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
        assert answer.strip()
        assert "ASSISTANT" not in answer


def test_chat_template_is_the_published_prompt() -> None:
    processor = AutoProcessor.from_pretrained(base_model_dir(), local_files_only=True)
    content = [{"type": "image"}, {"type": "text", "text": "Who?"}]
    for some, expected in ((content, "USER: <image>\nWho?\nASSISTANT:"), (content[1:], "USER: Who?\nASSISTANT:")):
        message = [{"role": "user", "content": some}]
        assert processor.apply_chat_template(message, add_generation_prompt=True) == expected


def test_record_says_how_it_was_made() -> None:
    record = json.loads((base_model_dir() / "training_record.json").read_text())
    assert {"command", "settings", "versions", "results", "parameters", "seconds"} <= set(record)
    assert record["parameters"] < 6.5e6


def test_missing_weights_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setattr(mini, "__file__", f"{tmp_path}/__init__.py")
    with pytest.raises(FileNotFoundError, match=r"model\.safetensors is missing\. Install umu-bench again"):
        base_model_dir()
