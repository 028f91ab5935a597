"""Checkpoints of a given shape, made here and now: what speed figures need when no weights can be downloaded.

`mini` is UMU-mini's base model; `llava-1.5-7b` has LLaVA-1.5-7B's sizes, random weights, and UMU-mini's tokenizer.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import (
    AutoProcessor,
    CLIPVisionConfig,
    GenerationConfig,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
)

from umu_tasks.backend.arguments import BackendArguments
from umu_tasks.backend.checkpoint import Checkpoint, Location, load_checkpoint
from umu_tasks.backend.prompting import PromptBuilder
from umu_tasks.mini import base_model_dir

SHAPES = ("mini", "llava-1.5-7b")
IMAGE_SIZE, PATCH_SIZE = 336, 14  # 24 x 24 = 576 image tokens


def checkpoint_of(shape: str, device: torch.device, dtype: torch.dtype) -> Checkpoint:
    """Return a checkpoint of the shape that never ends an answer, so that every run writes equally many tokens."""
    if shape == "mini":
        name = str(dtype).removeprefix("torch.")
        whole = load_checkpoint(BackendArguments(str(base_model_dir()), dtype=name), device)
        model, builder = whole.model, whole.builder
    else:
        processor = large_processor()
        builder = PromptBuilder(processor, "published")
        model = random_llava(processor, device, dtype)
    model.generation_config = GenerationConfig(eos_token_id=None, pad_token_id=builder.pad_token_id)
    return Checkpoint(model, builder, Location(shape, None, shape), ())


def large_processor() -> Any:
    """Return UMU-mini's processor with LLaVA-1.5's image size."""
    processor = AutoProcessor.from_pretrained(base_model_dir())
    processor.patch_size = PATCH_SIZE
    side = {"shortest_edge": IMAGE_SIZE}, {"height": IMAGE_SIZE, "width": IMAGE_SIZE}
    processor.image_processor.size, processor.image_processor.crop_size = side
    return processor


def random_llava(processor: Any, device: torch.device, dtype: torch.dtype) -> LlavaForConditionalGeneration:
    """Return a model of LLaVA-1.5-7B's sizes with random weights, in evaluation mode."""
    vision = CLIPVisionConfig(
        hidden_size=1024,
        intermediate_size=4096,
        num_hidden_layers=24,
        num_attention_heads=16,
        image_size=IMAGE_SIZE,
        patch_size=PATCH_SIZE,
        projection_dim=768,
    )
    text = LlamaConfig(vocab_size=32064, max_position_embeddings=4096)  # the other defaults are Llama-2-7B's
    token = processor.tokenizer.convert_tokens_to_ids(processor.image_token)
    config = LlavaConfig(vision_config=vision, text_config=text, image_token_index=token, image_seq_length=576)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with device:  # made where it will be used: 14 GB don't travel
            model = LlavaForConditionalGeneration(config)
    finally:
        torch.set_default_dtype(before)
    return model.to(device=device, dtype=dtype).eval()


def with_adapter(model: Any, rank: int) -> Any:
    """Return the model with a random adapter on all linear layers of its decoder, in evaluation mode."""
    from peft import LoraConfig, get_peft_model

    layers = r".*language_model.*\.(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)"
    config = LoraConfig(r=rank, lora_alpha=rank // 2, target_modules=layers, init_lora_weights=False)
    return get_peft_model(model, config).eval()
