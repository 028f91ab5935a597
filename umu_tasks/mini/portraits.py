"""Portraits drawn from a `Look`: flat, friendly, told apart at 48 pixels."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass

from PIL import Image, ImageDraw

from umu_tasks.mini import look as traits
from umu_tasks.mini.look import Look

SIZE = 192  # pixels a side
_SUPERSAMPLE = 3  # drawn this much larger, then scaled down, for smooth edges

Colour = tuple[int, int, int]


def _palette(text: str) -> tuple[Colour, ...]:
    return tuple((int(c[:2], 16), int(c[2:4], 16), int(c[4:], 16)) for c in text.split())


BACKGROUNDS = _palette("f6d5c3 cfe8f3 d9ecd0 fbe7a1 e4d5f2 f5c6d6 b7dcd2 8fb3d9 f2a97e 9fc08a c9c4bd 5f7a9c")
SKINS = _palette("fbe0cf f3c9a5 e3ac80 c98a5b a86b42 7d4a2d 55321f")
HAIR = _palette("1f1a1a 4a2f22 7b4a2b a5402a d9772b e6bd5c f3e6c4 9b9b9f 3f6fb5 d1569b")
CLOTHES = _palette("c0392b e67e22 f1c40f 2e8b57 1abc9c 2980b9 2c3e50 8e44ad ec7fa9 ffffff 8d6e63 6b7d2a")
_INK: Colour = (45, 35, 35)
_WHITE: Colour = (255, 255, 255)
_GOLD: Colour = (240, 190, 60)


def draw_portrait(look: Look, size: int = SIZE) -> Image.Image:
    """Return the portrait as an RGB image of `size` x `size` pixels."""
    sketch = _Sketch(look, size * _SUPERSAMPLE)
    for part in _PARTS:
        part(sketch)
    return sketch.image.resize((size, size), Image.Resampling.LANCZOS)


def portrait_png(look: Look, size: int = SIZE) -> bytes:
    """Return the portrait as a PNG file's bytes; the same look gives the same bytes."""
    buffer = io.BytesIO()
    draw_portrait(look, size).quantize(64, dither=Image.Dither.NONE).save(buffer, format="PNG")
    return buffer.getvalue()


def _shade(colour: Colour, factor: float) -> Colour:
    """Return the colour darkened (factor below 1) or lightened towards white (above 1)."""
    if factor <= 1:
        return tuple(int(part * factor) for part in colour)  # type: ignore[return-value]
    return tuple(int(part + (255 - part) * (factor - 1)) for part in colour)  # type: ignore[return-value]


class _Sketch:
    """A canvas of 100 x 100 units and the colours of one look."""

    def __init__(self, look: Look, pixels: int) -> None:
        self.look = look
        self.unit = pixels / 100
        self.background = BACKGROUNDS[look.background]
        self.skin = SKINS[look.skin]
        self.hair = HAIR[look.hair_colour]
        self.cloth = CLOTHES[look.cloth_colour]
        self.accent = CLOTHES[look.accent]
        self.style = traits.HAIR_STYLES[look.hair_style]
        self.image = Image.new("RGB", (pixels, pixels), self.background)
        self._draw = ImageDraw.Draw(self.image)
        self.half_width, self.half_height = _FACE_SIZES[traits.FACES[look.face]]

    @property
    def head(self) -> Box:
        return Box(50 - self.half_width, 46 - self.half_height, 50 + self.half_width, 46 + self.half_height)

    def _scaled(self, *values: float) -> list[float]:
        return [value * self.unit for value in values]

    def ellipse(self, box: Box, fill: Colour | None, outline: Colour | None = None, width: float = 0) -> None:
        self._draw.ellipse(self._scaled(*box.sides), fill, outline, round(width * self.unit))

    def circle(self, x: float, y: float, radius: float, fill: Colour) -> None:
        self.ellipse(Box(x - radius, y - radius, x + radius, y + radius), fill)

    def rectangle(self, box: Box, fill: Colour, radius: float = 0) -> None:
        self._draw.rounded_rectangle(self._scaled(*box.sides), radius * self.unit, fill)

    def frame(self, box: Box, outline: Colour, width: float, radius: float) -> None:
        self._draw.rounded_rectangle(
            self._scaled(*box.sides), radius * self.unit, None, outline, round(width * self.unit)
        )

    def chord(self, box: Box, start: float, end: float, fill: Colour) -> None:
        self._draw.chord(self._scaled(*box.sides), start, end, fill)

    def arc(self, box: Box, start: float, end: float, fill: Colour, width: float) -> None:
        self._draw.arc(self._scaled(*box.sides), start, end, fill, round(width * self.unit))

    def polygon(self, points: list[tuple[float, float]], fill: Colour) -> None:
        self._draw.polygon([(x * self.unit, y * self.unit) for x, y in points], fill)

    def line(self, points: list[tuple[float, float]], fill: Colour, width: float) -> None:
        self._draw.line([(x * self.unit, y * self.unit) for x, y in points], fill, round(width * self.unit), "curve")


