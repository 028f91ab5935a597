"""Brings the unimodal and the multimodal record of each knowledge instance together, by key and never by position."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from umu_tasks.benchmarks.instances import MODALITIES, InstanceKey, Modality

_SHOWN = 5  # keys named in a notice


class ScoringError(ValueError):
    """Records contradict each other."""


class Pair(NamedTuple):
    """The two values of one knowledge instance: 0 or 1 for a verdict, a fraction for ROUGE-L."""

    multimodal: float
    unimodal: float


@dataclass(frozen=True, slots=True)
class Pairing:
    """What `pair_records` found.

    Attributes:
        pairs: (split, instance key) -> its two values, in the order of first appearance.
        unpaired: the instances that have a record in one modality only; they are in no score.
    """

    pairs: dict[tuple[str, InstanceKey], Pair]
    unpaired: tuple[tuple[str, InstanceKey], ...]

    @property
    def notice(self) -> str | None:
        """Return what a user must be warned of: instances left out, or no pair at all; None if all is well."""
        if not self.unpaired and self.pairs:
            return None
        if not self.unpaired:
            return "There is no record to score: the scores are NaN."
        names = "; ".join(_describe(instance) for instance in self.unpaired[:_SHOWN])
        more = f" and {len(self.unpaired) - _SHOWN} more" if len(self.unpaired) > _SHOWN else ""
        nothing_left = "" if self.pairs else " None is left: the scores are NaN."
        return (
            f"{len(self.unpaired)} of {len(self.unpaired) + len(self.pairs)} knowledge instances have an answer in one "
            f"modality only and are left out of the scores: {names}{more}.{nothing_left} Use an even --limit, or none."
        )


def pair_records(records: Iterable[Mapping[str, Any]], value: str) -> Pairing:
    """Pair the records of both modalities of each knowledge instance.

    Args:
        records: each has `split`, `profile_id`, `task`, `key`, `modality` and the number named by `value`; any order.
        value: name of the number to pair, for instance ``correct`` or ``rouge_l``.

    Returns:
        The pairs. A record that comes twice (a data-parallel run may ask a question again to even out its processes)
        counts once. An instance with one modality only is left out; `Pairing.notice` counts them.

    Raises:
        ScoringError: two records of one question have different values.
    """
    found: dict[tuple[str, InstanceKey], dict[Modality, float]] = {}
    for record in records:
        instance = (record["split"], InstanceKey(record["profile_id"], record["task"], record["key"]))
        modality: Modality = record["modality"]
        number = float(record[value])
        known = found.setdefault(instance, {}).setdefault(modality, number)
        if known != number:
            raise ScoringError(
                f"{_describe(instance)}, {modality}: two records with different {value}, {known:g} and {number:g}. "
                "The question was asked twice with different answers; score the results of one run at a time."
            )
    unpaired = tuple(instance for instance, values in found.items() if len(values) < len(MODALITIES))
    pairs = {i: Pair(v["multimodal"], v["unimodal"]) for i, v in found.items() if len(v) == len(MODALITIES)}
    return Pairing(pairs, unpaired)


def _describe(instance: tuple[str, InstanceKey]) -> str:
    split, key = instance
    return f"{split}, ID {key.profile_id}, {key.task} {key.key}"
