"""What can be said about the weights behind a backend that isn't ours: its arguments may name a checkpoint."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from umu_tasks.backend.fingerprint import Stamp, adapter_fingerprint, weight_stamps, weights_fingerprint

# The names lmms-eval's own backends give a checkpoint, and an adapter on it.
_CHECKPOINT = ("pretrained", "model", "model_version", "model_path", "model_name", "path")
_ADAPTER = ("peft", "lora_path", "adapter")
NO_WEIGHTS = "the backend's arguments name no checkpoint on this machine (an API?), so its weights have no fingerprint"
CHANGED = "the weight files changed during the run, so they have no fingerprint"


@dataclass(frozen=True)
class StockModel:
    """A backend as the command names it, noted when the run starts.

    Attributes:
        stamps: the state of the weight files then: what is hashed later must be what was loaded.
    """

    backend: str
    arguments: dict[str, str] = field(default_factory=dict)
    stamps: tuple[Stamp, ...] = ()

    @classmethod
    def note(cls, backend: str, model_args: str | Mapping[str, Any] | None) -> StockModel:
        """Note what the command says about the model."""
        arguments = split_arguments(model_args)
        checkpoint = _checkpoint(arguments)
        return cls(backend, arguments, weight_stamps(checkpoint) if checkpoint else ())

    def provenance(self) -> dict[str, Any]:
        """Return what the result file says about the model; fingerprints are None, with a note, where there is none."""
        checkpoint = _checkpoint(self.arguments)
        adapter = next((self.arguments[name] for name in _ADAPTER if self.arguments.get(name)), None)
        changed = checkpoint is not None and weight_stamps(checkpoint) != self.stamps
        note = NO_WEIGHTS if checkpoint is None else CHANGED if changed else None
        return {
            "weights_fingerprint": None if checkpoint is None or changed else weights_fingerprint(checkpoint),
            "adapter_hash": None if adapter is None else adapter_fingerprint(adapter),
            "base": checkpoint or next((self.arguments[name] for name in _CHECKPOINT if name in self.arguments), None),
            "adapter": adapter,
            "prompt_style": "the backend's own",
            "dtype": self.arguments.get("dtype"),
            **({"weights_note": note} if note else {}),
        }


def split_arguments(model_args: str | Mapping[str, Any] | None) -> dict[str, str]:
    """Return ``name=value,name=value`` as a dict; a comma separates only where ``name=`` follows."""
    if isinstance(model_args, Mapping):
        return {str(name): str(value) for name, value in model_args.items()}
    parts = re.split(r",(?=\s*\w+=|\s*$)", (model_args or "").strip())
    pairs = (part.partition("=") for part in parts)
    return {name.strip(): value.strip() for name, equals, value in pairs if equals}


def by_content(model_args: str | Mapping[str, Any] | None) -> dict[str, str]:
    """Return the arguments with each checkpoint's and adapter's place exchanged for its fingerprint."""
    arguments = split_arguments(model_args)
    for names, fingerprint in ((_CHECKPOINT, weights_fingerprint), (_ADAPTER, adapter_fingerprint)):
        for name in names:
            found = fingerprint(arguments[name]) if arguments.get(name) else None
            if found is not None:
                arguments[name] = found
    return arguments


def _checkpoint(arguments: Mapping[str, str]) -> str | None:
    named = (arguments[name] for name in _CHECKPOINT if arguments.get(name))
    return next((place for place in named if weight_stamps(place)), None)
