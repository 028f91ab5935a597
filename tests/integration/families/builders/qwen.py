"""Qwen2-VL, Qwen2.5-VL and Qwen3-VL."""

from __future__ import annotations

from typing import Any

from builders.parts import TEXT, Family, ids, make_tokenizer, spread

SYSTEM = "{% if messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nBe helpful.<|im_end|>\n' }}{% endif %}"
TURNS = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}{{ '<|vision_start|><|image_pad|><|vision_end|>' }}"
    "{% else %}{{ part['text'] }}{% endif %}{% endfor %}{{ '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
# Two sizes a patch can't tell apart would be one test; these give 4 x 4 and 4 x 2 patches of 8 pixels.
PIXELS = {"shortest_edge": 16 * 16, "longest_edge": 32 * 32}


def make_processor(processor_class: Any, image_processor: Any, video_processor: Any, template: str) -> Any:
    tokenizer = make_tokenizer(
        specials=["<|im_start|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"],
        bos=None,
        eos="<|im_end|>",
        pad="<|endoftext|>",
    )
    return processor_class(
        image_processor=image_processor, tokenizer=tokenizer, video_processor=video_processor, chat_template=template
    )


def special_ids(tokenizer: Any) -> dict[str, int]:
    return {
        f"{name}_token_id": tokenizer.convert_tokens_to_ids(token)
        for name, token in {
            "image": "<|image_pad|>",
            "video": "<|video_pad|>",
            "vision_start": "<|vision_start|>",
            "vision_end": "<|vision_end|>",
        }.items()
    }


def rope() -> dict[str, Any]:
    """Positions in time, height and width share a head of 16: 8 rotation pairs."""
    return {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]}


def build_qwen2_vl() -> tuple[Any, Any]:
    """Patches of 8 pixels, four of them merged into one token."""
    from transformers import (
        Qwen2VLConfig,
        Qwen2VLForConditionalGeneration,
        Qwen2VLImageProcessor,
        Qwen2VLProcessor,
        Qwen2VLVideoProcessor,
    )

    processor = make_processor(
        Qwen2VLProcessor,
        Qwen2VLImageProcessor(patch_size=8, size=PIXELS),
        Qwen2VLVideoProcessor(patch_size=8, size=PIXELS),
        SYSTEM + TURNS,
    )
    config = Qwen2VLConfig(
        text_config={**TEXT, "num_key_value_heads": 2, "rope_parameters": rope(), **ids(processor.tokenizer)},
        vision_config={"depth": 2, "embed_dim": 32, "num_heads": 2, "hidden_size": 32, "patch_size": 8, "mlp_ratio": 2},
        **special_ids(processor.tokenizer),
    )
    return spread(Qwen2VLForConditionalGeneration(config)), processor


def build_qwen2_5_vl() -> tuple[Any, Any]:
    """Patches of 8 pixels, four merged into one token; one layer with windows, one without."""
    from transformers import (
        Qwen2_5_VLConfig,
        Qwen2_5_VLForConditionalGeneration,
        Qwen2_5_VLProcessor,
        Qwen2VLImageProcessor,
        Qwen2VLVideoProcessor,
    )

    processor = make_processor(
        Qwen2_5_VLProcessor,
        Qwen2VLImageProcessor(patch_size=8, size=PIXELS),
        Qwen2VLVideoProcessor(patch_size=8, size=PIXELS),
        SYSTEM + TURNS,
    )
    config = Qwen2_5_VLConfig(
        text_config={**TEXT, "num_key_value_heads": 2, "rope_parameters": rope(), **ids(processor.tokenizer)},
        vision_config={
            "depth": 2,
            "hidden_size": 32,
            "out_hidden_size": 32,
            "intermediate_size": 64,
            "num_heads": 2,
            "patch_size": 8,
            "window_size": 32,
            "fullatt_block_indexes": [1],
        },
        **special_ids(processor.tokenizer),
    )
    return spread(Qwen2_5_VLForConditionalGeneration(config)), processor


def build_qwen3_vl() -> tuple[Any, Any]:
    """As before, and the features of a middle vision layer go into the language model too; no system turn."""
    from transformers import (
        Qwen2VLImageProcessor,
        Qwen3VLConfig,
        Qwen3VLForConditionalGeneration,
        Qwen3VLProcessor,
        Qwen3VLVideoProcessor,
    )

    processor = make_processor(
        Qwen3VLProcessor,
        Qwen2VLImageProcessor(patch_size=8, size=PIXELS),
        Qwen3VLVideoProcessor(patch_size=8, size=PIXELS),
        TURNS,
    )
    config = Qwen3VLConfig(
        text_config={
            **TEXT,
            "num_key_value_heads": 2,
            "head_dim": 16,
            "rope_parameters": {**rope(), "mrope_interleaved": True},
            **ids(processor.tokenizer),
        },
        vision_config={
            "depth": 2,
            "hidden_size": 32,
            "out_hidden_size": 32,
            "intermediate_size": 64,
            "num_heads": 2,
            "patch_size": 8,
            "num_position_embeddings": 16,
            "deepstack_visual_indexes": [0],
        },
        **special_ids(processor.tokenizer),
    )
    return spread(Qwen3VLForConditionalGeneration(config)), processor


# 48 x 48 is shrunk to 32 x 32: 4 x 4 patches, 4 tokens. 48 x 24 is shrunk to 32 x 16, since the area may be at most
# 1024: 4 x 2 patches, 2 tokens.
TOKENS = {(48, 48): 4, (48, 24): 2}
QWEN2_VL = Family("qwen2_vl", build_qwen2_vl, TOKENS, "<|image_pad|>", "<|im_start|>assistant\n", "<|im_end|>")
QWEN2_5_VL = Family("qwen2_5_vl", build_qwen2_5_vl, TOKENS, "<|image_pad|>", "<|im_start|>assistant\n", "<|im_end|>")
QWEN3_VL = Family("qwen3_vl", build_qwen3_vl, TOKENS, "<|image_pad|>", "<|im_start|>assistant\n", "<|im_end|>")
