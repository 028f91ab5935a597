"""What has to be known about model families by name. Everything else is asked of the processor, template and config.

`docs/models.md` says which families were run and how.
"""

from __future__ import annotations

import inspect
from typing import Any

_INSTEAD = "Half of the questions show no image, so it can't be scored. Choose a model that also chats without one."

# model_type -> why no question without an image can be asked, where the model's signature does not say so.
NEEDS_IMAGE: dict[str, str] = {
    "paligemma": "its processor takes no prompt without an image, and it has no chat template: it was trained to "
    "continue one image and a short prefix",
}


def refusal(config: Any, model_class: type | None) -> str | None:
    """Return why a checkpoint of this family can't be scored, None if nothing speaks against it.

    Args:
        config: the checkpoint's config.
        model_class: the transformers class its weights would go into, None if the checkpoint brings its own code.
    """
    reason = NEEDS_IMAGE.get(config.model_type)
    if reason is None and model_class is not None and _requires_pixels(model_class):
        reason = f"{model_class.__name__} can't run without pixels"
    if reason is None:
        return None
    return f"model type {config.model_type!r} needs an image with every prompt ({reason}). {_INSTEAD}"


def _requires_pixels(model_class: type) -> bool:
    if getattr(model_class, "main_input_name", None) == "pixel_values":
        return True
    for name in ("forward", "generate"):
        parameter = inspect.signature(getattr(model_class, name)).parameters.get("pixel_values")
        if parameter is not None and parameter.default is inspect.Parameter.empty:
            return True
    return False


def mixes_modalities(processor: Any) -> bool:
    """Return whether rows with and without an image may go through the model in one batch.

    Models that read images by cross-attention (Mllama) switch those layers on for the whole batch, and a row without an
    image would then average over the other rows' image padding instead of skipping them.
    """
    return "cross_attention_mask" not in processor.model_input_names
