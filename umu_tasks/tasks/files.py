"""Our task files, read without lmms-eval: names, settings, and the leaf tasks behind suites and groups."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

import umu_tasks.tasks
from umu_tasks.report.leaves import LeafName, parse_leaf


class _Loader(yaml.SafeLoader):
    """Reads `!function a.b.c` as the string a.b.c."""


def _dotted_name(loader: yaml.SafeLoader, node: yaml.Node) -> str:
    return str(node.value)


_Loader.add_constructor("!function", _dotted_name)


def task_path() -> Path:
    """Return the folder that holds our lmms-eval tasks, for `--include_path`."""
    return Path(umu_tasks.tasks.__file__).resolve().parent


def task_files() -> list[Path]:
    """Return the files of our tasks and groups."""
    return sorted(task_path().rglob("*.yaml"))


@functools.cache
def our_tasks() -> Mapping[str, Mapping[str, Any]]:
    """Return the name -> settings of every task and group of ours, includes merged, functions as their dotted names."""
    tasks: dict[str, dict[str, Any]] = {}
    for file in task_files():
        settings = read_task_file(file)
        tasks[task_name(settings)] = settings
    return tasks


def task_name(settings: Mapping[str, Any]) -> str:
    """Return the name a task file's settings register: the group's or the task's."""
    return str(settings["group"] if isinstance(settings.get("task"), list) else settings["task"])


def read_task_file(file: Path) -> dict[str, Any]:
    """Return a task file's settings, includes merged as lmms-eval merges them."""
    settings: dict[str, Any] = yaml.load(file.read_text(encoding="utf-8"), _Loader) or {}  # noqa: S506 - a SafeLoader
    included = settings.pop("include", [])
    merged: dict[str, Any] = {}
    for name in reversed([included] if isinstance(included, str) else included):
        merged |= read_task_file(file.parent / name)
    return merged | settings


def leaves_of(names: Sequence[str]) -> list[LeafName]:
    """Return the leaf tasks that our names among `names` stand for, suites and groups opened; others give none."""
    leaves: list[LeafName] = []
    for name in names:
        leaf = parse_leaf(name)
        leaves += [leaf] if leaf else leaves_of(_members(name))
    return leaves


def _members(name: str) -> Sequence[str]:
    """Return what a suite or group of ours is made of. They alone have a list at `task`."""
    members = our_tasks().get(name, {}).get("task")
    return members if isinstance(members, list) else ()
