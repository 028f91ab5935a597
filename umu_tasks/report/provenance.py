"""What made a run, as its results file recorded it, and where two runs differ in what must be equal to compare them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from umu_tasks.report.runs import Origin, RunResult

MUST_AGREE: dict[str, str] = {
    "data": r"^data\.\w+\.splits\.",
    "scoring rules": r"^rule_versions\.",
    "prompt style": r"^prompt_style$",
    "token limits": r"^max_new_tokens\.",
    "decoding": r"^decoding\.",
}
"""What it is -> pattern of its name in the record; names of nested parts are joined by dots."""


def flatten(record: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the values of a record with their dotted names, lists in one line, nothing for what is None or empty."""
    for name, value in record.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{name}.")
        elif value not in (None, "", []):
            yield f"{prefix}{name}", ", ".join(map(str, value)) if isinstance(value, list) else str(value)


_TOLD_ELSEWHERE = ("backend", "model_args", "batch_size", "limit")


def provenance_facts(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return label and value of what is recorded beyond lmms-eval's own settings, a group of values in one line."""
    facts: list[tuple[str, str]] = []
    for name, value in ((name, value) for name, value in record.items() if name not in _TOLD_ELSEWHERE):
        told = dict(flatten({name: value}))
        inner = {key.removeprefix(f"{name}."): one for key, one in told.items()}
        text = inner.get(name) or ", ".join(f"{key} {one}" for key, one in inner.items())
        facts += [(name.replace("_", " ").capitalize(), text)] if text else []
    return facts


def lmms_eval_version(origin: Origin) -> str:
    """Return the version that scored: lmms-eval itself notes the commit of the folder it was started in, if any."""
    versions = origin.provenance.get("versions")
    version = versions.get("lmms-eval") if isinstance(versions, Mapping) else None
    noted = "not recorded" if re.search(r"@[0-9a-f]{6,}$", origin.lmms_eval_version) else origin.lmms_eval_version
    return str(version or noted)


def differences(runs: Sequence[RunResult]) -> list[str]:
    """Say where the runs' data, rules or prompt style differ: their scores do not measure the same then."""
    return [told for what, pattern in MUST_AGREE.items() for told in _difference(runs, what, pattern)]


def same_models(runs: Sequence[RunResult]) -> list[str]:
    """Say where two runs have the same weights: a forgotten adapter scores like the model it was made for."""
    found: dict[tuple[object, object], list[str]] = {}
    for run in runs:
        models = {
            (one.provenance.get("weights_fingerprint"), one.provenance.get("adapter_hash")) for one in run.origins
        }
        for model in models:
            found.setdefault(model, []).append(run.name)
    return [
        f"{' and '.join(names)} have the same weights ({_short(str(weights))}): their scores are those of one model. "
        "Was an adapter left out?"
        for (weights, _), names in found.items()
        if weights and len(names) > 1
    ]


def _difference(runs: Sequence[RunResult], what: str, pattern: str) -> Iterator[str]:
    found: dict[str, dict[str, list[str]]] = {}
    for run in runs:
        for name, value in _recorded(run, pattern):
            known = found.setdefault(name, {}).setdefault(value, [])
            known += [run.name] if run.name not in known else []
    for name, by_value in found.items():
        if len(by_value) > 1:
            groups = " / ".join(f"{', '.join(names)}: {_short(value)}" for value, names in by_value.items())
            yield f"The runs differ in their {what} ({name}: {groups}). Their scores can't be compared."


def _recorded(run: RunResult, pattern: str) -> Iterator[tuple[str, str]]:
    for origin in run.origins:
        for name, value in flatten(origin.provenance):
            if re.search(pattern, name):
                yield name, value


def _short(value: str) -> str:
    return f"{value[:12]}…" if re.fullmatch(r"(sha256:)?[0-9a-f]{32,}", value) else value
