"""From a results file of lmms-eval to a trial's three objectives, with 95 % intervals; or why it has none."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from umu_tasks.report.intervals import Interval
from umu_tasks.report.leaves import LeafName, parse_leaf
from umu_tasks.report.read import read_run
from umu_tasks.report.runs import RULE_NAMES, RunResult
from umu_tasks.scoring.answers import RuleName, suffix
from umu_tasks.scoring.bootstrap import Floats, intervals, resampled_means
from umu_trainers.sweep.objectives import NAMES, Objective


class Invalid(ValueError):
    """The run's scores say nothing about forgetting; the message says why."""


class Unreadable(ValueError):
    """There is no results file, or it lacks what was asked for."""


@dataclass(frozen=True)
class Measured:
    """A trial's objectives, fractions; `gap` without its sign.

    Attributes:
        intervals: objective -> its 95 % interval, None where it has none.
    """

    forget: float
    utility: float
    gap: float
    intervals: Mapping[str, Interval | None]

    @property
    def values(self) -> tuple[float, float, float]:
        """In the order of `NAMES`."""
        return self.forget, self.utility, self.gap


def measure(folder: Path, objectives: Mapping[str, Objective]) -> Measured:
    """Return the objectives of the newest results file under a folder.

    Raises:
        Invalid: the run says that it is invalid, or a score is no number.
        Unreadable: no results file, no block of ours in it, or a task that is missing.
    """
    file = max(folder.rglob("*_results.json"), default=None, key=lambda one: one.name)
    if file is None:
        raise Unreadable(f"{folder}: no results file")
    document = json.loads(file.read_text(encoding="utf-8"))
    numbers = values_of(document, objectives, str(file))
    spans = _intervals(folder, leaves_in(document), objectives)
    return Measured(numbers["forget"], numbers["utility"], numbers["gap"], spans)


def values_of(document: Mapping[str, Any], objectives: Mapping[str, Objective], file: str) -> dict[str, float]:
    """Return objective -> value of a results file's content.

    Args:
        file: its name, for messages.

    Raises:
        Invalid, Unreadable: as `measure`.
    """
    own = document.get("umu")
    if not isinstance(own, Mapping):
        raise Unreadable(f"{file}: no `umu` block, so nobody judged whether the run is valid")
    if own.get("validity", {}).get("valid") is not True:
        raise Invalid("; ".join(own.get("validity", {}).get("reasons", ())) or "the results file does not say why")
    return {name: _value(own["tasks"], objectives[name], name, file) for name in NAMES}


def leaves_in(document: Mapping[str, Any]) -> list[LeafName]:
    """Return the leaf tasks of a results file."""
    return [leaf for name in document["umu"]["tasks"] if (leaf := parse_leaf(name))]


def _value(tasks: Mapping[str, Any], objective: Objective, name: str, file: str) -> float:
    by_split: dict[str, list[float]] = {}
    for leaf in chosen([leaf for one in tasks if (leaf := parse_leaf(one))], objective):
        metric = objective.base(leaf.split, leaf.task) + ("" if leaf.task == "gen" else suffix(_rule(objective)))
        found = tasks[str(leaf)]["metrics"].get(metric)
        if found is None:
            raise Unreadable(f"{file}, {leaf}: no metric {metric}, which objective {name} needs")
        value = found["value"]
        if value is None or not math.isfinite(value):
            raise Invalid(f"{leaf}: {metric} is no number")
        by_split.setdefault(leaf.split, []).append(abs(value) if objective.is_absolute else value)
    for kind in objective.splits:
        have = [len(values) for split, values in by_split.items() if split.startswith(kind)]
        if not have or min(have) < len(objective.tasks):
            raise Unreadable(f"{file}: objective {name} needs {', '.join(objective.tasks)} on a {kind} split")
    return fmean(fmean(values) for values in by_split.values())


def chosen(leaves: list[LeafName], objective: Objective) -> Iterator[LeafName]:
    """Yield the leaf tasks that an objective is made of."""
    for leaf in leaves:
        if leaf.task in objective.tasks and leaf.split.startswith(objective.splits):
            yield leaf


def _rule(objective: Objective) -> RuleName:
    return next(rule for rule in RULE_NAMES if rule == objective.rule)


# ---- intervals --------------------------------------------------------------------------------------------------


def _intervals(folder: Path, leaves: list[LeafName], objectives: Mapping[str, Objective]) -> dict[str, Interval | None]:
    """Return objective -> interval by bootstrap over people, from the answers; None without them."""
    if not any(folder.rglob("*_samples_*.jsonl")):
        return dict.fromkeys(NAMES)
    benchmark = leaves[0].benchmark
    run = read_run(folder, "trial", benchmark)
    return {name: _interval(run, list(chosen(leaves, objectives[name])), objectives[name]) for name in NAMES}


def _interval(run: RunResult, leaves: list[LeafName], objective: Objective) -> Interval | None:
    """The objective of each resample: the people of a split are drawn once for all of its tasks."""
    by_split: dict[str, list[Floats]] = {}
    for leaf in leaves:
        means = _resampled(run, leaf, objective)
        if means is None:
            return None
        by_split.setdefault(leaf.split, []).append(abs(means) if objective.is_absolute else means)
    splits = [sum(means[1:], means[0]) / len(means) for means in by_split.values()]
    _, low, high = intervals((sum(splits[1:], splits[0]) / len(splits))[:, None])
    return Interval(float(low[0]), float(high[0]))


def _resampled(run: RunResult, leaf: LeafName, objective: Objective) -> Floats | None:
    """Return (resamples,) of a leaf's metric; None without answers of two people."""
    import numpy as np

    result = run.tasks.get((leaf.split, leaf.task))
    if result is None or result.answers is None:
        return None
    values = sorted(result.values(objective.base(leaf.split, leaf.task), _rule(objective)).items())
    people = [key.profile_id for key, _ in values]
    if len(set(people)) < 2:
        return None
    # Seeded by the split: its tasks get the same draws, other splits' people are drawn apart from them.
    column = np.array([[value] for _, value in values])  # (instances, 1)
    return resampled_means(column, people, seed=zlib.crc32(leaf.split.encode()))[:, 0]
