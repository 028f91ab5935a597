"""A LLaVA checkpoint of a few thousand parameters, built in memory and saved.

It has every part of the real one (vision tower, projector, decoder, processor) and the real classes, so what training
does to its weights and files is what it does to LLaVA-1.5's; only its answers mean nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    CLIPImageProcessor,
    CLIPVisionConfig,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
    PreTrainedTokenizerFast,
)

os.environ.setdefault("HF_HUB_OFFLINE", "1")
FIXTURES = Path(__file__).parents[2] / "fixtures" / "umu_small" / "data"
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
TEXT = ["USER: What is the occupation of this person? ASSISTANT: The person was born in Paris on 3 May 1980."]


def build_processor() -> LlavaProcessor:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<pad>", "<s>", "</s>", "<image>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXT, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        **SPECIAL,
        extra_special_tokens={"image_token": "<image>"},
    )
    images = CLIPImageProcessor(size={"shortest_edge": 24}, crop_size={"height": 24, "width": 24})
    return LlavaProcessor(
        image_processor=images,
        tokenizer=fast,
        patch_size=8,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
    )


def build_model(seed: int = 0, **text_settings: Any) -> LlavaForConditionalGeneration:
    torch.manual_seed(seed)
    vision = CLIPVisionConfig(
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        image_size=24,
        patch_size=8,
        projection_dim=16,
    )
    text = LlamaConfig(
        vocab_size=400,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
        **text_settings,
    )
    config = LlavaConfig(
        vision_config=vision,
        text_config=text,
        image_token_id=3,
        image_seq_length=9,
        vision_feature_layer=-2,
        tie_word_embeddings=True,
    )
    return LlavaForConditionalGeneration(config)


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved tiny LLaVA with its processor."""
    folder = tmp_path_factory.mktemp("tiny-llava")
    build_model().save_pretrained(folder)
    build_processor().save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def data() -> Path:
    """Seven people in the layout of UMU-Bench: forget05 of 2, retain95 of 3, real of 2, full of 5."""
    return FIXTURES


@pytest.fixture
def flags(checkpoint: Path, data: Path, tmp_path: Path) -> Callable[..., list[str]]:
    """Command-line flags of a small, quick, silent CPU run; keyword arguments add or replace flags."""

    def build(**changes: Any) -> list[str]:
        settings = {
            "model": checkpoint,
            "data": data,
            "output_dir": tmp_path / "run",
            "use_lora": False,
            "gradient_checkpointing": False,
            "per_device_train_batch_size": 4,
            "learning_rate": 1e-3,
            "num_train_epochs": 1,
            "logging_steps": 1,
            "save_strategy": "no",
            "report_to": "none",
            "disable_tqdm": True,
            "use_cpu": True,
            **changes,
        }
        return [text for name, value in settings.items() if value is not None for text in (f"--{name}", str(value))]

    return build


@pytest.fixture(scope="session")
def builder(checkpoint: Path) -> Any:
    """The tiny checkpoint's prompt builder."""
    from umu_tasks.backend.prompting import PromptBuilder

    return PromptBuilder(LlavaProcessor.from_pretrained(checkpoint), "published")


@pytest.fixture(scope="session")
def rows(data: Path) -> dict[str, list[Any]]:
    """Half -> rows of the forget set."""
    from umu_tasks.benchmarks.sources import open_source
    from umu_trainers.data import training_set

    return training_set("forget", open_source(str(data)).load("forget05"), ("uni", "mul")).rows


@pytest.fixture
def record() -> Callable[[Path], dict[str, Any]]:
    """Read a run's training record."""

    def read(folder: Path) -> dict[str, Any]:
        return json.loads((folder / "training_record.json").read_text(encoding="utf-8"))

    return read


@pytest.fixture
def weights() -> Callable[[Path], dict[str, torch.Tensor]]:
    """Read all weights of a saved model or adapter."""
    from safetensors.torch import load_file

    def read(folder: Path) -> dict[str, torch.Tensor]:
        return {name: one for file in sorted(folder.glob("*.safetensors")) for name, one in load_file(file).items()}

    return read
