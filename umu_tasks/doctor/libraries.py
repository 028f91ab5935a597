"""The versions that are installed, and those that are known not to work."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from importlib import metadata

from packaging.requirements import Requirement

from umu_tasks.doctor.finding import Finding

DISTRIBUTION = "umu-bench"
# Why a version is refused, where the bound alone does not say it.
REASONS = {
    "filelock": "lmms-eval imports filelock._api, which filelock 4 removed",
    "transformers": "before 5.6, accumulated gradients are too small; 6 is not tested",
    "huggingface_hub": "transformers 5 needs it",
    "trl": "the trainers build on TRL 1",
    "datasets": "TRL 1 needs it",
    "pyarrow": "datasets needs it",
    "deepspeed": "ZeRO-3 with adapters and gradient checkpointing fails before 0.19.3",
}
# What each is for, and the versions that work.
OPTIONAL = {
    "deepspeed>=0.19.3": "several GPUs with ZeRO",
    "bitsandbytes": "weights in 4 or 8 bits",
    "vllm": "lmms-eval's vllm model",
}
# Libraries that say themselves which versions of others they fit, and break in strange ways where these don't.
FRAGILE = ("torchvision", "transformers", "trl", "peft", "accelerate", "datasets")
Version = Callable[[str], str | None]


def installed(name: str) -> str | None:
    """Return a distribution's version, None if it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def requirements(name: str = DISTRIBUTION) -> list[Requirement]:
    """Return what a distribution needs without extras; by default, this package.

    Raises:
        metadata.PackageNotFoundError: it is not installed.
    """
    named = [Requirement(text) for text in metadata.requires(name) or []]
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
    for text, purpose in OPTIONAL.items():
        yield _check_optional(Requirement(text), version, purpose)


def check_fit(version: Version = installed, needs: Callable[[str], list[Requirement]] = requirements) -> Finding:
    """Return whether the libraries fit each other, by what they say of themselves.

    A torchvision made for another torch is the usual case: every image then fails with "operator does not exist".

    Args:
        version: gives the installed version of a distribution.
        needs: gives what a distribution needs.
    """
    wrong = [
        f"{name} {version(name)} needs {one.name}{one.specifier}, found {have}"
        for name in FRAGILE
        if version(name) is not None
        for one in needs(name)
        if (have := version(one.name)) is not None and not one.specifier.contains(have, prereleases=True)
    ]
    if wrong:
        advice = "Install them anew together: pip install --upgrade --force-reinstall umu-bench"
        return Finding("warning", "fit together", "; ".join(wrong), advice)
    return Finding("ok", "fit together", f"{', '.join(FRAGILE)} find the versions they ask for")


def _check_optional(wanted: Requirement, version: Version, purpose: str) -> Finding:
    have = version(wanted.name)
    if have is None:
        return Finding("ok", wanted.name, f"not installed; for {purpose} only")
    found = _check(wanted, have)
    return found if found.state == "ok" else Finding("warning", found.name, found.text, found.to_do)


def _check(wanted: Requirement, have: str | None) -> Finding:
    fix = f'Run: pip install "{wanted.name}{wanted.specifier}"'
    if have is None:
        return Finding("failed", wanted.name, "not installed", fix)
    if not wanted.specifier.contains(have, prereleases=True):
        reason = f" ({REASONS[wanted.name]})" if wanted.name in REASONS else ""
        return Finding("failed", wanted.name, f"{have}, but {wanted.specifier} is needed{reason}", fix)
    return Finding("ok", wanted.name, have)


def check_plugin() -> Finding:
    """Return whether lmms-eval finds our model and tasks by itself, and can be imported."""
    name = "lmms-eval plugin"
    named = {one.name: one for one in metadata.entry_points(group="lmms_eval.models")}
    if "umu_bench" not in named:
        advice = "Install the package (pip install -e .), so that lmms-eval finds umu_hf and the tasks."
        return Finding("failed", name, "not registered", advice)
    try:
        named["umu_bench"].load()
        importlib.import_module("lmms_eval.api.registry")
    except (ImportError, AttributeError, OSError) as error:
        return Finding("failed", name, f"{type(error).__name__}: {error}", "Install what it names, or umu-bench again.")
    return Finding("ok", name, "registered: umu_hf and the tasks are found by name")
