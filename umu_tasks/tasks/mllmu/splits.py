"""MLLMU-Bench's split names. `Retain_Set` is not a retain set: it holds the real celebrities."""

from __future__ import annotations

import re

from umu_tasks.benchmarks import splits as shared

TEST = "test"
FINE_TUNING = "ft"
SPLITS: tuple[str, ...] = (*shared.SPLITS, TEST, FINE_TUNING)

# A task's split -> the split that holds its rows, and the one whose people are taken from it.
SUBSETS: dict[str, tuple[str, str]] = {
    f"{TEST}{ratio:02d}": (TEST, f"forget{ratio:02d}") for ratio in shared.FORGET_RATIOS
}

_OWN_ALIASES = {
    "retainset": "real",
    "celebrityset": "real",
    "celebrity": "real",
    "test": TEST,
    "testset": TEST,
    "testdata": TEST,
    "ft": FINE_TUNING,
    "ftdata": FINE_TUNING,
    "ftset": FINE_TUNING,
}


def resolve_split(name: str) -> str | None:
    """Return our name for `name` (``forget_5``, ``Retain_Set``, ``Test_Set`` …), or None if it names no split.

    >>> resolve_split("Retain_Set"), resolve_split("retain_95"), resolve_split("Test_Set"), resolve_split("ft_Data")
    ('real', 'retain95', 'test', 'ft')
    """
    squeezed = re.sub(r"[^a-z0-9]", "", name.lower())
    return _OWN_ALIASES.get(squeezed) or shared.resolve_split(name)


def is_test(split: str) -> bool:
    """Return whether a task's split is a part of the Test_Set: ``test05``, ``test10``, ``test15``."""
    return split.startswith(TEST)


def forget_split_of(test_split: str) -> str:
    """Return the forget split whose people a test split asks about: ``test05`` -> ``forget05``."""
    return f"forget{test_split.removeprefix(TEST)}"
