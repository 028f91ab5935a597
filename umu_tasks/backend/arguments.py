"""What `--model_args` may say to `umu_hf`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from umu_tasks.backend.prompting import PROMPT_STYLES, PromptStyle

DTYPES = ("float32", "bfloat16", "float16")
ATTENTION = ("eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention")


class ArgumentError(ValueError):
    """`--model_args` says something it can't."""


@dataclass(frozen=True, slots=True)
class BackendArguments:
    """Settings of the backend.

    Attributes:
        pretrained: folder or hub id of the checkpoint; an adapter folder that names its base will do.
        peft: folder or hub id of an adapter to put on it.
        prompt: ``published`` (the LLaVA-1.5 frame) or ``chat`` (the checkpoint's chat template); by default the one
            the checkpoint's training record names, else the first for LLaVA-1.5 and the second for all others.
        batch_size: questions answered at once, per process; None (``auto``): as many as fit into the memory. What turns
            out not to fit is tried again in smaller batches.
        share_images: compute a portrait's part of the prompt once for all questions about it, in families where that
            gives the same answers.
        device: ``cuda``, ``cuda:1``, ``cpu``; by default a GPU if there is one. Each process of `accelerate launch`
            takes its own.
        dtype: ``float32``, ``bfloat16`` or ``float16``; by default bfloat16 on a GPU and float32 on a CPU.
        attn_implementation: as in transformers; its own choice by default.
        trust_remote_code: run Python code that comes with the checkpoint.
        cache: folder that keeps finished answers, so that a killed run goes on where it stopped (`answer_cache`); the
            command's `--use_cache` does the same.
        system_prompt: instruction before every prompt: ``mllmu_prompting05`` (10, 15; ``umu_prompting05`` alike), a
            text file, or the text itself; see `system_prompts`.
    """

    pretrained: str
    peft: str | None = None
    prompt: PromptStyle | None = None
    batch_size: int | None = 1
    share_images: bool = True
    device: str | None = None
    dtype: str | None = None
    attn_implementation: str | None = None
    trust_remote_code: bool = False
    cache: str | None = None
    system_prompt: str | None = None


def parse_arguments(text: str, defaults: Mapping[str, Any] | None = None) -> BackendArguments:
    """Read ``pretrained=DIR,batch_size=8``.

    Args:
        text: the value of `--model_args`. A comma separates only where ``name=`` follows, so paths may hold commas and
            spaces, and no value is taken for a number because it looks like one.
        defaults: what lmms-eval's own flags say (`--batch_size`, `--device`); `text` wins.

    Raises:
        ArgumentError: an unknown name or a value that can't be; lists what is known.
    """
    parts = [part for part in re.split(r",(?=\s*\w+=|\s*$)", text.strip()) if part.strip()]
    values: dict[str, Any] = {name: value for name, value in (defaults or {}).items() if value is not None}
    for part in parts:
        name, equals, value = part.partition("=")
        if not equals:
            raise ArgumentError(f"model_args: expected name=value, found {part!r}.")
        values[name.strip()] = value.strip()
    return make_arguments(values)


def make_arguments(values: Mapping[str, Any]) -> BackendArguments:
    """Check names and values.

    Raises:
        ArgumentError: an unknown name or a value that can't be; lists what is known.
    """
    known = [field.name for field in fields(BackendArguments)]
    unknown = sorted(values.keys() - set(known))
    if unknown:
        raise ArgumentError(f"model_args: umu_hf doesn't know {', '.join(unknown)}. It knows: {', '.join(known)}.")
    if not values.get("pretrained"):
        raise ArgumentError("model_args: pretrained is missing. Give a checkpoint: --model_args pretrained=DIR_OR_ID.")
    return BackendArguments(**{name: _READERS[name](name, value) for name, value in values.items()})


def _text(name: str, value: Any) -> str | None:
    return None if value in (None, "", "None") else str(value)


def _place(name: str, value: Any) -> str | None:
    text = _text(name, value)
    return str(Path(text).expanduser()) if text is not None and text.startswith("~") else text


def _one_of(choices: tuple[str, ...]) -> Callable[[str, Any], Any]:
    def read(name: str, value: Any) -> str | None:
        text = _text(name, value)
        if text is not None and text not in choices:
            raise ArgumentError(f"model_args: {name}={text}: choose one of {', '.join(choices)}.")
        return text

    return read


def _batch_size(name: str, value: Any) -> int | None:
    if value is None or str(value).lower() == "auto":
        return None
    if isinstance(value, bool) or not re.fullmatch(r"\d+", str(value)) or int(value) < 1:
        raise ArgumentError(f"model_args: {name}={value}: expected a whole number of at least 1, or auto.")
    return int(value)


def _bool(name: str, value: Any) -> bool:
    text = str(value).lower()
    if text not in ("true", "false"):
        raise ArgumentError(f"model_args: {name}={value}: expected True or False.")
    return text == "true"


_READERS: dict[str, Callable[[str, Any], Any]] = {
    "pretrained": _place,
    "peft": _place,
    "prompt": _one_of(PROMPT_STYLES),
    "batch_size": _batch_size,
    "share_images": _bool,
    "device": _text,
    "dtype": _one_of(DTYPES),
    "attn_implementation": _one_of(ATTENTION),
    "trust_remote_code": _bool,
    "cache": _place,
    "system_prompt": _text,
}
