"""Runs side by side, each against the start model: what tables, plots and sentences are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

from umu_tasks.benchmarks.errors import DataError
from umu_tasks.benchmarks.instances import MODALITIES, TASKS, Modality, Task
from umu_tasks.benchmarks.splits import is_forget, is_to_be_forgotten
from umu_tasks.report.derive import differing_questions, with_derived
from umu_tasks.report.intervals import FEW_PEOPLE, Change, Interval, paired_change, unpaired_interval
from umu_tasks.report.outputs import Counts, count_outputs, invalid_reason
from umu_tasks.report.runs import RULE_NAMES, RunResult, TaskResult, split_order
from umu_tasks.scoring.answers import RuleName
from umu_tasks.scoring.metrics import metric_names
from umu_tasks.scoring.unpaired import RULE_VERSIONS

ANSWER_TASKS: tuple[Task, ...] = ("cls", "cloze")
"""The tasks whose answers are right or wrong; their mean is what the summary calls right answers."""

KNOWN = 0.5
"""A start model below this on a split has nothing there whose loss would say something."""


@dataclass(frozen=True)
class Comparison:
    """The runs of one report, derived splits included, in the order they were given.

    Attributes:
        baseline: the start model: the run all others are compared with.
        rule: the scoring rule that scores are shown under, the same for all runs.
    """

    runs: tuple[RunResult, ...]
    baseline: RunResult
    rule: RuleName = "default"

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

    def is_invalid(self, run: RunResult) -> bool:
        return run.name in self.invalid

    @cached_property
    def notices(self) -> tuple[str, ...]:
        return tuple(differing_questions(self.runs))

    def forget_splits(self) -> tuple[str, ...]:
        return tuple(split for split in self.splits if is_forget(split))

    def splits_to_forget(self) -> tuple[str, ...]:
        """The forget sets, and the test sets that ask about the same people in other words and pictures."""
        return tuple(split for split in self.splits if is_to_be_forgotten(split))

    @cached_property
    def rules(self) -> tuple[RuleName, ...]:
        """The benchmark's rules: where it has its own, the published one is its default and no third rule."""
        has_own = self.baseline.benchmark in RULE_VERSIONS
        return tuple(rule for rule in RULE_NAMES if not (has_own and rule == "official"))

    # ---- scores -------------------------------------------------------------------------------------------------

    def value(self, run: RunResult, split: str, task: Task, metric: str) -> float | None:
        """Return a metric under the report's rule, None where the run does not have it."""
        result = run.tasks.get((split, task))
        return None if result is None else result.metrics.get(result.name_under(metric, self.rule))

    def interval(self, run: RunResult, split: str, task: Task, metric: str) -> Interval | None:
        result = run.tasks.get((split, task))
        return None if result is None else result.interval(result.name_under(metric, self.rule))

    def modality_value(self, run: RunResult, split: str, task: Task, modality: Modality) -> float | None:
        return self.value(run, split, task, modality_metric(task, modality))

    def paired_value(self, run: RunResult, split: str, task: Task, modality: Modality) -> float | None:
        """Return a modality's score over the facts asked both ways: what a gap is the difference of."""
        result = run.tasks.get((split, task))
        if result is None or not result.unpaired:
            return self.modality_value(run, split, task, modality)
        pairs = result.pairs(self.rule).values()
        return fmean(getattr(pair, modality) for pair in pairs) if pairs else None

    def gap(self, run: RunResult, split: str) -> float | None:
        """Return the modality gap, mean of classification and cloze, None unless both were run."""
        sides = [[self.paired_value(run, split, task, one) for task in ANSWER_TASKS] for one in MODALITIES]
        text, image = ([one for one in side if one is not None] for side in sides)
        return fmean(image) - fmean(text) if len(image) == len(text) == len(ANSWER_TASKS) else None

    def right_answers(self, run: RunResult, split: str, modality: Modality) -> float | None:
        """Return the mean accuracy of classification and cloze in one modality, None unless both were run."""
        values = [self.modality_value(run, split, task, modality) for task in ANSWER_TASKS]
        known = [one for one in values if one is not None]
        return fmean(known) if len(known) == len(ANSWER_TASKS) else None

    def both(self, run: RunResult, split: str) -> dict[Modality, float] | None:
        """Return the right answers of both modalities, None unless both were scored."""
        known = {modality: self.right_answers(run, split, modality) for modality in MODALITIES}
        values = {modality: one for modality, one in known.items() if one is not None}
        return values if len(values) == len(MODALITIES) else None

    # ---- against the start model --------------------------------------------------------------------------------

    def change(self, run: RunResult, split: str, task: Task, metric: str) -> float | None:
        """Return the metric's change against the start model, None where either is missing or `run` is it."""
        after, before = self.value(run, split, task, metric), self.value(self.baseline, split, task, metric)
        return None if run is self.baseline or after is None or before is None else after - before

    def kept(self, run: RunResult, split: str, task: Task, metric: str) -> float | None:
        """Return the metric as a share of the start model's, None where the start model has nothing to keep."""
        after, before = self.value(run, split, task, metric), self.value(self.baseline, split, task, metric)
        return None if run is self.baseline or after is None or not before else after / before

    def kept_answers(self, run: RunResult, split: str) -> dict[Modality, float] | None:
        """Return the shares of the start model's right answers that are left, None where it had (nearly) none."""
        before, after = self.both(self.baseline, split), self.both(run, split)
        if not before or not after or min(before.values()) < KNOWN:
            return None
        return {modality: after[modality] / before[modality] for modality in MODALITIES}

    def paired_change(self, run: RunResult, other: RunResult, split: str, task: Task, metric: str) -> Change | None:
        """Return the change from `other` to `run` on the questions both answered, None without both's answers."""
        after, before = run.tasks.get((split, task)), other.tasks.get((split, task))
        if after is None or before is None:
            return None
        key = (run.name, other.name, split, task, metric)
        if key not in self._known_changes:
            self._known_changes[key] = paired_change(after.values(metric, self.rule), before.values(metric, self.rule))
        return self._known_changes[key]

    @cached_property
    def _known_changes(self) -> dict[tuple[str, ...], Change | None]:
        """Each is asked for by several tables, and resampling takes its time."""
        return {}

    def change_interval(self, run: RunResult, split: str, task: Task, metric: str) -> Interval | None:
        """Return the 95 % interval of the change against the start model, None where it can't be told."""
        change = self.change(run, split, task, metric)
        if change is None:
            return None
        paired = self.paired_change(run, self.baseline, split, task, metric)
        if paired is not None:
            return paired.interval
        after, before = run.tasks[split, task], self.baseline.tasks[split, task]
        name = after.name_under(metric, self.rule)
        spreads = after.stderr(name), before.stderr(name)
        if spreads[0] is None or spreads[1] is None:
            return None
        return unpaired_interval(after.metrics[name], spreads[0], before.metrics[name], spreads[1])

    def is_noise(self, run: RunResult, split: str, task: Task, metric: str) -> bool:
        """Tell whether the change against the start model is no larger than chance makes it."""
        interval = self.change_interval(run, split, task, metric)
        return interval is not None and interval.holds_zero

    def few_people(self, split: str) -> int | None:
        """Return the number of people on a split where it is too small to tell any change from chance, else None."""
        known = [result.people for run in self.runs for result in results_of(run, split) if result.people is not None]
        return max(known) if known and max(known) < FEW_PEOPLE else None


