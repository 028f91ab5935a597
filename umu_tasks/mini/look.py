"""What a portrait shows, as small numbers: each index chooses one drawing style or colour of `portraits.py`."""

from __future__ import annotations

import operator
import random
from dataclasses import astuple, dataclass

BUCKETS = 8  # looks and names fall into this many buckets; each group of people owns some
MIN_DIFFERENCES = 4  # two people of one group differ in at least this many traits

BACKGROUNDS = 12
BACKDROPS = ("plain", "disc", "stripes", "dots", "hills", "split")
SKINS = 7
FACES = ("oval", "round", "long", "square")
HAIR_STYLES = (
    "bald", "buzz", "parted", "afro", "long", "bob", "bun", "ponytail", "mohawk", "wavy", "fringe", "pigtails", "spiky",
)  # fmt: skip
HAIR_COLOURS = 10
CLOTHES = ("crew", "vneck", "collar", "hoodie", "scarf", "striped", "dungarees")
CLOTH_COLOURS = 12
GLASSES = ("none", "round", "square", "sun")
BEARDS = ("none", "moustache", "full", "goatee")
HATS = ("none", "beanie", "brim", "cap", "headband", "bow")
EARRINGS = ("none", "hoops", "studs")


@dataclass(frozen=True, slots=True)
class Look:
    """One portrait's traits; every value is an index into the table of its name."""

    background: int
    backdrop: int
    skin: int
    face: int
    hair_style: int
    hair_colour: int
    clothes: int
    cloth_colour: int
    accent: int
    glasses: int
    beard: int
    hat: int
    earrings: int

    @property
    def bucket(self) -> int:
        return sum(self.traits) % BUCKETS

    @property
    def traits(self) -> tuple[int, ...]:
        return astuple(self)


def draw_look(rng: random.Random) -> Look:
    """Draw a look; most people do without a beard, and half of them without glasses, a hat or earrings."""
    return Look(
        background=rng.randrange(BACKGROUNDS),
        backdrop=rng.randrange(len(BACKDROPS)),
        skin=rng.randrange(SKINS),
        face=rng.randrange(len(FACES)),
        hair_style=rng.randrange(len(HAIR_STYLES)),
        hair_colour=rng.randrange(HAIR_COLOURS),
        clothes=rng.randrange(len(CLOTHES)),
        cloth_colour=rng.randrange(CLOTH_COLOURS),
        accent=rng.randrange(CLOTH_COLOURS),
        glasses=_often_none(rng, GLASSES),
        beard=_often_none(rng, BEARDS, 0.3),
        hat=_often_none(rng, HATS),
        earrings=_often_none(rng, EARRINGS),
    )


def _often_none(rng: random.Random, kinds: tuple[str, ...], share: float = 0.5) -> int:
    return rng.randrange(1, len(kinds)) if rng.random() < share else 0


class LookBook:
    """Draws looks of the given buckets that differ from all it drew before in `MIN_DIFFERENCES` traits or more."""

    def __init__(self, rng: random.Random, buckets: tuple[int, ...]) -> None:
        self._rng = rng
        self._buckets = buckets
        self._drawn: list[tuple[int, ...]] = []

    def draw(self) -> Look:
        while True:
            look = draw_look(self._rng)
            if look.accent == look.cloth_colour or look.bucket not in self._buckets:
                continue
            drawn = look.traits
            if all(differences(drawn, earlier) >= MIN_DIFFERENCES for earlier in self._drawn):
                self._drawn.append(drawn)
                return look


def differences(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """Return how many traits of two looks differ."""
    return sum(map(operator.ne, one, other))
