"""What is picked from a sweep's trials: the Pareto front, and one setting a method by a stated rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from umu_trainers.sweep.config import START
from umu_trainers.sweep.objectives import DIRECTIONS, NAMES


@dataclass(frozen=True)
class Record:
    """A trial as a report shows it.

    Attributes:
        name: ``gd-003``, its folder's name; ``start`` for the start model.
        kind: how it ended (`umu_trainers.sweep.trial`), or ``waiting`` or ``running``.
        values: searched option -> its value.
        scores: objective -> value, a fraction; empty unless it is complete.
        intervals: objective -> (low, high) of 95 %, None where there is none.
        reason: why it has no scores.
        scored: optimizer step -> (forget, retain) accuracy on the sample.
    """

    name: str
    method: str
    slot: int
    kind: str
    values: Mapping[str, Any] = field(default_factory=dict)
    scores: Mapping[str, float] = field(default_factory=dict)
    intervals: Mapping[str, Sequence[float] | None] = field(default_factory=dict)
    reason: str = ""
    seconds: float = 0.0
    scored: Mapping[str, Sequence[float]] = field(default_factory=dict)
    folder: str = ""

    @property
    def is_complete(self) -> bool:
        return bool(self.scores)


def pareto_front(records: Sequence[Record]) -> list[Record]:
    """Return the complete trials that no other beats, lowest forget score first; the start model takes no part.

    One beats another if it is at least as good in all three objectives and better in one.
    """
    candidates = [one for one in records if one.is_complete and one.method != START]
    front = [one for one in candidates if not any(_beats(other, one) for other in candidates)]
    return sorted(front, key=lambda one: (one.scores["forget"], one.name))


def _beats(one: Record, other: Record) -> bool:
    ours, theirs = _costs(one), _costs(other)
    return ours != theirs and all(mine <= its for mine, its in zip(ours, theirs, strict=True))


def _costs(record: Record) -> list[float]:
    """The objectives so that less is better."""
    return [
        -record.scores[name] if way == "maximize" else record.scores[name]
        for name, way in zip(NAMES, DIRECTIONS, strict=True)
    ]


@dataclass(frozen=True)
class Recommendation:
    """What is recommended of a method.

    Attributes:
        record: None where no trial may be recommended.
        why: which rule led to it, or why there is none.
    """

    method: str
    record: Record | None
    why: str


RULE = (
    "Of a method's valid trials that keep at least {keep:.0%} of the start model's utility ({floor}), the one with the "
    "lowest forget score, if that is below the start model's; of equal ones that with the smaller gap, then the higher "
    "utility, then the earlier one."
)


def rule_text(keep: float, start: Record | None) -> str:
    """Return the rule in words."""
    known = start is not None and start.is_complete
    floor = f"{100 * keep * start.scores['utility']:.1f} %" if known and start else "not known: it was not scored"
    return RULE.format(keep=keep, floor=floor)


def recommend(method: str, records: Sequence[Record], start: Record | None, keep: float) -> Recommendation:
    """Return a method's recommended trial by `RULE`.

    Args:
        keep: share of the start model's utility.
    """
    own = [one for one in records if one.method == method]
    complete = [one for one in own if one.is_complete]
    if start is None or not start.is_complete:
        return Recommendation(method, None, "the start model was not scored, so nobody knows what was kept")
    if not complete:
        return Recommendation(method, None, f"none of its {len(own)} trials has valid scores")
    floor = keep * start.scores["utility"]
    kept = [one for one in complete if one.scores["utility"] >= floor - 1e-12]
    if not kept:
        best = max(complete, key=lambda one: one.scores["utility"])
        utility = 100 * best.scores["utility"]
        return Recommendation(
            method, None, f"no trial keeps {100 * floor:.1f} % utility; the nearest is {best.name} with {utility:.1f} %"
        )
    chosen = min(kept, key=lambda one: (one.scores["forget"], one.scores["gap"], -one.scores["utility"], one.slot))
    if chosen.scores["forget"] >= start.scores["forget"] - 1e-12:
        before, after = 100 * start.scores["forget"], 100 * chosen.scores["forget"]
        return Recommendation(
            method,
            None,
            f"no trial that keeps enough forgets anything: the lowest forget score is {after:.1f} %, the start model's "
            f"{before:.1f} %",
        )
    return Recommendation(method, chosen, f"{len(kept)} of {len(own)} trials keep enough; it forgets most of them")
