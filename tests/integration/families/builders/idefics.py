"""Idefics2, Idefics3 and SmolVLM."""

from __future__ import annotations

from typing import Any

from builders.parts import TEXT, VISION, Family, ids, make_tokenizer, spread

TURNS = (
    "{% for message in messages %}{{ message['role'] | capitalize }}"
    "{{ ':' if message['content'][0]['type'] == 'image' else ': ' }}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}{{ '<image>' }}{% else %}{{ part['text'] }}{% endif %}{% endfor %}"
    "{{ '<end_of_utterance>\n' }}{% endfor %}{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}"
)
BEGUN = "{{ '<|im_start|>' }}" + TURNS
GRID = [f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7)]


def build_idefics2() -> tuple[Any, Any]:
    """Patches of 8 pixels, resampled to 4 tokens whatever the image's shape."""
    from transformers import (
        Idefics2Config,
        Idefics2ForConditionalGeneration,
        Idefics2ImageProcessor,
        Idefics2Processor,
    )

    tokenizer = make_tokenizer(
        specials=["<fake_token_around_image>", "<image>", "<end_of_utterance>"],
        bos="<s>",
        eos="</s>",
        pad="<unk>",
        adds_bos=True,
    )
    processor = Idefics2Processor(
        image_processor=Idefics2ImageProcessor(size={"shortest_edge": 16, "longest_edge": 32}),
        tokenizer=tokenizer,
        image_seq_len=4,
        chat_template=TURNS,
    )
    config = Idefics2Config(
        vision_config={**VISION, "image_size": 32, "patch_size": 8},
        perceiver_config={
            "hidden_size": 32,
            "resampler_n_latents": 4,
            "resampler_depth": 1,
            "resampler_n_heads": 2,
            "resampler_head_dim": 16,
            "num_key_value_heads": 1,
        },
        text_config={"model_type": "mistral", **TEXT, "num_key_value_heads": 2, **ids(tokenizer)},
        image_token_id=processor.image_token_id,
    )
    return with_turn_end(spread(Idefics2ForConditionalGeneration(config)), tokenizer), processor


def build_idefics3() -> tuple[Any, Any]:
    """Parts of 16 pixels in patches of 4, four of them merged into one token."""
    from transformers import (
        Idefics3Config,
        Idefics3ForConditionalGeneration,
        Idefics3ImageProcessor,
        Idefics3Processor,
    )

    tokenizer = make_tokenizer(
        specials=["<fake_token_around_image>", "<image>", "<end_of_utterance>", "<global-img>", *GRID],
        bos="<|begin_of_text|>",
        eos="<|end_of_text|>",
        pad="<pad>",
    )
    processor = Idefics3Processor(
        image_processor=Idefics3ImageProcessor(size={"longest_edge": 32}, max_image_size={"longest_edge": 16}),
        tokenizer=tokenizer,
        image_seq_len=4,
        chat_template="{{ '<|begin_of_text|>' }}" + TURNS,
    )
    config = Idefics3Config(
        vision_config={**VISION, "image_size": 16, "patch_size": 4},
        text_config={"model_type": "llama", **TEXT, **ids(tokenizer)},
        image_token_id=processor.image_token_id,
    )
    return with_turn_end(spread(Idefics3ForConditionalGeneration(config)), tokenizer), processor


def build_smolvlm() -> tuple[Any, Any]:
    """As Idefics3, with a begin token of its own kind."""
    from transformers import (
        SmolVLMConfig,
        SmolVLMForConditionalGeneration,
        SmolVLMImageProcessor,
        SmolVLMProcessor,
        SmolVLMVideoProcessor,
    )

    tokenizer = make_tokenizer(
        specials=["<fake_token_around_image>", "<image>", "<end_of_utterance>", "<global-img>", *GRID],
        bos="<|im_start|>",
        eos="<end_of_utterance>",
        pad="<|im_end|>",
    )
    processor = SmolVLMProcessor(
        image_processor=SmolVLMImageProcessor(size={"longest_edge": 32}, max_image_size={"longest_edge": 16}),
        tokenizer=tokenizer,
        video_processor=SmolVLMVideoProcessor(),
        image_seq_len=4,
        chat_template=BEGUN,
    )
    config = SmolVLMConfig(
        vision_config={**VISION, "image_size": 16, "patch_size": 4},
        text_config={"model_type": "llama", **TEXT, **ids(tokenizer)},
        image_token_id=processor.image_token_id,
    )
    return with_turn_end(spread(SmolVLMForConditionalGeneration(config)), tokenizer), processor


def with_turn_end(model: Any, tokenizer: Any) -> Any:
    """These models end a turn with a token that isn't the tokenizer's end token; the checkpoint says so."""
    model.generation_config.eos_token_id = [
        tokenizer.eos_token_id,
        tokenizer.convert_tokens_to_ids("<end_of_utterance>"),
    ]
    return model


# Parts of 16 pixels: a square of 32 is 2 x 2 of them and the whole, one of 32 x 16 is 2 x 1 and the whole; 4 tokens a
# part.
PARTS = {(48, 48): 5 * 4, (48, 24): 3 * 4}
IDEFICS2 = Family("idefics2", build_idefics2, {(48, 48): 4, (48, 24): 4}, "<image>", "Assistant:", "<end_of_utterance>")
IDEFICS3 = Family("idefics3", build_idefics3, PARTS, "<image>", "Assistant:", "<end_of_utterance>")
SMOLVLM = Family("smolvlm", build_smolvlm, PARTS, "<image>", "Assistant:", "<end_of_utterance>")
