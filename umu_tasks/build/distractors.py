"""Wrong options: other people's values of the same field, drawn from a seed."""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from umu_tasks.build.people import Person
from umu_tasks.build.templates import FieldTemplates
from umu_tasks.scoring.answers import normalize
from umu_tasks.scoring.texts import contains_words, fold

WRONG_OPTIONS = 3
# Letters, and numbers apart from them, so that 171cm is 171 cm; marks that tell values apart: C++, C#, 5 %, -5.
_PART = re.compile(r"[^\W\d_]+|(?<!\w)[-−]\d+|\d+|[+#%°$€£]+")


@dataclass(frozen=True)
class Pool:
    """The different values of one field, in an order that does not depend on the order of the rows."""

    values: tuple[str, ...]

    @classmethod
    def of(cls, values: Iterable[str]) -> Pool:
        """Return the pool of some values; the first of several `spellings` of one stands for them."""
        seen: set[str] = set()
        distinct = []
        for value in sorted(set(values)):
            if not seen & spellings(value):
                distinct.append(value)
            seen |= spellings(value)
        return cls(tuple(distinct))

    def draw(self, gold: str, rng: random.Random, count: int = WRONG_OPTIONS) -> list[str] | None:
        """Return `count` values that are wrong where `gold` is right, None where there are not that many.

        A value that holds the gold, or is held by it, may be right too (Paris, and Paris, France): it is passed over.
        """
        wrong: list[str] = []
        for index in _shuffled(len(self.values), rng):
            if not _same(gold, self.values[index]):
                wrong.append(self.values[index])
            if len(wrong) == count:
                return wrong
        return None


def pools(people: Sequence[Person], fields: Mapping[str, FieldTemplates]) -> dict[str, Pool]:
    """Return each field's pool: what these people have in it, and the templates' own distractors."""
    return {
        name: Pool.of([*(p.facts[name] for p in people if name in p.facts), *templates.distractors])
        for name, templates in fields.items()
    }


@lru_cache(maxsize=2**16)
def spellings(value: str) -> frozenset[str]:
    """Return what a value has in common with other spellings of it: one such text in common, and they are one value.

    Letters without accents and marks, once in their order and once with the words sorted; numbers stay apart.

    >>> sorted(spellings("Zürich, CH") & spellings("CH Zurich")), sorted(spellings("171 cm") & spellings("171cm"))
    ([' chzurich'], ['171 cm'])
    >>> sorted(spellings("2 June 1994") & spellings("June 2, 1994")), sorted(spellings("C#") & spellings("C++"))
    (['1994 2 june'], [])
    """
    plain = "".join(one for one in unicodedata.normalize("NFKD", fold(value)) if not unicodedata.combining(one))
    parts = _PART.findall(plain.replace("&", " and ")) or [normalize(value)]
    numbers = " ".join(sorted(one for one in parts if one[-1:].isdigit()))
    words = [one for one in parts if not one[-1:].isdigit()]
    return frozenset(f"{numbers} {''.join(some)}" for some in (words, sorted(words)))


def _same(gold: str, value: str) -> bool:
    one, other = fold(gold), fold(value)
    return bool(spellings(gold) & spellings(value)) or contains_words(one, other) or contains_words(other, one)


def _shuffled(count: int, rng: random.Random) -> Iterator[int]:
    """Yield the numbers below `count` in random order; costs what is taken of them, not what there is."""
    moved: dict[int, int] = {}
    for place in range(count):
        other = rng.randrange(place, count)
        yield moved.get(other, other)
        moved[other] = moved.get(place, place)