def compare(runs: Sequence[RunResult], baseline: str | None = None, rule: RuleName | None = None) -> Comparison:
    """Put runs side by side.

    Args:
        baseline: name of the start model's run; None: the first run.
        rule: what to show scores under; None: the default rule, or the official one where a file of the published
            evaluator is among the runs, since it holds no other.

    Raises:
        DataError: no run is called `baseline`.
    """
    every = with_derived(runs)
    names = [run.name for run in every]
    if baseline is not None and baseline not in names:
        raise DataError(f"--baseline {baseline}: no run is called that. Choose one of: {', '.join(names)}.")
    chosen: RuleName = rule or ("official" if any(run.is_published for run in every) else "default")
    if chosen == "official" and every[0].benchmark in RULE_VERSIONS:
        chosen = "default"  # a benchmark with rules of its own: what was published is its default
    return Comparison(tuple(every), every[names.index(baseline) if baseline else 0], chosen)


def headline(split: str, task: Task) -> str:
    """Return the metric that counts both modalities: ``acc_f`` or ``acc_r``, ``rl_f`` or ``rl_r``."""
    return metric_names(task, split)[-1]


def modality_metric(task: Task, modality: Modality) -> str:
    return f"{'rl' if task == 'gen' else 'acc'}_{'mul' if modality == 'multimodal' else 'uni'}"


def counts_of(run: RunResult, split: str) -> Counts | None:
    """Return the counts over all tasks of a split; None when it was not run or nobody counted."""
    results = results_of(run, split)
    return count_outputs(results) if results else None


def results_of(run: RunResult, split: str) -> list[TaskResult]:
    return [run.tasks[split, task] for task in TASKS if (split, task) in run.tasks]
