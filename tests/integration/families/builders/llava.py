"""LLaVA-1.5, LLaVA-NeXT and LLaVA-OneVision."""

from __future__ import annotations

from typing import Any

from builders.parts import TEXT, VISION, Family, ids, make_tokenizer, spread

VICUNA = (  # images first, then the texts
    "{% for message in messages %}{{ message['role'] | upper }}: "
    "{% for part in message['content'] if part['type'] == 'image' %}{{ '<image>\n' }}{% endfor %}"
    "{% for part in message['content'] if part['type'] == 'text' %}{{ part['text'] + ' ' }}{% endfor %}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}"
)
MISTRAL = (
    "{% for message in messages %}{% if message['role'] == 'user' %}{{ '[INST] ' }}"
    "{% for part in message['content'] if part['type'] == 'image' %}{{ '<image>\n' }}{% endfor %}"
    "{% for part in message['content'] if part['type'] == 'text' %}{{ part['text'] }}{% endfor %}{{ ' [/INST]' }}"
    "{% else %}{{ ' ' + message['content'][0]['text'] + '</s>' }}{% endif %}{% endfor %}"
)
CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}"
    "{% for part in message['content'] if part['type'] == 'image' %}{{ '<image>\n' }}{% endfor %}"
    "{% for part in message['content'] if part['type'] == 'text' %}{{ part['text'] }}{% endfor %}"
    "{{ '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def llama_tokenizer() -> Any:
    return make_tokenizer(
        specials=["<unk>"], bos="<s>", eos="</s>", pad="<pad>", adds_bos=True, named={"image_token": "<image>"}
    )


def build_llava() -> tuple[Any, Any]:
    """24 pixels in patches of 8."""
    from transformers import (
        CLIPImageProcessor,
        CLIPVisionConfig,
        LlamaConfig,
        LlavaConfig,
        LlavaForConditionalGeneration,
        LlavaProcessor,
    )

    tokenizer = llama_tokenizer()
    processor = LlavaProcessor(
        image_processor=CLIPImageProcessor(size={"shortest_edge": 24}, crop_size={"height": 24, "width": 24}),
        tokenizer=tokenizer,
        patch_size=8,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=VICUNA,
    )
    config = LlavaConfig(
        vision_config=CLIPVisionConfig(**VISION, image_size=24, patch_size=8, projection_dim=32),
        text_config=LlamaConfig(**TEXT, **ids(tokenizer)),
        image_token_id=processor.image_token_id,
    )
    return spread(LlavaForConditionalGeneration(config)), processor


def build_llava_next() -> tuple[Any, Any]:
    """24-pixel views in patches of 8; an image is its small view and 2 to 4 parts."""
    from transformers import (
        CLIPVisionConfig,
        LlavaNextConfig,
        LlavaNextForConditionalGeneration,
        LlavaNextImageProcessor,
        LlavaNextProcessor,
        MistralConfig,
    )

    tokenizer = llama_tokenizer()
    views = [[24, 48], [48, 24], [48, 48]]
    processor = LlavaNextProcessor(
        image_processor=LlavaNextImageProcessor(
            size={"shortest_edge": 24}, crop_size={"height": 24, "width": 24}, image_grid_pinpoints=views
        ),
        tokenizer=tokenizer,
        patch_size=8,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=MISTRAL,
    )
    config = LlavaNextConfig(
        vision_config=CLIPVisionConfig(**VISION, image_size=24, patch_size=8, projection_dim=32),
        text_config=MistralConfig(**TEXT, num_key_value_heads=2, **ids(tokenizer)),
        image_token_id=processor.image_token_id,
        image_grid_pinpoints=views,
    )
    return spread(LlavaNextForConditionalGeneration(config)), processor


def build_llava_onevision() -> tuple[Any, Any]:
    """24-pixel views in patches of 8, SigLIP without a class token."""
    from transformers import (
        LlavaOnevisionConfig,
        LlavaOnevisionForConditionalGeneration,
        LlavaOnevisionImageProcessor,
        LlavaOnevisionProcessor,
        LlavaOnevisionVideoProcessor,
        Qwen2Config,
        SiglipVisionConfig,
    )

    tokenizer = make_tokenizer(
        specials=["<|im_start|>"],
        bos=None,
        eos="<|im_end|>",
        pad="<|endoftext|>",
        named={"image_token": "<image>", "video_token": "<video>"},
    )
    views = [[24, 48], [48, 24], [48, 48]]
    processor = LlavaOnevisionProcessor(
        image_processor=LlavaOnevisionImageProcessor(size={"height": 24, "width": 24}, image_grid_pinpoints=views),
        tokenizer=tokenizer,
        video_processor=LlavaOnevisionVideoProcessor(size={"height": 24, "width": 24}),
        num_image_tokens=9,
        vision_feature_select_strategy="full",
        chat_template=CHATML,
    )
    config = LlavaOnevisionConfig(
        vision_config=SiglipVisionConfig(**VISION, image_size=24, patch_size=8, vision_use_head=False),
        text_config=Qwen2Config(**TEXT, num_key_value_heads=2, **ids(tokenizer)),
        image_token_id=processor.image_token_id,
        video_token_id=processor.video_token_id,
        image_grid_pinpoints=views,
    )
    return spread(LlavaOnevisionForConditionalGeneration(config)), processor


def build_pixtral() -> tuple[Any, Any]:
    """LLaVA with Pixtral's vision tower, whose images keep their shape: up to 48 pixels in patches of 8."""
    from transformers import (
        LlavaConfig,
        LlavaForConditionalGeneration,
        MistralConfig,
        PixtralImageProcessor,
        PixtralProcessor,
        PixtralVisionConfig,
    )

    images = {"image_token": "[IMG]", "image_break_token": "[IMG_BREAK]", "image_end_token": "[IMG_END]"}
    tokenizer = make_tokenizer(
        specials=["<unk>", "[INST]", "[/INST]"], bos="<s>", eos="</s>", pad="<pad>", adds_bos=True, named=images
    )
    processor = PixtralProcessor(
        image_processor=PixtralImageProcessor(size={"longest_edge": 48}, patch_size={"height": 8, "width": 8}),
        tokenizer=tokenizer,
        patch_size=8,
        chat_template=MISTRAL.replace("<image>\n", "[IMG]"),
        **images,
    )
    config = LlavaConfig(
        vision_config=PixtralVisionConfig(
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=2,
            image_size=48,
            patch_size=8,
        ),
        text_config=MistralConfig(**TEXT, num_key_value_heads=2, head_dim=16, **ids(tokenizer)),
        image_token_id=tokenizer.convert_tokens_to_ids("[IMG]"),
        vision_feature_layer=-1,
        vision_feature_select_strategy="full",
    )
    return spread(LlavaForConditionalGeneration(config)), processor


# 24 / 8 = 3: 9 patches a view. A square image fills 2 x 2 views (6 x 6 patches, 6 line ends); one of 48 x 24 fills
# two side by side (6 x 3 patches, 3 line ends); both come with the 9 of the small view.
VIEWS = {(48, 48): 36 + 6 + 9, (48, 24): 18 + 3 + 9}
LLAVA = Family("llava", build_llava, {(48, 48): 9, (48, 24): 9}, "<image>", "ASSISTANT:", "</s>")
LLAVA_NEXT = Family("llava_next", build_llava_next, VIEWS, "<image>", " [/INST]", "</s>")
LLAVA_ONEVISION = Family(
    "llava_onevision", build_llava_onevision, VIEWS, "<image>", "<|im_start|>assistant\n", "<|im_end|>"
)
