"""Runs side by side, each against the start model: what tables, plots and sentences are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

from umu_tasks.benchmarks.errors import DataError
from umu_tasks.benchmarks.instances import TASKS, Modality, Task
from umu_tasks.report.derive import differing_questions, with_derived
from umu_tasks.report.intervals import within_noise
from umu_tasks.report.outputs import Counts, count_outputs, invalid_reason
from umu_tasks.report.runs import RunResult, TaskResult, split_order
from umu_tasks.scoring.metrics import metric_names

ANSWER_TASKS: tuple[Task, ...] = ("cls", "cloze")
"""The tasks whose answers are right or wrong; their mean is what the summary calls right answers."""


@dataclass(frozen=True)
class Comparison:
    """The runs of one report, derived splits included, in the order they were given.

    Attributes:
        baseline: the start model: the run all others are compared with.
    """

    runs: tuple[RunResult, ...]
    baseline: RunResult

    @property
    def others(self) -> tuple[RunResult, ...]:
        return tuple(run for run in self.runs if run is not self.baseline)

    @property
    def later(self) -> tuple[RunResult, ...]:
        """The runs given after the start model: what came of it. Runs given before it are earlier stages."""
        return self.runs[self.runs.index(self.baseline) + 1 :]

    @cached_property
    def splits(self) -> tuple[str, ...]:
        return tuple(sorted({split for run in self.runs for split in run.splits}, key=split_order))

    @cached_property
    def invalid(self) -> dict[str, str]:
        """Run name -> why its scores do not show forgetting; only runs that are invalid."""
        reasons = {run.name: invalid_reason(run) for run in self.runs}
        return {name: why for name, why in reasons.items() if why}

    @cached_property
    def notices(self) -> tuple[str, ...]:
        return tuple(differing_questions(self.runs))

    def forget_splits(self) -> tuple[str, ...]:
        return tuple(split for split in self.splits if split.startswith("forget"))

    def change(self, run: RunResult, split: str, task: Task, metric: str) -> float | None:
        """Return the metric's change against the start model, None where either is missing or `run` is it."""
        after, before = value(run, split, task, metric), value(self.baseline, split, task, metric)
        return None if run is self.baseline or after is None or before is None else after - before

    def kept(self, run: RunResult, split: str, task: Task, metric: str) -> float | None:
        """Return the metric as a share of the start model's, None where the start model has nothing to keep."""
        after, before = value(run, split, task, metric), value(self.baseline, split, task, metric)
        return None if run is self.baseline or after is None or not before else after / before

    def is_noise(self, run: RunResult, split: str, task: Task, metric: str) -> bool:
        """Tell whether the change against the start model is no larger than chance makes it."""
        after, before = run.tasks.get((split, task)), self.baseline.tasks.get((split, task))
        if after is None or before is None or not after.instances or not before.instances:
            return False
        if metric not in after.metrics or metric not in before.metrics:
            return False
        return within_noise(after.metrics[metric], after.instances, before.metrics[metric], before.instances)


def compare(runs: Sequence[RunResult], baseline: str | None = None) -> Comparison:
    """Put runs side by side.

    Args:
        baseline: name of the start model's run; None: the first run.

    Raises:
        DataError: no run is called `baseline`.
    """
    every = with_derived(runs)
    names = [run.name for run in every]
    if baseline is not None and baseline not in names:
        raise DataError(f"--baseline {baseline}: no run is called that. Choose one of: {', '.join(names)}.")
    return Comparison(tuple(every), every[names.index(baseline) if baseline else 0])


def headline(split: str, task: Task) -> str:
    """Return the metric that counts both modalities: ``acc_f`` or ``acc_r``, ``rl_f`` or ``rl_r``."""
    return metric_names(task, split)[-1]


def modality_metric(task: Task, modality: Modality) -> str:
    return f"{'rl' if task == 'gen' else 'acc'}_{'mul' if modality == 'multimodal' else 'uni'}"


def value(run: RunResult, split: str, task: Task, metric: str) -> float | None:
    result = run.tasks.get((split, task))
    return None if result is None else result.metrics.get(metric)


def right_answers(run: RunResult, split: str, modality: Modality) -> float | None:
    """Return the mean accuracy of classification and cloze in one modality, None unless both were run."""
    values = [value(run, split, task, modality_metric(task, modality)) for task in ANSWER_TASKS]
    known = [one for one in values if one is not None]
    return fmean(known) if len(known) == len(ANSWER_TASKS) else None


def counts_of(run: RunResult, split: str) -> Counts | None:
    """Return the counts over all tasks of a split; None when it was not run or has no sample files."""
    results = results_of(run, split)
    return count_outputs(results) if results else None


def results_of(run: RunResult, split: str) -> list[TaskResult]:
    return [run.tasks[split, task] for task in TASKS if (split, task) in run.tasks]
