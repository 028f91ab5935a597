"""Ask the trainer itself whether it takes every setting a sweep may try, before the first trial starts.

The trainer's parser imports torch, so it runs in a program of its own: `python -m umu_trainers.sweep.check FILE`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from umu_tasks.benchmarks.errors import DataError
from umu_tasks.hub_ids import is_hub_id
from umu_trainers.sweep import space
from umu_trainers.sweep.config import SweepConfig
from umu_trainers.sweep.problems import nearest


@dataclasses.dataclass(frozen=True)
class Case:
    """Settings to try.

    Attributes:
        key: where in the sweep's file they come from.
    """

    key: str
    settings: Mapping[str, Any]


def missing_start(config: SweepConfig) -> str:
    """Return a sentence if the start model is a folder that is not there, "" otherwise; nothing is asked on the hub."""
    name = str(config.shared["model"])
    if Path(name).expanduser().exists() or is_hub_id(name):  # `mini` looks like one
        return ""
    return f"The start model {name} is not there: train it first, or set model under fixed."


def cases(config: SweepConfig) -> list[Case]:
    """Return the settings to try: each method's at every end of what is searched."""
    found = []
    for method, settings in config.settings.items():
        for name, values in space.extremes(config.spaces[method]):
            key = f"space.{name} of method {method}" if name else f"settings of method {method}"
            found.append(Case(key, space.apply(settings, values)))
    return found


def check(config: SweepConfig, variables: Mapping[str, str]) -> None:
    """Have the trainer parse all cases.

    Args:
        variables: the environment that trials run in.

    Raises:
        DataError: names the key of the first settings that the trainer refuses, and its reason.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "cases.json"
        file.write_text(json.dumps([dataclasses.asdict(one) for one in cases(config)], default=str), encoding="utf-8")
        command = [sys.executable, "-m", "umu_trainers.sweep.check", str(file)]
        ended = subprocess.run(command, capture_output=True, text=True, env=dict(variables), check=False)
    try:
        problem = json.loads(ended.stdout.splitlines()[-1])
    except (IndexError, ValueError) as error:
        raise DataError(f"{config.file.path}: the check of its settings failed:\n{ended.stderr[-2000:]}") from error
    if problem:
        raise config.file.problem(problem["key"], problem["text"])


def first_problem(found: Sequence[Case], folder: Path) -> dict[str, str] | None:
    """Return key and reason of the first case that the trainer refuses, None if it takes them all.

    Args:
        folder: where the settings are written for the trainer's parser.
    """
    from umu_trainers.config import UnlearnArguments

    known = {one.name for one in dataclasses.fields(UnlearnArguments)}
    for one in found:
        for name in one.settings:
            if name not in known:
                text = f"unlearn.py has no setting {name}.{nearest(name, known)} Its --help_all lists all."
                return {"key": one.key, "text": text}
    for one in found:
        if reason := _refused(one.settings, folder):
            return {"key": one.key, "text": reason}
    return None


def _refused(settings: Mapping[str, Any], folder: Path) -> str:
    from umu_trainers.config import UnlearnArguments, parse

    file = folder / "case.yaml"
    file.write_text(yaml.safe_dump({**settings, "output_dir": str(folder / "out")}), encoding="utf-8")
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            parse(UnlearnArguments, "", ["--config", str(file)])
    except (ValueError, TypeError) as error:
        return str(error).removeprefix(f"{file}: ")
    except SystemExit:
        return said.getvalue().strip().splitlines()[-1]
    return ""


def main(argv: Sequence[str] | None = None) -> int:
    file = Path((sys.argv[1:] if argv is None else argv)[0])
    found = [Case(**one) for one in json.loads(file.read_text(encoding="utf-8"))]
    print(json.dumps(first_problem(found, file.parent)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
