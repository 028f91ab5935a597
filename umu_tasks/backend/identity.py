"""What a checkpoint's answers depend on besides the question: for the answer cache, and for the result file."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from accelerate.utils import broadcast_object_list

from umu_tasks.backend.checkpoint import Checkpoint, Location
from umu_tasks.backend.fingerprint import adapter_fingerprint, setup_fingerprint, weights_fingerprint


def model_identity(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return JSON values that are equal for models that answer alike, wherever they are stored.

    Rounding aside, batch size and number of processes change no answer, so they are no part of it.
    """
    model = checkpoint.model
    return {
        **_fingerprints(checkpoint.location),
        "prompt_style": checkpoint.builder.style,
        "dtype": str(model.dtype).removeprefix("torch."),
        "attn_implementation": getattr(model.config, "_attn_implementation", None),
        "device": model.device.type,
        "versions": {name: version(name) for name in ("torch", "transformers")},
    }


def _fingerprints(location: Location) -> dict[str, str | None]:
    """Hash the files in one process and tell the others, which would each read them all again."""
    import torch.distributed as dist

    alone = not (dist.is_available() and dist.is_initialized())
    found: list[dict[str, str | None]] = [{}]
    if alone or dist.get_rank() == 0:
        found[0] = {
            "weights": weights_fingerprint(location.base),
            "adapter": None if location.adapter is None else adapter_fingerprint(location.adapter),
            "config": setup_fingerprint(location.base),
            "processor": setup_fingerprint(location.processor),
        }
    if not alone:
        broadcast_object_list(found)
    return found[0]
