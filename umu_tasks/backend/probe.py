"""Asks a checkpoint's processor two questions before its weights are loaded: it may not be able to ask them at all."""

from __future__ import annotations

from typing import Any

from umu_tasks.backend.prompting import PromptBuilder

QUESTION = "Where does this person live?"


def require_both_modalities(builder: PromptBuilder, config: Any) -> None:
    """Write and encode one question with an image and one without.

    Raises:
        ValueError: the question is not in the prompt, or the number of images in it is wrong; says what to do.
    """
    from PIL import Image

    portrait = Image.new("RGB", (64, 64), (120, 90, 60))
    for has_image in (False, True):
        kind = "a question with an image" if has_image else "a question without an image"
        prompt = builder.training(QUESTION, has_image=has_image)
        if QUESTION not in prompt:
            raise ValueError(
                f"prompt={builder.style}: the chat template leaves the question out of the prompt. Prompt of {kind}: "
                f"{prompt!r}. Repair the template (a message's content is a list of parts), or use the other style."
            )
        try:
            inputs = builder.encode([prompt], [[portrait] if has_image else []], padding_side="left")
        except Exception as error:
            raise ValueError(
                f"the processor can't encode {kind} ({type(error).__name__}: {error}). Prompt: {prompt!r}. Use the "
                "other prompt style (prompt=published or prompt=chat), or another model."
            ) from error
        tokens = count_image_tokens(inputs["input_ids"], image_token_id(config, builder.processor))
        if (tokens is not None and bool(tokens) != has_image) or ("pixel_values" in inputs) != has_image:
            raise ValueError(
                f"{kind} has {tokens} image tokens and image inputs {_names(inputs)}. Prompt: {prompt!r}. Check the "
                "chat template, or use the other prompt style (prompt=published or prompt=chat)."
            )


def image_token_id(config: Any, processor: Any) -> int | None:
    """Return the id of the token that stands for (a piece of) an image in `input_ids`, None if unknown."""
    for owner, name in ((config, "image_token_id"), (config, "image_token_index"), (processor, "image_token_id")):
        token = getattr(owner, name, None)
        if token is not None:
            return int(token)
    return None


def count_image_tokens(input_ids: Any, token_id: int | None) -> int | None:
    """Return how often the image token stands in `input_ids`."""
    return None if token_id is None else int((input_ids == token_id).sum())


def _names(inputs: dict[str, Any]) -> str:
    return ", ".join(sorted(inputs.keys() - {"input_ids", "attention_mask"})) or "none"
