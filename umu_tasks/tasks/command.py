"""`umu tasks`: what is registered with lmms-eval, and where it lies."""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from umu_tasks import plugin
from umu_tasks.tasks import files
from umu_tasks.tasks.printed import is_printed

_SIGNS = {True: "+", False: "-", None: ""}  # higher_is_better


def register(commands: Any) -> None:
    """Add `umu tasks`."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "tasks",
        help="list the lmms-eval tasks of this package",
        description="List the tasks and groups this package adds to lmms-eval, with their metrics, and the folder they "
        "lie in. Exits with 1 if lmms-eval has a task of the same name, which would win.",
    )
    parser.add_argument(
        "--path",
        action="store_true",
        help='print the folder only: lmms-eval tasks list --include-path "$(umu tasks --path)"',
    )
    parser.add_argument("--json", action="store_true", help="print everything as one JSON object")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the list; return 1 if a name clashes with a task of lmms-eval."""
    if arguments.path:
        print(files.task_path())
        return 0
    tasks = files.our_tasks()
    if arguments.json:
        print(json.dumps(as_json(tasks), indent=2))
        return 0
    print("\n".join(describe(tasks)))
    print(f'\nInclude path: {files.task_path()}\nSee them in lmms-eval: lmms-eval tasks list --include-path "…"')
    clashes = builtin_clashes(tasks)
    for name, file in clashes.items():
        print(f"umu: {plugin.clash_message(name, file)}", file=sys.stderr)
    return 1 if clashes else 0


def describe(tasks: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return one line a task: suites and groups with their members, leaf tasks with their metrics."""
    groups = {name: one for name, one in tasks.items() if isinstance(one["task"], list)}
    leaves = {name: one for name, one in tasks.items() if name not in groups}
    width = max(map(len, tasks))
    lines = ["Groups:", *(f"  {name:{width}}  {', '.join(one['task'])}" for name, one in sorted(groups.items()))]
    lines += [
        "",
        "Tasks and their metrics (- lower is better, + higher is better, no sign: neither); acc_ and modality_gap",
    ]
    lines += ["also as _official and _strict, answers of _gen also by rouge1_, rouge2_ and bleu_ of mul and uni:"]
    for name, one in sorted(leaves.items()):
        shown = (metric for metric in one["metric_list"] if is_printed(metric["metric"]))
        metrics = (f"{metric['metric']}{_SIGNS[metric['higher_is_better']]}" for metric in shown)
        lines.append(f"  {name:{width}}  {' '.join(metrics)}")
    return lines


def as_json(tasks: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return groups with their members, leaf tasks with their metrics, and the folder they lie in."""
    groups = {name: one["task"] for name, one in tasks.items() if isinstance(one["task"], list)}
    leaves = {
        name: [
            {"metric": metric["metric"], "higher_is_better": metric["higher_is_better"]}
            for metric in one["metric_list"]
            if is_printed(metric["metric"])
        ]
        for name, one in tasks.items()
        if name not in groups
    }
    return {"groups": groups, "tasks": leaves, "include_path": str(files.task_path())}


def builtin_clashes(names: Iterable[str], folder: Path | None = None) -> dict[str, str]:
    """Return which of `names` lmms-eval's own tasks have too: name -> task file.

    Args:
        folder: lmms-eval's folder of tasks; by default that of the installed package, without importing it.
    """
    folder = folder or _builtin_folder()
    wanted = {name: name.encode() for name in names}
    clashes: dict[str, str] = {}
    for file in sorted(folder.rglob("*.yaml")) if folder else ():
        content = file.read_bytes()  # thousands of files: parse only those that hold a name at all
        if any(name in content for name in wanted.values()):
            for name in _registered_names(file) & wanted.keys():
                clashes[name] = str(file)
    return clashes


def _builtin_folder() -> Path | None:
    spec = importlib.util.find_spec("lmms_eval")
    return Path(spec.origin).parent / "tasks" if spec and spec.origin else None


def _registered_names(file: Path) -> set[str]:
    """Return the names a task file registers: its task or group, its tags."""
    settings = files.read_task_file(file)
    own = [settings["task"]] if isinstance(settings.get("task"), str) else []
    others = [settings[name] for name in ("group", "tag") if name in settings]
    return {name for one in [*own, *others] for name in ([one] if isinstance(one, str) else one)}
