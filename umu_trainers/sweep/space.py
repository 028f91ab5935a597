"""What a sweep searches: options of `unlearn.py`, each with a list of values or a range.

learning_rate: {low: 5.0e-5, high: 5.0e-4, log: true}
alpha: [0.5, 1.0, 2.0]
method_kwargs.steering: {low: 1, high: 21, step: 5}
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from umu_trainers.sweep.problems import ConfigFile

if TYPE_CHECKING:
    from optuna.trial import Trial

_RANGE_KEYS = ("low", "high", "log", "step", "points")
Label = None | bool | int | float | str
"""What Optuna takes as one of several values."""


@dataclass(frozen=True)
class Values:
    """One of several values of an option.

    Attributes:
        values: as the trainer takes them; lists and mappings too.
    """

    values: tuple[Any, ...]

    @property
    def labels(self) -> tuple[Label, ...]:
        """The values as Optuna takes them."""
        return tuple(one if isinstance(one, Label) else json.dumps(one, sort_keys=True) for one in self.values)

    @property
    def extremes(self) -> tuple[Any, ...]:
        return self.values

    def grid(self) -> Values | None:
        return self

    def suggest(self, trial: Trial, name: str) -> Any:
        return self.values[self.labels.index(trial.suggest_categorical(name, self.labels))]


@dataclass(frozen=True)
class Range:
    """A number from `low` to `high`, both included.

    Attributes:
        log: drawn evenly on a logarithmic scale.
        step: distance of neighbouring values, from `low`; None: any number, for whole numbers every one.
        points: number of values in a grid.
    """

    low: float
    high: float
    log: bool = False
    step: float | None = None
    points: int | None = None

    @property
    def is_whole(self) -> bool:
        return all(isinstance(one, int) for one in (self.low, self.high, self.step or 1))

    @property
    def extremes(self) -> tuple[float, float]:
        return (self.low, self.high) if self.is_whole else (float(self.low), float(self.high))

    def grid(self) -> Values | None:
        """Return the range as a list of values for a grid, None if it does not say how many."""
        if self.points is not None:
            return Values(tuple(dict.fromkeys(self._point(index) for index in range(self.points))))
        step = self.step or (1 if self.is_whole and not self.log else None)
        if step is None:
            return None
        count = int((self.high - self.low) / step + 1e-9) + 1
        values = [self.low + index * step for index in range(count)]
        return Values(tuple(values if self.is_whole else [_rounded(one) for one in values]))

    def _point(self, index: int) -> float:
        share = index / (self.points - 1) if self.points and self.points > 1 else 0.0
        if self.log:
            value = math.exp(math.log(self.low) + share * (math.log(self.high) - math.log(self.low)))
        else:
            value = self.low + share * (self.high - self.low)
        return round(value) if self.is_whole else _rounded(value)

    def suggest(self, trial: Trial, name: str) -> float:
        if self.is_whole:
            return trial.suggest_int(name, int(self.low), int(self.high), step=int(self.step or 1), log=self.log)
        return trial.suggest_float(name, self.low, self.high, step=self.step, log=self.log)


Dimension = Values | Range
Space = Mapping[str, Dimension]


def read_space(file: ConfigFile, key: str, found: Any) -> dict[str, Dimension]:
    """Return option -> what is searched of it.

    Args:
        key: where in the file it stands, for messages.
        found: what stands there.

    Raises:
        DataError: names file and key of what cannot be searched.
    """
    if not isinstance(found, Mapping):
        raise file.problem(key, f"options of unlearn.py with their values are expected, found {found!r}.")
    return {str(name): _dimension(file, f"{key}.{name}", one) for name, one in found.items()}


def _dimension(file: ConfigFile, key: str, found: Any) -> Dimension:
    if isinstance(found, list):
        return _values(file, key, found)
    if not isinstance(found, Mapping):
        raise file.problem(
            key,
            f"a list of values, or low and high, is expected, found {found!r}. A value that all trials share goes "
            "under fixed.",
        )
    if unknown := [str(one) for one in found if one not in _RANGE_KEYS]:
        raise file.problem(key, f"no such key: {', '.join(unknown)}. A range takes {', '.join(_RANGE_KEYS)}.")
    return _range(file, key, found)


def _values(file: ConfigFile, key: str, found: list[Any]) -> Values:
    values = Values(tuple(number_or_same(one) for one in found))
    if not values.values:
        raise file.problem(key, "the list is empty. Give the values to try.")
    if any(one in values.labels[:index] for index, one in enumerate(values.labels)):  # true is 1, and 1.0 is 1
        raise file.problem(key, f"a value stands there twice: {found}.")
    return values


def _range(file: ConfigFile, key: str, found: Mapping[str, Any]) -> Range:
    numbers = {name: file.number(f"{key}.{name}", found[name]) for name in ("low", "high", "step") if name in found}
    if missing := [name for name in ("low", "high") if name not in numbers]:
        raise file.problem(key, f"{' and '.join(missing)} missing. Write {{low: …, high: …}}, or a list of values.")
    one = Range(
        numbers["low"],
        numbers["high"],
        file.truth(f"{key}.log", found.get("log", False)),
        numbers.get("step"),
        file.whole(f"{key}.points", found["points"], at_least=2) if "points" in found else None,
    )
    if problem := _range_problem(one):
        raise file.problem(key, problem)
    return one


def _range_problem(one: Range) -> str:
    if one.low >= one.high:
        return f"low {one.low} is not below high {one.high}."
    if one.log and one.low <= 0:
        return f"low {one.low}: a logarithmic range starts above 0."
    if one.step is not None and one.step <= 0:
        return f"step {one.step}: a number above 0 is expected."
    if one.step is not None and one.log:
        return "step and log do not go together. For a logarithmic grid give points."
    if one.step is not None and one.points is not None:
        return "step and points both say which values there are. Leave one out."
    if one.step is not None and one.step > one.high - one.low:
        return f"step {one.step} is wider than the range from {one.low} to {one.high}."
    return ""


def grid_points(file: ConfigFile, space: Space) -> list[dict[str, Any]]:
    """Return every combination of a space's values: option -> value, in a fixed order; one empty one of no options.

    Raises:
        DataError: an option's range does not say which values a grid has.
    """
    grids = {name: one.grid() for name, one in space.items()}
    for name, one in grids.items():
        if one is None:
            raise file.problem(name, "a grid needs to know which values: give step or points, or a list.")
    lists = [[(name, value) for value in one.values] for name, one in grids.items() if one is not None]
    return [dict(combination) for combination in itertools.product(*lists)]


def as_grid(space: Space) -> dict[str, Values]:
    """Return the space of a grid: lists of values alone."""
    return {name: grid for name, one in space.items() if (grid := one.grid()) is not None}


def suggest(trial: Trial, space: Space) -> dict[str, Any]:
    """Return option -> the value a trial has of it."""
    return {name: one.suggest(trial, name) for name, one in space.items()}


def extremes(space: Space) -> list[tuple[str, dict[str, Any]]]:
    """Return (option, values of all options) for each value at an option's end, the others at their first.

    What a trainer refuses is nearly always refused at an end of a range.
    """
    first = {name: one.extremes[0] for name, one in space.items()}
    ends = [(name, {**first, name: value}) for name, one in space.items() for value in one.extremes[1:]]
    return [("", first), *ends]


def apply(settings: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings of `unlearn.py` with searched values put in; ``method_kwargs.NAME`` goes into the mapping."""
    merged = dict(settings)
    for name, value in values.items():
        outer, _, inner = name.partition(".")
        merged[outer] = {**(merged.get(outer) or {}), inner: value} if inner else value
    return merged


def number_or_same(value: Any) -> Any:
    """Return a number that YAML took for text (``5e-5`` has no dot) as a number, all else as it is."""
    if not isinstance(value, str):
        return value
    try:
        return float(value) if any(one.isdigit() for one in value) else value
    except ValueError:
        return value


def _rounded(value: float) -> float:
    """Return a number without the dust of its computation."""
    return float(f"{value:.12g}")


def shown(values: Mapping[str, Any]) -> str:
    """Return values in one line: ``learning_rate=0.0002 alpha=1``."""
    return " ".join(
        f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}" for name, value in values.items()
    )


def sizes(grids: Mapping[str, Sequence[Any]]) -> str:
    """Return how many points each method's grid has, in words."""
    return ", ".join(f"{method} {len(points)}" for method, points in grids.items())
