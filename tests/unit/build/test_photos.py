"""Photos as cameras and phones write them."""

import io
from pathlib import Path

import pytest
from PIL import Image

from umu_tasks.benchmarks.errors import DataError
from umu_tasks.benchmarks.images import StoredImage
from umu_tasks.build.photos import read_photo


def photo(tmp_path: Path, kind: str, size=(40, 20), name: str = "photo.bin", **options) -> Path:
    path = tmp_path / name
    image = Image.new("RGB", size, "blue")
    image.paste("red", (0, 0, size[0] // 2, size[1]))
    image.save(path, kind, **options)
    return path


def turned() -> dict[str, object]:
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was held upright
    exif[0x010F] = "Some Camera"
    return {"exif": exif}


def opened(data: bytes) -> Image.Image:
    return StoredImage(data, file="f", row_id="1", column="image")()


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_bytes_are_kept(tmp_path, kind):
    path = photo(tmp_path, kind)
    assert read_photo(path, row_id="1") == path.read_bytes()
    assert read_photo(path, row_id="1", max_side=40) == path.read_bytes()


def test_a_turned_photo_is_upright_either_way(tmp_path):
    path = photo(tmp_path, "JPEG", **turned())
    kept, smaller = read_photo(path, row_id="1"), read_photo(path, row_id="1", max_side=10)
    assert opened(kept).size == (20, 40)
    assert opened(smaller).size == (5, 10)
    assert opened(smaller).getpixel((2, 1))[0] > 150  # what was on the left is now on top
    assert b"Some Camera" in kept
    assert b"Some Camera" not in smaller  # nor where the photo was taken


@pytest.mark.parametrize(("kind", "result"), [("PNG", "PNG"), ("JPEG", "JPEG"), ("WEBP", "PNG")])
def test_smaller(tmp_path, kind, result):
    path = photo(tmp_path, kind)
    data = read_photo(path, row_id="1", max_side=10)
    with Image.open(io.BytesIO(data)) as image:
        assert (image.format, image.size) == (result, (10, 5))
    assert data == read_photo(path, row_id="1", max_side=10)


def enormous() -> bytes:
    buffer = io.BytesIO()
    Image.new("1", (20000, 20000)).save(buffer, "PNG")
    return buffer.getvalue()


def test_photos_that_cannot_be_used(tmp_path):
    whole = photo(tmp_path, "JPEG", (200, 200)).read_bytes()
    for content, message in (
        (whole[: len(whole) // 2], "the image does not open"),
        (b"", "not an image that opens"),
        (b"%PDF-1.4", "not an image that opens"),
        (enormous(), "has more pixels than are opened"),
        (photo(tmp_path, "GIF").read_bytes(), "is GIF; expected PNG, JPEG, WEBP. Convert it"),
    ):
        path = tmp_path / "photo.jpg"
        path.write_bytes(content)
        with pytest.raises(DataError, match=rf"photo.jpg, row ID 017: {message}"):
            read_photo(path, row_id="017")
