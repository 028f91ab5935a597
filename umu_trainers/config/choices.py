"""Settings that are one of a few values, and what is said of any other value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

Half = Literal["uni", "mul"]
# Unimodal before multimodal wherever both are run: with unused parameters DDP goes by the last pass, which must be the
# one that uses the most of the model.
HALVES: dict[str, tuple[Half, ...]] = {"mix": ("uni", "mul"), "uni": ("uni",), "mul": ("mul",)}
LabelScope = Literal["answer", "all_text", "published"]
LABEL_SCOPES: tuple[LabelScope, ...] = ("answer", "all_text", "published")
RETAIN_MODALITIES = ("same", "mix")
PHASES = ("together", "sequential")
LORA_INITS = ("gaussian", "default")
DTYPES = ("float32", "bfloat16", "float16")


def check_choice(name: str, value: object, choices: Sequence[str] | dict[str, Any]) -> None:
    """Raise a ValueError that lists the choices if `value` is none of them."""
    if value not in choices:
        raise ValueError(f"--{name} {value}: choose one of {', '.join(choices)}.")


def as_list(value: str | list[str]) -> list[str]:
    """Return the words of a text, or the list as it is: a YAML file may name one value without brackets."""
    return value.split() if isinstance(value, str) else value
