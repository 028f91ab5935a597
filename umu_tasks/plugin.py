"""The `lmms_eval.models` entry point: makes our tasks and our backend known to lmms-eval.

lmms-eval has entry points for models only. It loads them when `lmms_eval.models` is imported, which its command does
before it makes its task index: the one moment at which an installed package can add tasks. `register` uses it to have
`TaskManager` index our folder as well, after lmms-eval's own and the user's, so that nobody's task is ever replaced,
and to complete the results file (`results.hooks`).
`lmms-eval tasks list` does not import the models; give it `--include-path "$(umu tasks --path)"`.
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from umu_tasks.backend import preflight
from umu_tasks.benchmarks.names import ANY_BENCHMARK
from umu_tasks.report.leaves import LeafName, parse_leaf
from umu_tasks.tasks.abort import EvaluationAborted
from umu_tasks.tasks.files import read_task_file, task_files, task_name, task_path

logger = logging.getLogger(__name__)

BACKEND = "umu_tasks.backend.umu_hf.UmuHf"
SUPPORTED = "lmms-eval >= 0.7.3, < 0.8"
_OUR_NAME = re.compile(rf"({ANY_BENCHMARK})(_|\d)\w*")
HINT = 'Pass --include_path "$(umu tasks --path)" to lmms-eval.'


def register() -> list[Any]:
    """Add our tasks to lmms-eval's index and return our models' manifests. Called by lmms-eval; never raises for tasks.

    lmms-eval drops the models of *all* plugins when one of them raises, so what goes wrong with the tasks is logged.
    """
    try:
        add_tasks()
        preflight.install()
    except Exception as error:  # noqa: BLE001 - whatever an unknown version of lmms-eval throws at us
        logger.error(
            "umu-bench can't add its tasks to lmms-eval %s (%s: %s); it supports %s. %s",
            version("lmms_eval"), type(error).__name__, error, SUPPORTED, HINT,
        )  # fmt: skip
    add_results()
    return manifests()


def add_results() -> None:
    """Have lmms-eval's results files say what our tasks' scores mean and what made them; see `results.hooks`."""
    try:
        from umu_tasks.results.hooks import install

        install()
    except Exception as error:  # noqa: BLE001 - as above
        logger.error(
            'umu-bench can\'t complete the results of lmms-eval %s (%s: %s); it supports %s. Lost: the "umu" block of '
            "the results file (intervals, validity, provenance), and exit status 1 for runs that are not valid.",
            version("lmms_eval"), type(error).__name__, error, SUPPORTED,
        )  # fmt: skip


def manifests() -> list[Any]:
    """Return the models we add: `umu_hf`, and for `llava` our backend where LLaVA-NeXT's package isn't installed."""
    from lmms_eval.models.registry_v2 import ModelManifest

    models = [ModelManifest(model_id="umu_hf", chat_class_path=BACKEND)]
    if not has_llava_next():
        models.append(ModelManifest(model_id="llava", chat_class_path=BACKEND))
    return models


def has_llava_next() -> bool:
    """Return whether LLaVA-NeXT's `llava` package is there, which lmms-eval's own `llava` model needs.

    A folder of that name (a checkpoint, say) in the working directory is no package: it has no `__init__.py`.
    """
    try:
        spec = importlib.util.find_spec("llava")
    except (ImportError, ValueError):
        return False
    return spec is not None and spec.origin is not None


# ---- tasks --------------------------------------------------------------------------------------------------------


def add_tasks() -> None:
    """Have every `TaskManager` that indexes lmms-eval's own tasks index ours after them.

    Also make it end the program on a misspelt name of ours: lmms-eval would report it and exit with success.

    Raises:
        RuntimeError: this lmms-eval builds its index in another way.
    """
    from lmms_eval.tasks import TaskManager

    build_index = getattr(TaskManager, "initialize_tasks", None)
    if build_index is None or "include_path" not in inspect.signature(build_index).parameters:
        raise RuntimeError("TaskManager.initialize_tasks(include_path=…) is missing")
    if not hasattr(build_index, "adds_umu_tasks"):
        TaskManager.initialize_tasks = _with_our_tasks(build_index)
        TaskManager.match_tasks = _refusing_unknown_names(TaskManager.match_tasks)


def _with_our_tasks(build_index: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    @functools.wraps(build_index)
    def initialize_tasks(
        self: Any, include_path: str | list[str] | None = None, include_defaults: bool = True, **kwargs: Any
    ) -> dict[str, Any]:
        given = [include_path] if isinstance(include_path, str) else list(include_path or [])
        ours = str(task_path())
        asked_for = any(os.path.realpath(path) == ours for path in given)
        if not include_defaults or asked_for:
            return build_index(self, include_path=include_path, include_defaults=include_defaults, **kwargs)
        index = build_index(self, include_path=[*given, ours], include_defaults=include_defaults, **kwargs)
        for name, file in hidden_tasks(index).items():
            logger.warning("%s", clash_message(name, file))
        return index

    initialize_tasks.adds_umu_tasks = True  # type: ignore[attr-defined]
    return initialize_tasks


def _refusing_unknown_names(match_tasks: Callable[..., list[str]]) -> Callable[..., list[str]]:
    @functools.wraps(match_tasks)
    def checked(self: Any, task_list: str | list[str]) -> list[str]:
        found = match_tasks(self, task_list)
        _guard_evaluation()
        for name in [task_list] if isinstance(task_list, str) else task_list:
            ours = _OUR_NAME.fullmatch(name)
            if ours and name not in self.all_tasks:
                groups = [one for one in self.all_groups if re.fullmatch(rf"{ours[1]}(_|\d)\w*", one)]
                raise EvaluationAborted(
                    f"no task {name!r}. Groups: {', '.join(groups)}. Each but the suites has _cls, _cloze and _gen; "
                    "`umu tasks` lists them all."
                )
        if any(_OUR_NAME.fullmatch(name) for name in found):
            preflight.expect_our_tasks()
        _check_data(_asked_leaves(self.task_index, found))
        return found

    return checked


def _asked_leaves(index: Mapping[str, Mapping[str, Any]], names: Iterable[str]) -> Iterator[LeafName]:
    """Yield the leaf tasks of ours that lmms-eval will ask, the user's own suites and tags opened.

    A task of the user's that hides one of ours, and one that a suite gives settings of its own, is not ours to check.
    """
    from lmms_eval.utils import load_yaml_config

    for name in names:
        entry = index.get(name, {})
        if entry.get("type") == "tag":
            yield from _asked_leaves(index, entry["task"])
        elif entry.get("type") == "group":
            members = load_yaml_config(entry["yaml_path"], mode="simple")["task"]
            yield from _asked_leaves(index, [one for one in members if isinstance(one, str)])
        elif entry and Path(entry["yaml_path"]).resolve().is_relative_to(task_path()) and (leaf := parse_leaf(name)):
            yield leaf


def _check_data(leaves: Iterable[LeafName]) -> None:
    """End the program if tasks have no data in a folder: lmms-eval opens data only after it has loaded the model.

    The hub is asked in its turn.
    """
    from umu_tasks.benchmarks.errors import DataError
    from umu_tasks.benchmarks.sources import open_source

    splits: dict[str, set[str]] = {}
    for leaf in leaves:
        splits.setdefault(leaf.benchmark, set()).add(leaf.split)
    try:
        for benchmark, wanted in sorted(splits.items()):
            source = open_source(benchmark=benchmark)
            if source.kind == "folder":
                for split in sorted(wanted):
                    source.require(split)
    except DataError as error:
        raise EvaluationAborted(str(error)) from error


def _guard_evaluation() -> None:
    try:
        from umu_tasks.results.hooks import guard_evaluation

        guard_evaluation(lambda name: _OUR_NAME.fullmatch(name) is not None)
    except (ImportError, AttributeError) as error:
        logger.error("umu-bench: an error during the evaluation will end with exit status 0 (%s).", error)


def hidden_tasks(index: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return which of our tasks another one hides in lmms-eval's `index`: name -> the other one's file."""
    indexed = {os.path.realpath(entry["yaml_path"]) for entry in index.values() if entry["yaml_path"] != -1}
    hidden = [task_name(read_task_file(file)) for file in task_files() if str(file) not in indexed]
    return {name: str(index[name]["yaml_path"]) for name in hidden if name in index}


def clash_message(name: str, file: str) -> str:
    """Return what to tell about a task of ours that another one hides."""
    where = "a tag of other tasks" if file == "-1" else file
    return f"task {name} of umu-bench is hidden by another task of that name: {where}. Rename or remove that one."
