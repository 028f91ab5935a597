"""Merging an adapter into the weights it lies on, and a whole model taking its adapter's place in a folder."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from umu_trainers.guards import TrainingStopped

MERGED = ".merged.partial"  # in an output folder: the whole model, until all of it is written
_ADAPTER_FILES = ("adapter_config.json", "adapter_model.safetensors", "README.md")


def merge(model: Any, device: torch.device) -> Any:
    """Merge the adapter of a `PeftModel` into its weights, and return the plain model, where it was.

    Args:
        device: where the sums are computed, one layer after another, so that a model in the CPU's memory needs room for
            one layer on the GPU. What does not fit there is computed where it is, and so are adapters other than LoRA.
    """
    from peft.tuners.lora import LoraLayer

    for layer in [one for one in model.modules() if isinstance(one, LoraLayer)]:
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


def replace_adapter(folder: Path, model: Any) -> None:
    """Write a whole model into its adapter's folder, in the adapter's place.

    Raises:
        TrainingStopped: it can't be written, for lack of space say; the adapter is left as it was.
    """
    partial = folder / MERGED
    shutil.rmtree(partial, ignore_errors=True)  # of a run that was killed meanwhile
    try:
        model.save_pretrained(partial)
    except BaseException as error:
        shutil.rmtree(partial, ignore_errors=True)
        if isinstance(error, OSError | SafetensorError):
            raise TrainingStopped(
                f"--merge_adapter: the merged model could not be written to {folder}: {error}. "
                "The adapter there is whole and can be scored as it is."
            ) from error
        raise
    for name in _ADAPTER_FILES:
        (folder / name).unlink()
    # What makes the folder a model's comes last.
    for file in sorted(partial.iterdir(), key=lambda one: one.name == "config.json"):
        file.replace(folder / file.name)
    partial.rmdir()
