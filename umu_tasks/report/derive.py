"""Compute a split's scores from the answers on other splits, so that no question is asked twice.

The full set is the forget set and the retain set together. Whoever scored both has scored the full set; whoever scored
the full set has scored each part, once another run tells which people belong to it. Answers are put together by
knowledge instance. Derived scores are labelled wherever they are shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from umu_tasks.benchmarks.instances import TASKS, InstanceKey, Modality, Task
from umu_tasks.benchmarks.splits import FORGET_RATIOS, retain_split
from umu_tasks.report.runs import RunResult, TaskResult, split_order
from umu_tasks.report.summaries import scored_answers
from umu_tasks.scoring.unpaired import RULE_VERSIONS

Golds = dict[tuple[InstanceKey, Modality], str]
"""Question -> right answer: tells the same question of two runs from two that only share their key."""


def with_derived(runs: Sequence[RunResult]) -> list[RunResult]:
    """Return the runs with every split added that can be computed exactly from the answers at hand.

    A run with --limit has a part of a split's questions only: nothing is computed for it, or from what it asked. Nor is
    it for a benchmark with rules of its own, whose sets are asked with other examples and without these people.
    """
    members = _members(run for run in runs if _is_whole(run))
    return [_completed(run, members) if _is_whole(run) else run for run in runs]


def _is_whole(run: RunResult) -> bool:
    return not run.is_limited and run.benchmark not in RULE_VERSIONS


def _completed(run: RunResult, members: Mapping[tuple[str, Task], Golds]) -> RunResult:
    return replace(run, tasks=_sorted({**_from_parts(run), **_from_full(run, members), **run.tasks}))


def _from_parts(run: RunResult) -> dict[tuple[str, Task], TaskResult]:
    """Return `full` from the first forget set that was run together with its retain set."""
    derived: dict[tuple[str, Task], TaskResult] = {}
    for forget in (f"forget{ratio:02d}" for ratio in FORGET_RATIOS):
        retain = retain_split(forget)
        for task in TASKS:
            parts = [run.tasks.get((split, task)) for split in (forget, retain)]
            answers = [part.answers for part in parts if part is not None and part.answers is not None]
            if len(answers) == 2 and ("full", task) not in derived:
                derived["full", task] = scored_answers("full", task, [*answers[0], *answers[1]], (forget, retain))
    return derived


def _from_full(run: RunResult, members: Mapping[tuple[str, Task], Golds]) -> dict[tuple[str, Task], TaskResult]:
    """Return the forget and retain sets that the run's answers on `full` cover completely."""
    derived: dict[tuple[str, Task], TaskResult] = {}
    for (split, task), questions in members.items():
        full = run.tasks.get(("full", task))
        if full is None or full.answers is None or not questions.items() <= _golds(full).items():
            continue
        answers = [answer for answer in full.answers if (answer.instance_key, answer.modality) in questions]
        derived[split, task] = scored_answers(split, task, answers, ("full",))
    return derived


def _members(runs: Iterable[RunResult]) -> dict[tuple[str, Task], Golds]:
    """Return the questions of each forget and retain set, as the runs that were scored on it show them."""
    members: dict[tuple[str, Task], Golds] = {}
    for run in runs:
        for (split, task), result in run.tasks.items():
            if split.startswith(("forget", "retain")) and result.pairs():
                members.setdefault((split, task), {}).update(_golds(result))
    return members


def _golds(result: TaskResult) -> Golds:
    return {(answer.instance_key, answer.modality): answer.gold for answer in result.answers or ()}


def _sorted(tasks: dict[tuple[str, Task], TaskResult]) -> dict[tuple[str, Task], TaskResult]:
    return {key: tasks[key] for key in sorted(tasks, key=lambda key: (split_order(key[0]), TASKS.index(key[1])))}


def differing_questions(runs: Sequence[RunResult]) -> list[str]:
    """Say where two runs answered different questions under one task's name; their scores can't be compared."""
    notices = []
    for split, task in dict.fromkeys(key for run in runs for key in run.tasks):
        asked: dict[frozenset[str], list[str]] = {}
        for run in runs:
            result = run.tasks.get((split, task))
            if result is not None and result.answers and not result.derived_from:
                asked.setdefault(frozenset(answer.question_hash for answer in result.answers), []).append(run.name)
        if len(asked) > 1:
            groups = " / ".join(", ".join(names) for names in asked.values())
            notices.append(
                f"{split} {task}: the runs were asked different questions ({groups}): another data set, task version, "
                "seed or --limit. Changes between them mean nothing."
            )
    return notices
