"""Brings the unimodal and the multimodal answer of each knowledge instance together, by key and never by position."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from umu_tasks.benchmarks.instances import MODALITIES, InstanceKey, Modality, Task

T = TypeVar("T")

_SHOWN = 5  # keys named in a notice


class ScoringError(ValueError):
    """Records contradict each other."""


def leaf_of(records: Iterable[Mapping[str, Any]]) -> tuple[str, Task]:
    """Return the split and task that all records are of.

    Raises:
        ScoringError: no records, or records of more than one split or task.
    """
    found = {(record["split"], record["task"]) for record in records}
    if len(found) != 1:
        names = ", ".join(sorted(f"{split} {task}" for split, task in found)) or "no record"
        raise ScoringError(f"summarize takes the records of one split and task; found {names}.")
    ((split, task),) = found
    return split, task


class Pair(NamedTuple):
    """The two values of one knowledge instance: 0 or 1 for a verdict, a fraction for ROUGE or BLEU."""

    multimodal: float
    unimodal: float


@dataclass(frozen=True, slots=True)
class Pairing(Generic[T]):
    """What `pair_by_key` found.

    Attributes:
        pairs: (split, instance key) -> what was given for its multimodal and its unimodal record, in the order of first
            appearance.
        unpaired: the instances that have a record in one modality only; they are in no score.
    """

    pairs: dict[tuple[str, InstanceKey], tuple[T, T]]
    unpaired: tuple[tuple[str, InstanceKey], ...]

    @property
    def notice(self) -> str | None:
        """Return what a user must be warned of: instances left out, or no pair at all; None if all is well."""
        if not self.unpaired and self.pairs:
            return None
        if not self.unpaired:
            return "There is no record to score: the scores are NaN."
        names = "; ".join(describe(instance) for instance in self.unpaired[:_SHOWN])
        more = f" and {len(self.unpaired) - _SHOWN} more" if len(self.unpaired) > _SHOWN else ""
        nothing_left = "" if self.pairs else " None is left: the scores are NaN."
        return (
            f"{len(self.unpaired)} of {len(self.unpaired) + len(self.pairs)} knowledge instances have an answer in one "
            f"modality only and are left out of the scores: {names}{more}.{nothing_left} Use an even --limit, or none."
        )


def pair_by_key(answers: Iterable[tuple[Mapping[str, Any], T]]) -> Pairing[T]:
    """Pair what belongs to the two modalities of each knowledge instance.

    Args:
        answers: (record, its value) in any order. A record has `split`, `profile_id`, `task`, `key` and `modality`; the
            value is anything that can be compared, for instance a verdict, or the record itself.

    Returns:
        The pairs, multimodal first. A record that comes twice (a data-parallel run may ask a question again to even out
        its processes) counts once. An instance with one modality only is left out; `Pairing.notice` counts them.

    Raises:
        ScoringError: two records of one question have different values.
    """
    found: dict[tuple[str, InstanceKey], dict[Modality, T]] = {}
    for record, value in answers:
        instance = instance_of(record)
        modality: Modality = record["modality"]
        known = found.setdefault(instance, {}).setdefault(modality, value)
        if known != value:
            raise ScoringError(
                f"{describe(instance)}, {modality}: two records with different values, {_short(known)} and "
                f"{_short(value)}. The question was asked twice with different answers; score the results of one run "
                "at a time."
            )
    unpaired = tuple(instance for instance, values in found.items() if len(values) < len(MODALITIES))
    pairs = {i: (v["multimodal"], v["unimodal"]) for i, v in found.items() if len(v) == len(MODALITIES)}
    return Pairing(pairs, unpaired)


def instance_of(record: Mapping[str, Any]) -> tuple[str, InstanceKey]:
    """Return the split and the key of the knowledge instance that a record is about."""
    return record["split"], InstanceKey(record["profile_id"], record["task"], record["key"])


def describe(instance: tuple[str, InstanceKey]) -> str:
    """Return the instance's name for a message: ``forget05, ID 001, cls occupation``."""
    split, key = instance
    return f"{split}, ID {key.profile_id}, {key.task} {key.key}"


def _short(value: object) -> str:
    """Return the part of a value that fits a message: a record's output, a number as it is."""
    return repr(value.get("output"))[:200] if isinstance(value, Mapping) else f"{value}"
