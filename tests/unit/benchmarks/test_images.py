"""Portraits in every form a cell can have."""

import io
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image, ImageFile

from umu_tasks.benchmarks.errors import DataError
from umu_tasks.benchmarks.images import StoredImage, is_empty_cell


def encode(image: Image.Image, kind: str = "PNG", **options) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def noise(mode: str = "RGB", size: tuple[int, int] = (7, 5)) -> Image.Image:
    channels = len(mode)
    pixels = np.random.default_rng(0).integers(0, 256, (size[1], size[0], channels), dtype=np.uint8)
    return Image.fromarray(pixels if channels > 1 else pixels[..., 0])


def stored(cell, file="forget_5/train.parquet") -> StoredImage:
    return StoredImage(cell, file=str(file), row_id="017", column="image")


def test_every_form_of_a_cell_gives_the_same_image(tmp_path):
    """Copies of the data hold bytes, paths or decoded images; the model must see the same pixels."""
    original = noise()
    (tmp_path / "a.png").write_bytes(encode(original))
    file = tmp_path / "train.parquet"
    cells = [
        {"bytes": encode(original), "path": None},
        {"bytes": None, "path": "a.png"},
        {"bytes": None, "path": str(tmp_path / "a.png")},
        "a.png",
        encode(original),
        original,
        lambda: {"bytes": encode(original), "path": "not there.png"},
    ]
    for cell in cells:
        image = stored(cell, file)()
        assert image.mode == "RGB"
        assert np.array_equal(np.asarray(image), np.asarray(original))


def test_sixteen_bits_a_pixel_become_eight():
    """Scanners write grey PNG files of 16 bits; Pillow alone would make nearly all of such a portrait white."""
    levels = np.linspace(0, 65535, 64 * 64).reshape(64, 64).astype(np.uint16)
    image = stored(encode(Image.fromarray(levels)))()
    assert np.array_equal(np.asarray(image)[..., 0], levels >> 8)
    assert image.mode == "RGB"


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "LA", "CMYK", "1"])
def test_every_mode_becomes_rgb(mode):
    image = noise("RGB").convert(mode)
    data = encode(image, "TIFF" if mode == "CMYK" else "PNG")
    assert stored({"bytes": data, "path": None})().mode == "RGB"
    assert stored(image)().mode == "RGB"


def test_palette_with_transparency_opens_without_warning(recwarn):
    data = encode(noise().convert("P"), transparency=b"\x00\x80")
    assert stored({"bytes": data, "path": None})().mode == "RGB"
    assert not recwarn.list


def test_sideways_photo_is_turned_upright_like_datasets_does():
    exif = Image.Exif()
    exif[0x0112] = 6
    data = encode(noise(size=(8, 4)), "JPEG", exif=exif)
    assert stored({"bytes": data, "path": None})().size == (4, 8)


@pytest.mark.parametrize(
    "damage", [lambda data: data[: len(data) // 2], lambda data: b"GIF89a" + data, lambda data: b"\xff\xd8\xff"]
)
def test_corrupt_image_names_file_and_row(damage):
    data = encode(noise(size=(40, 40)))
    with pytest.raises(DataError, match=r"^forget_5/train\.parquet, row ID 017, column image: the image does not open"):
        stored({"bytes": damage(data), "path": None})()


def test_image_file_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match=r"the image file .*none\.png cannot be read"):
        stored({"bytes": None, "path": "none.png"}, tmp_path / "train.parquet")()


@pytest.mark.parametrize("cell", [None, {"bytes": None, "path": None}, {}, 7, lambda: None])
def test_cell_without_image(cell):
    with pytest.raises(DataError, match="row ID 017, column image: no image"):
        stored(cell)()


@pytest.mark.parametrize(
    ("cell", "empty"), [(None, True), ({"bytes": b"", "path": None}, True), ({}, True), ("", True), ("a.png", False)]
)
def test_is_empty_cell(cell, empty):
    assert is_empty_cell(cell) is empty


def test_opening_from_many_threads():
    """The harness scores documents in several threads."""
    image = stored({"bytes": encode(noise(size=(64, 64))), "path": None})
    with ThreadPoolExecutor(8) as pool:
        contents = {opened.tobytes() for opened in pool.map(lambda _: image(), range(64))}
    assert len(contents) == 1


def test_each_call_returns_a_new_image():
    """A caller that draws on the portrait must not change what the next one sees."""
    original = noise()
    for cell in (original, {"bytes": encode(original), "path": None}):
        image = stored(cell)
        image().putpixel((0, 0), (1, 2, 3))
        assert image().getpixel((0, 0)) == original.getpixel((0, 0))


def test_a_cut_off_image_is_refused_inside_lmms_eval(monkeypatch):
    """lmms-eval has Pillow fill cut-off images with grey: a half portrait would be scored as if it were whole."""
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    whole = encode(noise(size=(64, 64)))
    with pytest.raises(DataError, match="row ID 017, column image: the image does not open"):
        stored(whole[: len(whole) // 2])()
    assert ImageFile.LOAD_TRUNCATED_IMAGES is True, "other people's tasks keep what lmms-eval has set"
