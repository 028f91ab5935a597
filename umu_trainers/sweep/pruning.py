"""Which trial is ended early: a rule over the sample that the trainer scores while it trains.

Optuna prunes for one objective only, so this is ours. A trial is ended at a scored step

- by the floor: its retain accuracy is below `floor` times what the same sample gave at step 0; or
- by the median: at least `min_trials` other trials of the method were scored at this step, and the trial's forget
  accuracy is above their median and its retain accuracy below theirs: it is behind in both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from umu_trainers.sweep.problems import ConfigFile

KEYS = ("every", "sample", "floor", "median", "min_trials", "after")
# What `umu_trainers.scoring` prints; a test holds the two together.
_SCORED = re.compile(r"^(?:step (\d+)|start): accuracy on the sample: forget ([\d.]+), retain ([\d.]+)\s*$", re.M)


class Point(NamedTuple):
    """Accuracies on the sample, fractions."""

    forget: float
    retain: float


Scored = Mapping[int, Point]
"""Optimizer step -> what the sample gave there; 0 is the model before training."""


@dataclass(frozen=True)
class Rule:
    """When a trial is ended.

    Attributes:
        every: optimizer steps between two scorings.
        sample: questions of each of the two sets.
        floor: share of the retain accuracy at step 0; None: no floor.
        median: whether the second rule holds.
        min_trials: how many others the second rule needs.
        after: no trial is ended before this step.
    """

    every: int
    sample: int = 64
    floor: float | None = 0.5
    median: bool = True
    min_trials: int = 4
    after: int = 1

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of `unlearn.py` that make it score."""
        return {"score_every": self.every, "score_sample": self.sample}

    def why_ended(self, own: Scored, others: Sequence[Scored]) -> str:
        """Return why a trial is to be ended, empty if it goes on.

        Args:
            own: of the trial; only its last step is judged.
            others: of other trials of the method, in whatever state.
        """
        step = max(own, default=0)
        if step < max(self.after, 1):
            return ""
        point, start = own[step], own.get(0)
        if self.floor is not None and start is not None and point.retain < self.floor * start.retain:
            return (
                f"step {step}: retain accuracy {point.retain:.3f} on the sample is below {self.floor:g} of the "
                f"start's {start.retain:.3f}"
            )
        there = [one[step] for one in others if step in one]
        if not self.median or len(there) < self.min_trials:
            return ""
        middle = Point(median(one.forget for one in there), median(one.retain for one in there))
        if point.forget > middle.forget and point.retain < middle.retain:
            return (
                f"step {step}: forget {point.forget:.3f} and retain {point.retain:.3f} are both behind the median of "
                f"{len(there)} trials ({middle.forget:.3f}, {middle.retain:.3f})"
            )
        return ""


def read_rule(file: ConfigFile, found: Any) -> Rule:
    """Return the rule of a config.

    Raises:
        DataError: names the key that is wrong.
    """
    given = file.known_keys("pruning", found, KEYS)
    if "every" not in given:
        raise file.problem("pruning.every", "missing: optimizer steps between two scorings of the sample.")
    whole = {
        name: file.whole(f"pruning.{name}", given[name])
        for name in KEYS
        if name in given and name not in ("floor", "median")
    }
    floor = given.get("floor", 0.5)
    return Rule(
        **whole,
        floor=None if floor is None else file.share("pruning.floor", floor),
        median=file.truth("pruning.median", given.get("median", True)),
    )


def read_scored(log: Path) -> dict[int, Point]:
    """Return what a training log says about the sample so far."""
    text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    return {int(one[1] or 0): Point(float(one[2]), float(one[3])) for one in _SCORED.finditer(text)}
