"""The same person in other poses: what MLLMU-Bench's Test_Set shows, made from the one drawing of a look."""

from __future__ import annotations

import io
from collections.abc import Callable

from PIL import Image, ImageOps

from umu_tasks.mini.look import Look
from umu_tasks.mini.portraits import BACKGROUNDS, SIZE, Colour, draw_portrait

Pose = Callable[[Image.Image, Colour], Image.Image]


def _mirrored(portrait: Image.Image, background: Colour) -> Image.Image:
    return ImageOps.mirror(portrait)


def _tilted(degrees: float) -> Pose:
    def turn(portrait: Image.Image, background: Colour) -> Image.Image:
        return portrait.rotate(degrees, Image.Resampling.BICUBIC, fillcolor=background)

    return turn


def _closer(portrait: Image.Image, background: Colour) -> Image.Image:
    edge = portrait.width // 10
    return portrait.crop((edge, edge, portrait.width - edge, portrait.height - edge)).resize(
        portrait.size, Image.Resampling.BICUBIC
    )


def _aside(portrait: Image.Image, background: Colour) -> Image.Image:
    moved = Image.new("RGB", portrait.size, background)
    moved.paste(portrait, (portrait.width // 8, portrait.height // 20))
    return moved


POSES: dict[str, Pose] = {
    "mirrored": _mirrored,
    "tilted left": _tilted(12),
    "tilted right": _tilted(-12),
    "closer": _closer,
    "aside": _aside,
}


def pose_pngs(look: Look, names: tuple[str, ...], size: int = SIZE) -> list[bytes]:
    """Return a PNG file's bytes for each of the named poses; the same look gives the same bytes."""
    portrait, background = draw_portrait(look, size), BACKGROUNDS[look.background]
    return [_png(POSES[name](portrait, background)) for name in names]


def _png(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.quantize(64, dither=Image.Dither.NONE).save(buffer, format="PNG")
    return buffer.getvalue()
