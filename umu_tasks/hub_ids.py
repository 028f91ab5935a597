"""Names of models and data sets on the hub, told from paths."""

from __future__ import annotations

import re
from pathlib import Path

_OWNED = re.compile(r"\w[\w.-]*/\w[\w.-]*")
_PLAIN = re.compile(r"\w[\w.-]*")


def is_hub_id(name: str, *, needs_owner: bool = False) -> bool:
    """Tell ``owner/name`` from a path. What starts in an existing folder is a path with a mistake further on.

    Args:
        needs_owner: whether a name alone, which some old models have, is none.

    >>> is_hub_id("llava-hf/llava-1.5-7b-hf"), is_hub_id("gpt2"), is_hub_id("runs/mini/sft"), is_hub_id("./sft")
    (True, True, False, False)
    """
    if _OWNED.fullmatch(name) is not None:
        return not Path(name).parent.is_dir()
    return not needs_owner and _PLAIN.fullmatch(name) is not None
