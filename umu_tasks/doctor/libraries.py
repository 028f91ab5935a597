"""The versions that are installed, and those that are known not to work."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib import metadata

from packaging.requirements import Requirement

from umu_tasks.doctor.finding import Finding

DISTRIBUTION = "umu-bench"
# Why a version is refused, where the bound alone does not say it.
REASONS = {
    "filelock": "lmms-eval imports filelock._api, which filelock 4 removed",
    "transformers": "the image processors and caches of transformers 5 are used",
    "trl": "the trainers build on TRL 1",
}
OPTIONAL = ("deepspeed", "bitsandbytes", "vllm")
Version = Callable[[str], str | None]


def installed(name: str) -> str | None:
    """Return a distribution's version, None if it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def requirements() -> list[Requirement]:
    """Return what this package needs without extras.

    Raises:
        metadata.PackageNotFoundError: this package is not installed.
    """
    named = [Requirement(text) for text in metadata.requires(DISTRIBUTION) or []]
    return [one for one in named if one.marker is None or one.marker.evaluate({"extra": ""})]


def check_libraries(version: Version = installed, wanted: list[Requirement] | None = None) -> Iterator[Finding]:
    """Yield Python, then each library that is needed or may be.

    Args:
        version: gives the installed version of a distribution.
        wanted: what is needed; by default what this package says itself.
    """
    yield Finding("ok", "Python", ".".join(map(str, sys.version_info[:3])))  # an older one can't read this file
    try:
        wanted = requirements() if wanted is None else wanted
    except metadata.PackageNotFoundError:
        yield Finding("failed", DISTRIBUTION, "not installed", "Run `pip install -e .` in the repository.")
        return
    for one in wanted:
        yield _check(one, version(one.name))
    for name in OPTIONAL:
        have = version(name)
        yield Finding("ok", name, have or "not installed (optional)")


def _check(wanted: Requirement, have: str | None) -> Finding:
    fix = f'Run: pip install "{wanted.name}{wanted.specifier}"'
    if have is None:
        return Finding("failed", wanted.name, "not installed", fix)
    if not wanted.specifier.contains(have, prereleases=True):
        reason = f" ({REASONS[wanted.name]})" if wanted.name in REASONS else ""
        return Finding("failed", wanted.name, f"{have}, but {wanted.specifier} is needed{reason}", fix)
    return Finding("ok", wanted.name, have)


def check_plugin() -> Finding:
    """Return whether lmms-eval finds our model and tasks by itself."""
    named = {one.name for one in metadata.entry_points(group="lmms_eval.models")}
    if "umu_bench" in named:
        return Finding("ok", "lmms-eval plugin", "registered: umu_hf and the tasks are found by name")
    return Finding(
        "failed",
        "lmms-eval plugin",
        "not registered",
        "Install the package (pip install -e .), so that lmms-eval finds umu_hf and the tasks.",
    )
