"""Portraits: the same look gives the same bytes, and people are told apart at the model's 48 pixels."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
from PIL import Image

from umu_tasks.mini import look as traits
from umu_tasks.mini.look import MIN_DIFFERENCES, differences
from umu_tasks.mini.people import Person
from umu_tasks.mini.portraits import BACKGROUNDS, CLOTHES, HAIR, SIZE, SKINS, draw_portrait, portrait_png


def _small(people: list[Person]) -> np.ndarray:
    images = [Image.open(io.BytesIO(portrait_png(person.look))).convert("RGB").resize((48, 48)) for person in people]
    return np.stack([np.asarray(image, dtype=np.float32) for image in images])  # (people, 48, 48, 3)


def test_portraits_of_a_set_differ_visibly(invented: list[Person], real: list[Person]) -> None:
    """Any two of the 80 portraits differ by 24 levels or more (of 255) in at least 5 % of the pixels."""
    small = _small(invented + real)
    for i in range(len(small) - 1):
        changed = (np.abs(small[i + 1 :] - small[i]).max(axis=-1) >= 24).mean(axis=(1, 2))
        assert changed.min() >= 0.05, (i, int(changed.argmin()))


def test_looks_differ_within_a_group_and_are_not_shared_between_groups(
    invented: list[Person], real: list[Person], pretraining: list[Person]
) -> None:
    looks = [person.look.traits for person in invented + real + pretraining]
    assert len(set(looks)) == len(looks)
    own = [person.look.traits for person in invented]
    closest = min(differences(one, other) for i, one in enumerate(own) for other in own[:i])
    assert closest >= MIN_DIFFERENCES


def test_same_look_same_bytes(invented: list[Person]) -> None:
    image = Image.open(io.BytesIO(portrait_png(invented[0].look)))
    assert image.size == (SIZE, SIZE)
    assert portrait_png(invented[0].look) == portrait_png(invented[0].look)


def test_every_trait_shows(invented: list[Person]) -> None:
    """A trait that changed nothing in the drawing would make two people with different looks identical."""
    plain = replace(invented[0].look, hat=0, beard=0, glasses=0, earrings=0, hair_style=4, clothes=2, accent=1)
    before = np.asarray(draw_portrait(plain, 96), dtype=int)
    sizes = {
        "background": len(BACKGROUNDS), "backdrop": len(traits.BACKDROPS), "skin": len(SKINS),
        "face": len(traits.FACES),
        "hair_style": len(traits.HAIR_STYLES), "hair_colour": len(HAIR), "clothes": len(traits.CLOTHES),
        "cloth_colour": len(CLOTHES), "accent": len(CLOTHES), "glasses": len(traits.GLASSES),
        "beard": len(traits.BEARDS), "hat": len(traits.HATS), "earrings": len(traits.EARRINGS),
    }  # fmt: skip
    for name, size in sizes.items():
        for value in range(size):
            if value != getattr(plain, name):
                after = np.asarray(draw_portrait(replace(plain, **{name: value}), 96), dtype=int)
                assert np.abs(after - before).max() > 20, (name, value)


def test_palettes_match_the_tables() -> None:
    assert (len(BACKGROUNDS), len(SKINS), len(HAIR), len(CLOTHES)) == (
        traits.BACKGROUNDS, traits.SKINS, traits.HAIR_COLOURS, traits.CLOTH_COLOURS,
    )  # fmt: skip
