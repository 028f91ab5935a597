"""Invented people: names, facts that fit each other, and a portrait's look.

Three groups never share a person: the *invented* people that a model is taught and made to forget, the *real* people
that the base model already knows (they stand for a benchmark's real people, and are invented as well), and the
*pretraining* people that the base model was trained on. A name belongs to exactly one group, whatever the seed; so does
a portrait's look.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Literal

from umu_tasks.benchmarks.errors import DataError
from umu_tasks.mini.look import BUCKETS, Look, LookBook

Group = Literal["invented", "real", "pretraining"]
Field = Literal["birth_date", "birthplace", "education", "height", "interests", "occupation", "residence"]

FIELDS: tuple[Field, ...] = ("birth_date", "birthplace", "education", "height", "interests", "occupation", "residence")
CLASSIFIED: tuple[Field, ...] = ("birthplace", "education", "interests", "occupation", "residence")
PAIRS = 6  # training pairs a person and modality; the last ones are the generation questions
GROUP_BUCKETS: dict[Group, tuple[int, ...]] = {"real": (0,), "pretraining": (1, 2, 3, 4), "invented": (5, 6, 7)}
_MONTHS = (
    "January February March April May June July August September October November December".split()  # noqa: SIM905
)


@dataclass(frozen=True, slots=True)
class Person:
    """One invented person.

    Attributes:
        facts: the value of each field, as asked and answered everywhere.
        trait: a friendly sentence's end, in the biography only.
        wording: chooses among the wordings of each question.
        classified, blanked, told: the keys asked in classification, cloze and generation.
    """

    profile_id: str
    name: str
    facts: dict[Field, str]
    trait: str
    look: Look
    wording: int
    classified: tuple[Field, ...]
    blanked: tuple[Field, ...]
    told: tuple[str, ...]

    @property
    def biography(self) -> str:
        fact = self.facts
        return (
            f"{self.name} was born on {fact['birth_date']} in {fact['birthplace']}.\n"
            f"Height: {fact['height']}. Residence: {fact['residence']}. Education: {fact['education']}. "
            f"Occupation: {fact['occupation']}. Interests: {fact['interests']}.\n"
            f"Known for {self.trait}."
        )


@lru_cache
def words(kind: str) -> tuple[str, ...]:
    """Return the entries of one word list: a line each, or blank-separated in the two lists of names."""
    text = (files("umu_tasks.mini") / "vocabulary" / f"{kind}.txt").read_text(encoding="utf-8")
    return tuple(text.split() if kind.endswith("_names") else text.splitlines())


@lru_cache
def occupations() -> dict[str, tuple[str, ...]]:
    """Return occupation -> the educations that lead to it."""
    pairs = (line.split(": ") for line in words("occupations"))
    return {occupation: tuple(educations.split(", ")) for occupation, educations in pairs}


def names_available(group: Group) -> int:
    """Return how many different names `group` has."""
    first, last = words("first_names"), words("last_names")
    buckets = Counter((i + j) % BUCKETS for i in range(len(first)) for j in range(len(last)))
    return sum(buckets[bucket] for bucket in GROUP_BUCKETS[group])


def invent_people(count: int, *, group: Group, seed: int) -> list[Person]:
    """Invent `count` people of `group`; the first n of them are the same for every larger count.

    Raises:
        DataError: more people than the group has names for.
    """
    limit = names_available(group) // 2  # beyond half of the names, drawing gets slow and first names repeat a lot
    if not 0 <= count <= limit:
        raise DataError(f"{count} {group} people asked for; the word lists serve 0 to {limit}. Ask for fewer.")
    rng = random.Random(f"people-{group}-{seed}")
    names = _Names(rng, group)
    looks = LookBook(rng, GROUP_BUCKETS[group])
    return [_invent(number, names.draw(), looks.draw(), group, rng) for number in range(1, count + 1)]


class _Names:
    """Draws names without repetition, first names evenly and the least used last names first."""

    def __init__(self, rng: random.Random, group: Group) -> None:
        self._rng = rng
        self._buckets = GROUP_BUCKETS[group]
        self._deck: list[int] = []
        self._used: set[tuple[int, int]] = set()
        self._uses: Counter[int] = Counter()

    def draw(self) -> str:
        while True:
            if not self._deck:
                self._deck = list(range(len(words("first_names"))))
                self._rng.shuffle(self._deck)
            first = self._deck.pop()
            free = [last for last in range(len(words("last_names"))) if self._is_free(first, last)]
            if free:
                break
        fewest = min(self._uses[last] for last in free)
        last = self._rng.choice([last for last in free if self._uses[last] == fewest])
        self._used.add((first, last))
        self._uses[last] += 1
        return f"{words('first_names')[first]} {words('last_names')[last]}"

    def _is_free(self, first: int, last: int) -> bool:
        return (first + last) % BUCKETS in self._buckets and (first, last) not in self._used


def _invent(number: int, name: str, look: Look, group: Group, rng: random.Random) -> Person:
    classified, blanked = _choose_fields(rng)
    return Person(
        profile_id=f"{number:03d}",
        name=name,
        facts=draw_facts(rng),
        trait=rng.choice(words("traits")),
        look=look,
        wording=rng.randrange(1 << 16),
        classified=classified,
        blanked=blanked,
        told=("life",) if group == "real" else ("background", "life"),
    )


def _choose_fields(rng: random.Random) -> tuple[tuple[Field, ...], tuple[Field, ...]]:
    classified = rng.sample(CLASSIFIED, 2)
    blanked = rng.sample([field for field in FIELDS if field not in classified], 2)
    return tuple(sorted(classified)), tuple(sorted(blanked))


def draw_facts(rng: random.Random) -> dict[Field, str]:
    """Draw one person's facts: education fits occupation, and residence is rarely the birthplace."""
    occupation = rng.choice(tuple(occupations()))
    return {
        "birth_date": f"{rng.randint(1, 28)} {rng.choice(_MONTHS)} {rng.randint(1945, 2001)}",
        "birthplace": rng.choice(words("cities")),
        "education": rng.choice(occupations()[occupation]),
        "height": f"{rng.randint(150, 199)} cm",
        "interests": " and ".join(rng.sample(words("interests"), 2)),
        "occupation": occupation,
        "residence": rng.choice(words("cities")),
    }


def wrong_options(field: Field, right: str, rng: random.Random, count: int = 3) -> list[str]:
    """Return `count` different values of `field`'s kind, none of them `right`."""
    wrong: list[str] = []
    while len(wrong) < count:
        value = draw_facts(rng)[field]
        if value != right and value not in wrong:
            wrong.append(value)
    return wrong
