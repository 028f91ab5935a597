"""What a sweep minimises and maximises: three numbers, each a mean of metrics of leaf tasks.

forget   (minimised)  what is left of the forget set
utility  (maximised)  what is left of people to keep: retain set and real people
gap      (minimised)  how far apart the two modalities are on the forget set, its absolute value
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from umu_tasks.benchmarks.instances import TASKS, Task
from umu_tasks.benchmarks.splits import is_to_be_forgotten
from umu_tasks.scoring.metrics import metric_names
from umu_tasks.tasks.files import leaves_of
from umu_trainers.sweep.problems import ConfigFile

NAMES = ("forget", "utility", "gap")
DIRECTIONS: tuple[Literal["minimize", "maximize"], ...] = ("minimize", "maximize", "minimize")
METRICS = ("both", "mul", "uni", "any", "all")
RULES = ("default", "official", "strict")
_KINDS = ("forget", "test", "retain", "real")
_DEFAULT_SPLITS = {"forget": ("forget",), "utility": ("retain", "real"), "gap": ("forget",)}


@dataclass(frozen=True)
class Objective:
    """A mean over splits of means over tasks.

    Attributes:
        metric: ``both`` is the benchmark's headline metric of a task and split (``acc_f``, ``acc_r``; of generation
            ``rl_f``, ``rl_r``), ``mul`` and ``uni`` one modality alone, ``any`` and ``all`` the share of knowledge
            instances right in at least one modality or in both, ``gap`` the modality gap.
        tasks: of classification, cloze and generation.
        splits: kinds of splits: forget, test, retain, real.
        rule: by which answers to classification and cloze count as right.
    """

    metric: str
    tasks: tuple[Task, ...]
    splits: tuple[str, ...]
    rule: str = "default"

    @property
    def is_absolute(self) -> bool:
        """Whether each leaf's value counts without its sign, so that two gaps cannot cancel out."""
        return self.metric == "gap"

    def base(self, split: str, task: Task) -> str:
        """Return the metric's name without a rule: ``acc_f``."""
        if self.metric == "gap":
            return "modality_gap"
        if self.metric == "both":
            return metric_names(task, split)[-1]
        return f"{'rl' if task == 'gen' else 'acc'}_{self.metric}"

    def described(self) -> str:
        """Return what it is made of, in words."""
        name = "|modality_gap|" if self.is_absolute else "/".join(dict.fromkeys(self._bases()))
        rule = "" if self.rule == "default" else f", {self.rule} rule"
        return f"mean of {name} over {', '.join(self.tasks)} on {', '.join(self.splits)}{rule}"

    def _bases(self) -> list[str]:
        return [self.base(split, task) for split in self.splits for task in self.tasks]


def read_objectives(file: ConfigFile, found: Any, tasks: Sequence[str]) -> dict[str, Objective]:
    """Return the three objectives.

    Args:
        tasks: what a trial is scored on.

    Raises:
        DataError: a wrong key, or an objective that needs a task which is not scored.
    """
    given = file.known_keys("objectives", found, NAMES)
    objectives = {name: _objective(file, f"objectives.{name}", name, given.get(name) or {}) for name in NAMES}
    scored = leaves_of(tasks)
    for name, one in objectives.items():
        for kind in one.splits:
            for task in one.tasks:
                if not any(leaf.split.startswith(kind) and leaf.task == task for leaf in scored):
                    raise file.problem(
                        f"objectives.{name}",
                        f"needs {task} on a {kind} split, which scoring.tasks {', '.join(tasks)} does not have.",
                    )
    return objectives


def _objective(file: ConfigFile, key: str, name: str, found: Any) -> Objective:
    allowed = ("tasks", "splits", "rule") if name == "gap" else ("metric", "tasks", "splits", "rule")
    given: Mapping[str, Any] = file.known_keys(key, found, allowed)
    metric = "gap" if name == "gap" else file.choice(f"{key}.metric", given.get("metric", "both"), METRICS)
    names = file.texts(f"{key}.tasks", given.get("tasks", ["cls", "cloze"]))
    splits = file.texts(f"{key}.splits", given.get("splits", list(_DEFAULT_SPLITS[name])))
    for one in names:
        file.choice(f"{key}.tasks", one, TASKS)
    for one in splits:
        file.choice(f"{key}.splits", one, _KINDS)
        if is_to_be_forgotten(one) == (name == "utility"):
            raise file.problem(f"{key}.splits", f"{one} does not belong there: {name} would go the wrong way.")
    tasks = tuple(task for task in TASKS if task in names)
    if metric in ("any", "all") and "gen" in tasks:
        raise file.problem(f"{key}.tasks", f"metric {metric} is for right and wrong answers, which gen does not have.")
    return Objective(metric, tasks, splits, file.choice(f"{key}.rule", given.get("rule", "default"), RULES))
