"""The photos: PNG, JPEG or WEBP files, kept byte for byte unless they are to be made smaller."""

from __future__ import annotations

import io
from pathlib import Path

from PIL import Image

from umu_tasks.benchmarks.errors import DataError
from umu_tasks.benchmarks.images import StoredImage, refuse_truncated

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")
_FORMATS = ("PNG", "JPEG", "WEBP")


def read_photo(path: Path, *, row_id: str, max_side: int | None = None) -> bytes:
    """Return a photo file's bytes after opening it whole.

    A photo that a camera turned (EXIF) keeps that note, and is turned upright whenever it is read.

    Args:
        max_side: photos with a longer side, in pixels, are scaled down and turned upright; a JPEG stays a JPEG, other
            formats become PNG, and what a camera wrote beside the pixels is left out.

    Raises:
        DataError: it does not open, is cut off, or is of another format.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror}).", file=str(path), row_id=row_id) from error
    kind = _format(data, path, row_id)
    try:
        image = StoredImage(data, file=str(path), row_id=row_id, column="image")()
    except DataError as error:
        raise DataError(error.problem, file=str(path), row_id=row_id) from error
    if max_side is None or max(image.size) <= max_side:
        return data
    return _smaller(image, max_side, kind)


def _format(data: bytes, path: Path, row_id: str) -> str:
    try:
        with refuse_truncated(), Image.open(io.BytesIO(data)) as image:
            kind = image.format or "an unknown format"
    except Image.DecompressionBombError as error:
        raise DataError(
            f"has more pixels than are opened ({error}). Scale it down.", file=str(path), row_id=row_id
        ) from error
    except Exception as error:  # Pillow's plug-ins raise what they like
        raise DataError(
            f"not an image that opens ({len(data)} bytes; {type(error).__name__}). Replace the file, or drop the row.",
            file=str(path),
            row_id=row_id,
        ) from error
    if kind not in _FORMATS:
        raise DataError(f"is {kind}; expected {', '.join(_FORMATS)}. Convert it.", file=str(path), row_id=row_id)
    return kind


def _smaller(image: Image.Image, max_side: int, kind: str) -> bytes:
    image.thumbnail((max_side, max_side), Image.Resampling.LANCZOS)
    image.info.clear()
    buffer = io.BytesIO()
    if kind == "JPEG":
        image.save(buffer, format="JPEG", quality=95, subsampling=0)
    else:
        image.save(buffer, format="PNG")
    return buffer.getvalue()