@dataclass(frozen=True, slots=True)
class Box:
    """Left, top, right, bottom, in units of a hundredth of the portrait's side."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def sides(self) -> tuple[float, float, float, float]:
        return self.left, self.top, self.right, self.bottom

    def grown(self, by: float) -> Box:
        return Box(self.left - by, self.top - by, self.right + by, self.bottom + by)


_FACE_SIZES = {"oval": (17.0, 21.0), "round": (19.5, 20.0), "long": (15.5, 22.5), "square": (17.5, 20.0)}


def _backdrop(sketch: _Sketch) -> None:
    kind = traits.BACKDROPS[sketch.look.backdrop]
    tint = _shade(sketch.background, 0.82)
    if kind == "disc":
        sketch.circle(50, 48, 43, _shade(sketch.background, 1.55))
    elif kind == "stripes":
        for left in range(-100, 100, 24):
            sketch.polygon([(left, 100), (left + 12, 100), (left + 112, 0), (left + 100, 0)], tint)
    elif kind == "dots":
        for row in range(6):
            for column in range(6):
                sketch.circle(column * 20 + (10 if row % 2 else 0), row * 18 + 4, 4, tint)
    elif kind == "hills":
        sketch.ellipse(Box(-40, 55, 60, 150), _shade(sketch.background, 0.72))
        sketch.ellipse(Box(40, 62, 150, 150), tint)
    elif kind == "split":
        sketch.rectangle(Box(50, 0, 100, 100), tint)


def _back_hair(sketch: _Sketch) -> None:
    head, dark = sketch.head, _shade(sketch.hair, 0.82)
    if sketch.style == "long":
        sketch.rectangle(Box(head.left - 6, head.top - 4, head.right + 6, 86), dark, radius=18)
    elif sketch.style == "wavy":
        for y in range(34, 84, 9):
            sketch.circle(head.left - 1, y, 8.5, dark)
            sketch.circle(head.right + 1, y, 8.5, dark)
    elif sketch.style == "bob":
        sketch.rectangle(Box(head.left - 6, head.top - 3, head.right + 6, 66), dark, radius=14)
    elif sketch.style == "afro":
        for x, y in ((50, 22), (34, 26), (66, 26), (27, 40), (73, 40), (30, 52), (70, 52)):
            sketch.circle(x, y, 13.5, dark)
    elif sketch.style == "ponytail":
        sketch.ellipse(Box(head.right - 4, 28, head.right + 17, 80), dark)
    elif sketch.style == "pigtails":
        sketch.ellipse(Box(head.left - 17, 36, head.left + 2, 74), dark)
        sketch.ellipse(Box(head.right - 2, 36, head.right + 17, 74), dark)
    elif sketch.style == "bun":
        sketch.circle(50, head.top - 5, 10, dark)


def _body(sketch: _Sketch) -> None:
    kind, cloth = traits.CLOTHES[sketch.look.clothes], sketch.cloth
    shoulders = Box(12, 72, 88, 150)
    if kind == "hoodie":
        sketch.ellipse(Box(24, 60, 76, 92), _shade(cloth, 0.75))
    sketch.ellipse(shoulders, cloth)
    if kind == "striped":
        for y in (80, 90):
            sketch.rectangle(Box(18 if y > 85 else 26, y, 82 if y > 85 else 74, y + 5), sketch.accent)
    sketch.rectangle(Box(42.5, 58, 57.5, 76), _shade(sketch.skin, 0.86), radius=5)
    if kind == "vneck":
        sketch.polygon([(39, 73), (61, 73), (50, 90)], _shade(sketch.skin, 0.94))
        sketch.line([(39, 73), (50, 90), (61, 73)], sketch.accent, 2.5)
    else:
        sketch.chord(Box(40, 66, 60, 81), 0, 180, _shade(sketch.skin, 0.86))
    _collar(sketch, kind)


def _collar(sketch: _Sketch, kind: str) -> None:
    if kind == "collar":
        sketch.polygon([(40, 71), (50, 80), (41, 87), (33, 76)], sketch.accent)
        sketch.polygon([(60, 71), (50, 80), (59, 87), (67, 76)], sketch.accent)
        for y in (87, 94):
            sketch.circle(50, y, 1.3, _shade(sketch.cloth, 0.5))
    elif kind == "scarf":
        sketch.rectangle(Box(33, 67, 67, 79), sketch.accent, radius=6)
        sketch.rectangle(Box(56, 74, 67, 100), _shade(sketch.accent, 0.85), radius=3)
    elif kind == "hoodie":
        for x in (43, 57):
            sketch.line([(x, 79), (x, 94)], _WHITE, 1.6)
    elif kind == "dungarees":
        for x in (32, 60):
            sketch.rectangle(Box(x, 74, x + 8, 100), sketch.accent, radius=2)
        sketch.rectangle(Box(32, 88, 68, 104), sketch.accent, radius=3)


def _face(sketch: _Sketch) -> None:
    head = sketch.head
    for x in (head.left, head.right):
        sketch.circle(x, 47, 4.2, _shade(sketch.skin, 0.9))
    if traits.FACES[sketch.look.face] == "square":
        sketch.rectangle(head, sketch.skin, radius=12)
    else:
        sketch.ellipse(head, sketch.skin)
    blush = tuple((a * 2 + b) // 3 for a, b in zip(sketch.skin, (235, 110, 110), strict=True))
    for x in (39.5, 60.5):
        sketch.circle(x, 53.5, 3.2, blush)  # type: ignore[arg-type]
    for x in (42.5, 57.5):
        sketch.ellipse(Box(x - 3.1, 43, x + 3.1, 48.6), _WHITE)
        sketch.circle(x, 46, 2.1, _INK)
        sketch.circle(x + 0.7, 45.2, 0.7, _WHITE)
        sketch.arc(Box(x - 4.5, 38.5, x + 4.5, 45), 205, 335, _shade(sketch.hair, 0.6), 1.5)
    sketch.arc(Box(47, 45, 53, 53.5), 25, 155, _shade(sketch.skin, 0.7), 1.4)
    sketch.chord(Box(43.5, 52, 56.5, 61.5), 15, 165, (176, 58, 66))


def _beard(sketch: _Sketch) -> None:
    kind, head, dark = traits.BEARDS[sketch.look.beard], sketch.head, _shade(sketch.hair, 0.9)
    if kind == "full":
        sketch.chord(head.grown(1), 24, 156, dark)
        sketch.chord(Box(43.5, 52.5, 56.5, 61), 15, 165, (196, 78, 84))
    elif kind == "goatee":
        sketch.ellipse(Box(43.5, 60.5, 56.5, head.bottom + 4), dark)
    if kind in ("moustache", "full"):
        sketch.ellipse(Box(39.5, 52, 50.8, 56.8), dark)
        sketch.ellipse(Box(49.2, 52, 60.5, 56.8), dark)


def _front_hair(sketch: _Sketch) -> None:
    head, hair = sketch.head, sketch.hair
    cap = Box(head.left - 2, head.top - 4, head.right + 2, head.bottom)
    middle = (cap.left + cap.right) / 2
    if sketch.style == "bald":
        sketch.ellipse(Box(43, head.top + 3, 50, head.top + 6), _shade(sketch.skin, 1.4))
    elif sketch.style == "buzz":
        sketch.chord(Box(head.left, head.top - 1, head.right, head.bottom), 205, 335, _shade(hair, 0.9))
    elif sketch.style == "mohawk":
        sketch.ellipse(Box(43, head.top - 13, 57, head.top + 13), hair)
    elif sketch.style == "spiky":
        sketch.chord(cap, 200, 340, hair)
        for x in range(-3, 4):
            left = middle + x * 5
            sketch.polygon([(left - 4, head.top + 5), (left + 4, head.top + 5), (left + x * 1.5, head.top - 10)], hair)
    elif sketch.style in ("fringe", "bob"):
        sketch.chord(cap, 180, 360, hair)
        sketch.rectangle(Box(head.left - 1, head.top + 8, head.right + 1, head.top + 15), hair, radius=3)
    elif sketch.style in ("parted", "ponytail"):
        sketch.chord(cap, 192, 348, hair)
        sketch.polygon([(cap.left + 1, 40), (cap.left + 4, 28), (60, 26), (52, 34)], hair)
    elif sketch.style == "afro":
        for x in (37, 46, 55, 63):
            sketch.circle(x, head.top + 4, 6.5, hair)
    else:
        sketch.chord(cap, 197, 343, hair)


def _hat(sketch: _Sketch) -> None:
    kind, head, colour = traits.HATS[sketch.look.hat], sketch.head, sketch.accent
    dark = _shade(colour, 0.72)
    crown = Box(head.left - 3, head.top - 8, head.right + 3, head.top + 32)
    if kind == "beanie":
        sketch.chord(crown, 180, 360, colour)
        sketch.rectangle(Box(crown.left - 1, head.top + 7, crown.right + 1, head.top + 14), dark, radius=3)
        sketch.circle(50, crown.top - 1, 4.5, dark)
    elif kind == "brim":
        sketch.rectangle(Box(head.left + 1, head.top - 12, head.right - 1, head.top + 10), colour, radius=6)
        sketch.rectangle(Box(head.left + 1, head.top + 3, head.right - 1, head.top + 8), dark)
        sketch.ellipse(Box(head.left - 14, head.top + 5, head.right + 14, head.top + 13), colour)
    elif kind == "cap":
        sketch.chord(crown, 180, 360, colour)
        sketch.ellipse(Box(46, head.top + 7, head.right + 15, head.top + 14), dark)
    elif kind == "headband":
        sketch.rectangle(Box(head.left - 2, head.top + 6, head.right + 2, head.top + 11.5), colour, radius=2)
    elif kind == "bow":
        x, y = head.left + 6, head.top + 2
        sketch.polygon([(x, y), (x - 10, y - 7), (x - 10, y + 7)], colour)
        sketch.polygon([(x, y), (x + 10, y - 7), (x + 10, y + 7)], colour)
        sketch.circle(x, y, 3, dark)


def _glasses(sketch: _Sketch) -> None:
    kind = traits.GLASSES[sketch.look.glasses]
    if kind == "none":
        return
    for x in (42.2, 57.8):
        lens = Box(x - 6, 40.5, x + 6, 51.5)
        if kind == "round":
            sketch.ellipse(lens, None, _INK, 1.5)
        elif kind == "square":
            sketch.frame(lens, (150, 40, 40), 1.8, 2)
        else:
            sketch.rectangle(lens, (25, 25, 35), radius=4.5)
    colour = (150, 40, 40) if kind == "square" else _INK
    sketch.line([(48, 45), (52, 45)], colour, 1.6)
    sketch.line([(sketch.head.left, 44.5), (36.5, 45)], colour, 1.4)
    sketch.line([(sketch.head.right, 44.5), (63.5, 45)], colour, 1.4)


def _earrings(sketch: _Sketch) -> None:
    kind = traits.EARRINGS[sketch.look.earrings]
    for x in (sketch.head.left - 1.5, sketch.head.right + 1.5):
        if kind == "hoops":
            sketch.ellipse(Box(x - 3.6, 50, x + 3.6, 58), None, _GOLD, 1.7)
        elif kind == "studs":
            sketch.circle(x, 52.5, 2.3, sketch.accent)


_PARTS: tuple[Callable[[_Sketch], None], ...] = (
    _backdrop, _back_hair, _body, _face, _beard, _front_hair, _hat, _glasses, _earrings,
)  # fmt: skip
