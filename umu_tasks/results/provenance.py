"""What made a results file: model, data, rules, seeds, versions."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from importlib import metadata
from typing import Any

from umu_tasks.benchmarks.sources import open_source
from umu_tasks.scoring import unpaired
from umu_tasks.scoring.answers import RULE_VERSIONS
from umu_tasks.scoring.bootstrap import LEVEL, RESAMPLES, SEED

PACKAGES = (
    "umu-bench", "lmms_eval", "torch", "transformers", "tokenizers", "peft", "accelerate", "datasets", "numpy",
    "pillow", "rouge-score", "rapidfuzz",
)  # fmt: skip
_SEEDS = ("random_seed", "numpy_seed", "torch_seed", "fewshot_seed")


def build_provenance(
    results: Mapping[str, Any], backend: str, model: Mapping[str, Any], leaves: Mapping[str, str]
) -> dict[str, Any]:
    """Return the block's ``provenance``.

    Args:
        results: lmms-eval's results, with its ``config`` (secrets already blacked out) and ``configs`` of the tasks.
        backend: the name given as `--model`.
        model: what the backend says about itself.
        leaves: leaf task -> its split.
    """
    config = results.get("config", {})
    return {
        "backend": backend,
        "model_args": config.get("model_args"),
        "batch_size": config.get("batch_size"),
        **model,
        "processes": int(os.environ.get("WORLD_SIZE", "1")),
        "data": data_provenance(leaves.items()),
        "max_new_tokens": {task: _token_limit(results, task) for task in leaves},
        "decoding": {task: _decoding(results, task) for task in leaves},
        "limit": config.get("limit"),
        "rule_versions": {**RULE_VERSIONS, **_own_rules(leaves)},
        "seeds": {name: config.get(name) for name in _SEEDS},
        "bootstrap": {"resamples": RESAMPLES, "seed": SEED, "level": LEVEL},
        "versions": versions(),
    }


def data_provenance(leaves: Iterable[tuple[str, str]]) -> dict[str, dict[str, Any]]:
    """Return benchmark -> source, its kind, and split -> fingerprint of the people in it.

    Args:
        leaves: name and split of each leaf task; a name starts with its benchmark's.
    """
    splits: dict[str, set[str]] = {}
    for task, split in leaves:
        splits.setdefault(task.partition("_")[0], set()).add(split)
    return {benchmark: _source(benchmark, sorted(names)) for benchmark, names in splits.items()}


def _source(benchmark: str, splits: Iterable[str]) -> dict[str, Any]:
    source = open_source(benchmark=benchmark)
    fingerprints = {split: source.load(split).fingerprint for split in splits}
    return {"source": source.spec, "kind": source.kind, "splits": fingerprints}


def _own_rules(tasks: Iterable[str]) -> dict[str, str]:
    """Return the versions of the rules that a benchmark has for itself."""
    benchmarks = {task.partition("_")[0] for task in tasks}
    return {name: version for name, version in unpaired.RULE_VERSIONS.items() if name in benchmarks}


def _token_limit(results: Mapping[str, Any], task: str) -> int | None:
    return _generation(results, task).get("max_new_tokens")


def _decoding(results: Mapping[str, Any], task: str) -> str:
    """Return how the task's answers were decoded: ``greedy``, or what was set otherwise."""
    settings = _generation(results, task)
    samples = float(settings.get("temperature") or 0) > 0
    named = ("temperature", "top_p", "top_k") if samples else ()
    beams = ("num_beams",) if int(settings.get("num_beams") or 1) > 1 else ()
    told = [f"{name}={settings[name]}" for name in (*named, *beams) if settings.get(name) is not None]
    return " ".join(("sampled" if samples else "greedy", *told))


def _generation(results: Mapping[str, Any], task: str) -> Mapping[str, Any]:
    return results.get("configs", {}).get(task, {}).get("generation_kwargs") or {}


def versions() -> dict[str, str]:
    """Return the versions of what computes the numbers; packages that are not installed are left out."""
    found = {"python": sys.version.split()[0]}
    for package in PACKAGES:
        try:
            found[package.replace("_", "-")] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found
