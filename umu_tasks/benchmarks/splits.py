"""Split names: the one name we use for each split and the many names found on disks and hubs."""

from __future__ import annotations

import re

FORGET_RATIOS: tuple[int, ...] = (5, 10, 15)
SPLITS: tuple[str, ...] = (
    *(f"forget{ratio:02d}" for ratio in FORGET_RATIOS),
    *(f"retain{100 - ratio}" for ratio in FORGET_RATIOS),
    "real",
    "full",
)

_PLAIN_ALIASES = {
    "real": "real",
    "realperson": "real",
    "realpersonset": "real",
    "realpeople": "real",
    "full": "full",
    "fullset": "full",
    "fulldata": "full",
}


def resolve_split(name: str) -> str | None:
    """Return our name for `name` (``forget_5``, ``Real_Person_Set``, ``full_data`` …), or None if it names no split.

    >>> resolve_split("Retain_95"), resolve_split("forget_5"), resolve_split("real_person")
    ('retain95', 'forget05', 'real')
    """
    squeezed = re.sub(r"[^a-z0-9]", "", name.lower())
    if squeezed in _PLAIN_ALIASES:
        return _PLAIN_ALIASES[squeezed]
    match = re.fullmatch(r"(forget|retain)(\d+)(set|data)?", squeezed)
    if match is None:
        return None
    canonical = f"{match[1]}{int(match[2]):02d}"
    return canonical if canonical in SPLITS else None


def retain_split(forget_split: str) -> str:
    """Return the retain split that complements `forget_split`: ``forget05`` -> ``retain95``."""
    return f"retain{100 - int(forget_split.removeprefix('forget'))}"


def is_forget(split: str) -> bool:
    return split.startswith("forget")


def is_to_be_forgotten(split: str) -> bool:
    """Return whether low scores are good on a split: forget sets, and the test sets that ask about the same people."""
    return split.startswith(("forget", "test"))
