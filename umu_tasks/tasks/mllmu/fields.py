"""Which fact about a person a question asks for, and which two questions ask for the same one.

MLLMU-Bench's rows are two lists, one a modality, without keys that tie their entries together. To see whether a fact is
gone in *both* modalities, its two questions must be found.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from umu_tasks.scoring import fields

LEAST_OVERLAP = 0.5  # of the words of two golds that say the same, one with the name and one without
_NOT_TOLD = "0"  # a key without a word in it, which `fields.field_of` hands back when the question does not tell either


def field_of(question: str) -> str | None:
    """Return the fact that a question asks for, None where its wording does not tell.

    >>> field_of("When was this person born?"), field_of("Ada Crane lives in __."), field_of("Why?")
    ('birth_date', 'residence', None)
    """
    found = fields.field_of(_NOT_TOLD, question)
    return None if found == _NOT_TOLD else found


class Entry(NamedTuple):
    """What decides about a question's partner: the fact it asks for, if its wording tells, and its right answer."""

    field: str | None
    gold: str


def pair_keys(unimodal: Sequence[Entry], multimodal: Sequence[Entry]) -> tuple[list[str], list[str]]:
    """Return a key for each unimodal and each multimodal entry of one person's task; partners get the same one.

    Entries without a partner get a key of their own, which says the modality, so that they pair with nothing.
    """
    uni = [f"{entry.field or 'fact'}-uni{number}" for number, entry in enumerate(unimodal)]
    mul = [f"{entry.field or 'fact'}-mul{number}" for number, entry in enumerate(multimodal)]
    used: dict[str, int] = {}
    for one, other in sorted(partners(unimodal, multimodal).items()):
        field = unimodal[one].field or multimodal[other].field or "fact"
        used[field] = used.get(field, 0) + 1
        uni[one] = mul[other] = field if used[field] == 1 else f"{field}-{used[field]}"
    return uni, mul


def partners(unimodal: Sequence[Entry], multimodal: Sequence[Entry]) -> dict[int, int]:
    """Return the positions of entries that ask for the same fact, unimodal -> multimodal.

    The best match first: golds that are the same or share at least half of their words, unless the wordings name two
    different fields. Of the rest, two that are the only ones left with their field.
    """
    likeness = {
        (i, j): _likeness(one.gold, other.gold)
        for i, one in enumerate(unimodal)
        for j, other in enumerate(multimodal)
        if one.field == other.field or None in (one.field, other.field)
    }
    found: dict[int, int] = {}
    for i, j in sorted(likeness, key=lambda pair: (-likeness[pair], pair)):
        if likeness[i, j] >= LEAST_OVERLAP and i not in found and j not in found.values():
            found[i] = j
    for field in {entry.field for entry in unimodal if entry.field is not None}:
        left = [i for i, entry in enumerate(unimodal) if entry.field == field and i not in found]
        right = [j for j, entry in enumerate(multimodal) if entry.field == field and j not in found.values()]
        if len(left) == len(right) == 1:
            found[left[0]] = right[0]
    return found


def _likeness(one: str, other: str) -> float:
    """Return the share of the words that two golds have in common (Jaccard): 1 for the same text."""
    words, others = (set(re.findall(r"\w+", text.casefold())) for text in (one, other))
    return len(words & others) / len(words | others) if words | others else 0.0
