"""A benchmark's tasks without lmms-eval: the settings and functions that the task files name, called as it calls them.

    task = open_task("umu_forget05_cls", "mini")
    document = task.documents[0]
    task.messages(document)             # the conversation, images included
    task.record(document, "an answer")  # what is scored of it

So that whoever else asks a benchmark's questions (scoring while training does) asks and scores what lmms-eval would.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from datasets import Dataset
from lmms_eval.api.reasoning import strip_reasoning_tags

from umu_tasks.benchmarks.sources import variable_of
from umu_tasks.report.leaves import parse_leaf
from umu_tasks.tasks.abort import EvaluationAborted
from umu_tasks.tasks.files import our_tasks, task_path
from umu_tasks.tasks.records import Record

# What `lmms-eval` cuts out of an output unless `--reasoning_tags` says otherwise.
REASONING_TAGS = (("<think>", "</think>"), ("<analysis>", "</analysis>"))


@dataclass(frozen=True)
class OpenTask:
    """A leaf task over one data source.

    Attributes:
        name: ``umu_forget05_cls``.
        spec: the source its questions and images come from.
        settings: the task file's, includes merged.
        documents: its questions, in the order lmms-eval has them.
    """

    name: str
    benchmark: str
    spec: str
    settings: Mapping[str, Any]
    documents: Dataset

    def messages(self, document: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the question as a conversation, its images read now."""
        conversation: list[dict[str, Any]] = self._call("doc_to_messages", document)
        return conversation

    def record(self, document: Mapping[str, Any], output: str) -> Record:
        """Return the record of an answered question; `output` is what the model wrote, blocks of reasoning included."""
        answer = strip_reasoning_tags(output, [list(pair) for pair in REASONING_TAGS])
        record: Record = self._call("process_results", document, [answer])["record"]
        return record

    def _call(self, role: str, *arguments: Any) -> Any:
        with data_from(self.benchmark, self.spec):
            return _call(self.settings[role], *arguments)


def open_task(name: str, spec: str) -> OpenTask:
    """Return a leaf task with its questions.

    Args:
        spec: hub id, folder, or ``mini``.

    Raises:
        KeyError: no leaf task of ours has this name.
        NoQuestionsError: the source has none for the task.
        DataError: its data cannot be used.
    """
    leaf, settings = parse_leaf(name), our_tasks()[name]
    if leaf is None:
        raise KeyError(name)
    chosen = settings["dataset_kwargs"]
    file = task_path() / leaf.benchmark / chosen["data_files"]["test"]
    selector = json.loads(file.read_text(encoding="utf-8"))[chosen["field"]]
    with data_from(leaf.benchmark, spec):
        documents: Dataset = _call(settings["process_docs"], Dataset.from_list(selector))
    return OpenTask(name, leaf.benchmark, spec, settings, documents)


def _call(path: str, *arguments: Any) -> Any:
    """Call a function that a task file names. What it ends lmms-eval with (`tasks.abort`) is raised as what it was."""
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)(*arguments)
    except EvaluationAborted as aborted:
        raise (aborted.__cause__ or aborted) from None


@contextmanager
def data_from(benchmark: str, spec: str) -> Iterator[None]:
    """Have a benchmark's tasks read `spec`: they take their source from the environment."""
    name = variable_of(benchmark)
    before = os.environ.get(name)
    os.environ[name] = spec
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
