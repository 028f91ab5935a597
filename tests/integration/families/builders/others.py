"""InternVL, Gemma 3, Mllama, and PaliGemma, which is refused."""

from __future__ import annotations

from typing import Any

from builders.parts import TEXT, VISION, Family, ids, make_tokenizer, spread

INTERNVL_TURNS = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}{{ '<IMG_CONTEXT>\n' }}{% else %}{{ part['text'] }}{% endif %}{% endfor %}"
    "{{ '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
GEMMA_TURNS = (
    "{{ bos_token }}{% for message in messages %}"
    "{{ '<start_of_turn>' + ('model' if message['role'] == 'assistant' else message['role']) + '\n' }}"
    "{% for part in message['content'] %}{% if part['type'] == 'image' %}{{ '<start_of_image>' }}"
    "{% else %}{{ part['text'] | trim }}{% endif %}{% endfor %}{{ '<end_of_turn>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"
)
LLAMA3_TURNS = (
    "{{ bos_token }}{% for message in messages %}"
    "{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' }}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}{{ '<|image|>' }}{% else %}{{ part['text'] | trim }}{% endif %}{% endfor %}"
    "{{ '<|eot_id|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)


def build_internvl() -> tuple[Any, Any]:
    """Tiles of 16 pixels in patches of 4, four merged into one token: 4 tokens a tile."""
    from transformers import (
        GotOcr2ImageProcessor,
        InternVLConfig,
        InternVLForConditionalGeneration,
        InternVLProcessor,
        InternVLVideoProcessor,
    )

    tokenizer = make_tokenizer(
        specials=["<|im_start|>"],
        bos=None,
        eos="<|im_end|>",
        pad="<|endoftext|>",
        named={
            "start_image_token": "<img>",
            "end_image_token": "</img>",
            "context_image_token": "<IMG_CONTEXT>",
            "video_token": "<video>",
        },
    )
    processor = InternVLProcessor(
        image_processor=GotOcr2ImageProcessor(size={"height": 16, "width": 16}, max_patches=4),
        tokenizer=tokenizer,
        video_processor=InternVLVideoProcessor(size={"height": 16, "width": 16}),
        image_seq_length=4,
        chat_template=INTERNVL_TURNS,
    )
    config = InternVLConfig(
        vision_config={**VISION, "image_size": [16, 16], "patch_size": [4, 4]},
        text_config={"model_type": "qwen2", **TEXT, "num_key_value_heads": 2, **ids(tokenizer)},
        image_token_id=processor.image_token_id,
        image_seq_length=4,
    )
    return spread(InternVLForConditionalGeneration(config)), processor


def build_gemma3() -> tuple[Any, Any]:
    """16 pixels in patches of 4, pooled to 4 tokens, which see each other both ways; one layer with a short window."""
    from transformers import Gemma3Config, Gemma3ForConditionalGeneration, Gemma3ImageProcessor, Gemma3Processor

    tokenizer = make_tokenizer(
        specials=["<start_of_turn>", "<end_of_turn>"],
        bos="<bos>",
        eos="<eos>",
        pad="<pad>",
        adds_bos=True,
        named={
            "boi_token": "<start_of_image>",
            "eoi_token": "<end_of_image>",
            "image_token": "<image_soft_token>",
        },
    )
    processor = Gemma3Processor(
        image_processor=Gemma3ImageProcessor(size={"height": 16, "width": 16}),
        tokenizer=tokenizer,
        image_seq_length=4,
        chat_template=GEMMA_TURNS,
    )
    config = Gemma3Config(
        vision_config={**VISION, "image_size": 16, "patch_size": 4, "vision_use_head": False},
        text_config={
            **TEXT,
            "num_key_value_heads": 1,
            "head_dim": 16,
            "query_pre_attn_scalar": 16,
            "sliding_window": 32,
            "layer_types": ["sliding_attention", "full_attention"],
            **ids(tokenizer),
        },
        mm_tokens_per_image=4,
        boi_token_index=tokenizer.boi_token_id,
        eoi_token_index=tokenizer.eoi_token_id,
        image_token_index=tokenizer.image_token_id,
        tie_word_embeddings=False,  # tied, these wide weights would only ever repeat the last token
    )
    model = spread(Gemma3ForConditionalGeneration(config))
    model.generation_config.eos_token_id = [tokenizer.eos_token_id, tokenizer.convert_tokens_to_ids("<end_of_turn>")]
    return model, processor


def build_mllama() -> tuple[Any, Any]:
    """Tiles of 16 pixels, read by a cross-attention layer: one token marks the image, whatever its size."""
    from transformers import MllamaConfig, MllamaForConditionalGeneration, MllamaImageProcessor, MllamaProcessor

    tokenizer = make_tokenizer(
        specials=["<|start_header_id|>", "<|end_header_id|>", "<|python_tag|>"],
        bos="<|begin_of_text|>",
        eos="<|eot_id|>",
        pad="<|finetune_right_pad_id|>",
        adds_bos=True,
        named={"image_token": "<|image|>"},
    )
    processor = MllamaProcessor(
        image_processor=MllamaImageProcessor(size={"height": 16, "width": 16}, max_image_tiles=2),
        tokenizer=tokenizer,
        chat_template=LLAMA3_TURNS,
    )
    sizes = ids(tokenizer)
    config = MllamaConfig(
        vision_config={
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_global_layers": 1,
            "attention_heads": 2,
            "image_size": 16,
            "patch_size": 4,
            "max_num_tiles": 2,
            "intermediate_layers_indices": [0],
            "vision_output_dim": 64,
            "supported_aspect_ratios": [[1, 1], [1, 2], [2, 1]],
        },
        text_config={
            **TEXT,
            "num_hidden_layers": 3,
            "num_key_value_heads": 2,
            "cross_attention_layers": [1],
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
            **sizes,
        },
        image_token_index=processor.image_token_id,
    )
    return spread(MllamaForConditionalGeneration(config)), processor


def build_paligemma() -> tuple[Any, Any]:
    """16 pixels in patches of 8."""
    from transformers import (
        PaliGemmaConfig,
        PaliGemmaForConditionalGeneration,
        PaliGemmaProcessor,
        SiglipImageProcessor,
    )

    tokenizer = make_tokenizer(
        specials=[], bos="<bos>", eos="<eos>", pad="<pad>", adds_bos=True, named={"image_token": "<image>"}
    )
    images = SiglipImageProcessor(size={"height": 16, "width": 16})
    images.image_seq_length = 4
    processor = PaliGemmaProcessor(image_processor=images, tokenizer=tokenizer)
    config = PaliGemmaConfig(
        vision_config={"model_type": "siglip_vision_model", **VISION, "image_size": 16, "patch_size": 8},
        text_config={"model_type": "gemma", **TEXT, "num_key_value_heads": 1, "head_dim": 16, **ids(tokenizer)},
        image_token_index=tokenizer.image_token_id,
        projection_dim=32,
    )
    return spread(PaliGemmaForConditionalGeneration(config)), processor


# A square is cut into 2 x 2 tiles, one of 48 x 24 into 2 x 1; both come with the small view.
INTERNVL = Family(
    "internvl",
    build_internvl,
    {(48, 48): 5 * 4, (48, 24): 3 * 4},
    "<IMG_CONTEXT>",
    "<|im_start|>assistant\n",
    "<|im_end|>",
)
GEMMA3 = Family(
    "gemma3",
    build_gemma3,
    {(48, 48): 4, (48, 24): 4},
    "<start_of_image>",
    "<start_of_turn>model\n",
    "<end_of_turn>",
)
MLLAMA = Family(
    "mllama",
    build_mllama,
    {(48, 48): 1, (48, 24): 1},
    "<|image|>",
    "<|start_header_id|>assistant<|end_header_id|>\n\n",
    "<|eot_id|>",
)
