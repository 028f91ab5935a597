"""Results files of lmms-eval: found, read as JSON, and what each says of its own making."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from umu_tasks.benchmarks.errors import DataError
from umu_tasks.report.leaves import LeafName, parse_leaf
from umu_tasks.report.runs import Origin

PATTERN = "*_results.json"
BLOCK, BLOCK_FORMAT = "umu", 1
HOW_TO_RUN = (
    "Run `lmms-eval --model umu_hf --model_args pretrained=DIR --tasks umu05 --output_path FOLDER --log_samples` and "
    "give that FOLDER."
)


class Results(NamedTuple):
    """One results file with its content."""

    file: Path
    content: dict[str, Any]

    @property
    def age(self) -> tuple[str, str]:
        return str(self.content.get("date") or self.file.name), str(self.file)

    @property
    def stamp(self) -> str:
        """The date that the names of all files of this evaluation start with."""
        return self.file.name.removesuffix(PATTERN.removeprefix("*"))

    @property
    def block(self) -> dict[str, Any]:
        """What our plugin wrote; empty for lmms-eval without it, and for a form that this version does not know."""
        block = self.content.get(BLOCK)
        return block if isinstance(block, dict) and block.get("format") == BLOCK_FORMAT else {}

    def summary(self, leaf: LeafName) -> dict[str, Any]:
        summary = part(self.block, "tasks").get(str(leaf))
        return summary if isinstance(summary, dict) else {}

    @property
    def scores(self) -> dict[str, dict[str, Any]]:
        """Name of a task or group -> what lmms-eval wrote of it."""
        return {name: values for name, values in self.content["results"].items() if isinstance(values, dict)}

    @property
    def leaves(self) -> list[LeafName]:
        """Our leaf tasks in it."""
        return [leaf for leaf in map(parse_leaf, self.scores) if leaf is not None]


def part(mapping: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the object under a name, an empty one where there is none."""
    found = mapping.get(name)
    return found if isinstance(found, dict) else {}


def read_results(folders: Sequence[Path]) -> list[Results]:
    """Return the results files in and below the folders, oldest first.

    Raises:
        DataError: a folder is missing or has none, or a file is no results file.
    """
    files = {file.resolve(): file for folder in folders for file in _results_files(folder)}
    return sorted((Results(file, _read_json(file)) for file in files.values()), key=lambda one: one.age)


def _results_files(folder: Path) -> list[Path]:
    if not folder.exists():
        raise DataError(f"no such folder. {HOW_TO_RUN}", file=str(folder))
    if not folder.is_dir():
        raise DataError(f"expected a result folder, found a file. {HOW_TO_RUN}", file=str(folder))
    files = sorted(folder.rglob(PATTERN))
    if not files:
        raise DataError(f"no {PATTERN} in or below it: nothing was scored here. {HOW_TO_RUN}", file=str(folder))
    return files


def _read_json(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        problem = f"not readable as JSON ({error}). It may have been cut off in writing: evaluate again, or delete it."
        raise DataError(problem, file=str(file)) from error
    if not isinstance(content, dict) or not isinstance(content.get("results"), dict):
        raise DataError("no object 'results', so no results file of lmms-eval. Move it away.", file=str(file))
    return content


def origin_of(results: Results) -> Origin:
    """Return what made a results file."""
    document = results.content
    config = document.get("config")
    config = config if isinstance(config, dict) else {}
    model_args = config.get("model_args")
    if isinstance(model_args, dict):
        model_args = ",".join(f"{name}={value}" for name, value in model_args.items())
    limit = config.get("limit")
    versions = document.get("versions")
    shown = ("batch_size", "gen_kwargs", "random_seed", "torch_seed")
    return Origin(
        file=results.file,
        model=str(config.get("model") or "unknown"),
        model_args=str(model_args or ""),
        date=_readable_date(str(document.get("date") or ""), part(config, "resolved_cli_args").get("timezone")),
        lmms_eval_version=str(document.get("lmms_eval_version") or "not recorded"),
        limit="" if limit in (None, -1, -1.0) else f"{limit:g}" if isinstance(limit, float) else str(limit),
        task_versions={name: str(version) for name, version in versions.items() if parse_leaf(name)}
        if isinstance(versions, dict)
        else {},
        settings={name: str(config[name]) for name in shown if config.get(name) not in (None, "")},
        provenance=part(results.block, "provenance"),
    )


def _readable_date(stamp: str, timezone: object = None) -> str:
    """Return lmms-eval's date with its time zone, which by default is Singapore's, wherever the run was."""
    match = re.fullmatch(r"(\d{4})(\d\d)(\d\d)_(\d\d)(\d\d)(\d\d)", stamp)
    date = "{}-{}-{} {}:{}:{}".format(*match.groups()) if match else stamp or "not recorded"
    return f"{date} ({timezone})" if match and timezone else date
