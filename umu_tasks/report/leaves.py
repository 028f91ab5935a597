"""Names of leaf tasks: which benchmark, split and task a result is of, and which results are other people's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import umu_tasks.tasks
from umu_tasks.benchmarks.instances import TASKS, Task
from umu_tasks.benchmarks.names import ANY_BENCHMARK

ZERO_SHOT = "0shot"
_LEAF = re.compile(
    rf"(?P<benchmark>{ANY_BENCHMARK})_(?P<split>(?:forget|retain|test)\d\d|real|full)_(?P<task>{'|'.join(TASKS)})"
    rf"(?:_(?P<form>{ZERO_SHOT}))?"
)
_OURS = re.compile(rf"(?:{ANY_BENCHMARK})(?:_.*|\d\d(?:_.*)?)?")


class LeafName(NamedTuple):
    """The parts of a leaf task's name.

    Attributes:
        form: ``0shot`` for the form without examples of a task that has a form with examples; else "".
    """

    benchmark: str
    split: str
    task: Task
    form: str = ""

    def __str__(self) -> str:
        return "_".join(part for part in self if part)

    @property
    def has_other_form(self) -> bool:
        """Whether the task is there with and without examples in its prompt."""
        file = f"{self.benchmark}/{self.split}_{self.task}_{ZERO_SHOT}.yaml"
        return bool(self.form) or any((Path(root) / file).is_file() for root in umu_tasks.tasks.__path__)


def parse_leaf(name: str) -> LeafName | None:
    """Return the parts of a leaf task's name (``umu_forget05_cls``), None for groups and for other people's tasks."""
    match = _LEAF.fullmatch(name)
    if match is None:
        return None
    task = next(task for task in TASKS if task == match["task"])
    return LeafName(match["benchmark"], match["split"], task, match["form"] or "")


def is_ours(name: str) -> bool:
    """Return whether a name is one of our tasks or groups.

    >>> is_ours("umu05"), is_ours("mllmu_test05_0shot"), is_ours("mmmu_val")
    (True, True, False)
    """
    return _OURS.fullmatch(name) is not None
