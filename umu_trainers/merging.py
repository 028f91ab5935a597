"""Merging an adapter into the weights it lies on."""

from __future__ import annotations

import warnings
from typing import Any

import torch


def merge(model: Any, device: torch.device) -> Any:
    """Merge the adapter of a `PeftModel` into its weights, and return the plain model, where it was.

    Args:
        device: where the sums are computed, one layer after another, so that a model in the CPU's memory needs room for
            one layer on the GPU. What does not fit there is computed where it is.
    """
    from peft.tuners.tuners_utils import BaseTunerLayer

    for layer in [one for one in model.modules() if isinstance(one, BaseTunerLayer)]:
        home = next(layer.parameters()).device
        try:
            layer.to(device)
            layer.merge()
        except torch.OutOfMemoryError:
            layer.to(home)
            layer.merge()
        layer.to(home)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="All adapters are already merged")
        return model.merge_and_unload()
