"""What a frozen vision tower says about each image, computed once and kept in the CPU's memory.

A frozen tower gives the same image the same features in every step, pass and epoch. Kept are those of its layers that
the projector reads; the projector itself is cheap, and may be trained.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn
from transformers.integrations.deepspeed import is_deepspeed_zero3_enabled
from transformers.modeling_outputs import BaseModelOutputWithPooling

from umu_trainers.model import ADAPTER_WEIGHT, find_parts

# Families that give each image to the tower as one row and read named hidden states of it.
FAMILIES = ("llava", "vipllava")
ONE_SEQUENCE = ("pixtral",)  # towers that some of these have too, and that get all images as one sequence

_shown: ContextVar[Sequence[str] | None] = ContextVar("shown", default=None)


@contextmanager
def showing(keys: Sequence[str] | None) -> Iterator[None]:
    """Say which images the passes inside show, by what identifies each, in the order of `pixel_values`."""
    before = _shown.set(keys)
    try:
        yield
    finally:
        _shown.reset(before)


class ImageFeatures:
    """Stands before a vision tower and answers for it where it knows the image.

    Args:
        tower: a frozen vision tower; its `forward` is replaced.
        layers: indices of the hidden states that are read, as in the model's config.
        room_mb: memory for features, MiB; those of the images seen last are kept.
    """

    def __init__(self, tower: nn.Module, layers: Sequence[int], room_mb: int) -> None:
        self.layers = tuple(layers)
        self.kept: OrderedDict[str, Tensor] = OrderedDict()  # (layers, tokens, hidden) each
        self._room = room_mb * 2**20  # bytes left
        self._tower = tower
        self._forward = tower.forward
        tower.forward = self._answer

    def _answer(self, pixel_values: Tensor, *args: Any, **kwargs: Any) -> Any:
        """Return what the tower would, with no more than the hidden states that are read.

        Args:
            pixel_values: (images, channels, height, width).
        """
        keys = _shown.get()
        if keys is None or len(keys) != len(pixel_values):
            return self._forward(pixel_values, *args, **kwargs)
        features = {key: self.kept[key] for key in keys if key in self.kept}
        new = {key: number for number, key in enumerate(keys) if key not in features}  # each image once
        if new:
            computed = self._compute(pixel_values[list(new.values())], *args, **kwargs)
            features |= zip(new, computed, strict=True)
        for key in keys:
            self._keep(key, features[key])
        shown = torch.stack([features[key].to(pixel_values.device, non_blocking=True) for key in keys], dim=1)
        found: Any = dict(zip(self.layers, shown, strict=True))  # layer -> (images, tokens, hidden)
        return BaseModelOutputWithPooling(last_hidden_state=shown[-1], hidden_states=found)

    @torch.no_grad()
    def _compute(self, pixel_values: Tensor, *args: Any, **kwargs: Any) -> list[Tensor]:
        """Return the features (layers, tokens, hidden) of each image, without dropout."""
        was_training = self._tower.training
        self._tower.eval()
        try:
            states = self._forward(pixel_values, *args, **kwargs).hidden_states
        finally:
            self._tower.train(was_training)
        return list(torch.stack([states[layer] for layer in self.layers], dim=1))

    def _keep(self, key: str, features: Tensor) -> None:
        if key in self.kept:
            self.kept.move_to_end(key)
            return
        self.kept[key] = features.to("cpu", copy=True)  # of its own, not a part of its batch's memory
        self._room -= _bytes(features)
        while self._room < 0 and len(self.kept) > 1:
            self._room += _bytes(self.kept.popitem(last=False)[1])


def cache_image_features(model: Any, train: Collection[str], room_mb: int) -> ImageFeatures:
    """Have a model's vision tower remember what it has seen.

    Args:
        model: about to be trained; no new adapter on it yet.
        train: the parts that will be trained.

    Raises:
        ValueError: the tower is trained or carries an adapter, is divided between processes, is not one of
            `FAMILIES`', or does not give each image a row of its own.
    """
    base: Any = model.get_base_model() if hasattr(model, "get_base_model") else model
    config = base.config
    if config.model_type not in FAMILIES:
        raise ValueError(
            f"--cache_image_features: model type {config.model_type!r} is not supported; it is for "
            f"{', '.join(FAMILIES)}. Leave it off."
        )
    if config.vision_config.model_type in ONE_SEQUENCE:
        raise ValueError(
            f"--cache_image_features: a {config.vision_config.model_type} vision tower is not supported, since it "
            "reads all images of a batch as one sequence. Leave it off."
        )
    if is_deepspeed_zero3_enabled() or os.environ.get("ACCELERATE_USE_FSDP") == "true":
        raise ValueError(
            "--cache_image_features with ZeRO-3 or FSDP: a process that knows an image would not run the tower that "
            "the others wait for. Leave it off, or use ddp.yaml or zero2.yaml."
        )
    name = next(name for name, part in find_parts(base).items() if part == "vision_tower")
    tower: nn.Module = base.get_submodule(name)
    if "vision_tower" in train or any(ADAPTER_WEIGHT in one for one, _ in tower.named_parameters()):
        raise ValueError(
            "--cache_image_features: the vision tower is trained (or carries an adapter), so that its features change. "
            "Leave it off."
        )
    layers = getattr(config, "vision_feature_layers", None) or config.vision_feature_layer
    return ImageFeatures(tower, [layers] if isinstance(layers, int) else layers, room_mb)


def _bytes(features: Tensor) -> int:
    return features.numel() * features.element_size()
