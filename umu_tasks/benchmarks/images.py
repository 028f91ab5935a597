"""Portraits: read from the source when asked for, always RGB, never kept."""

from __future__ import annotations

import io
import struct
import threading
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageFile, ImageOps

from umu_tasks.benchmarks.errors import DataError

# What Pillow's decoders raise on damaged files, besides OSError.
_DECODE_ERRORS = (
    OSError,
    SyntaxError,
    ValueError,
    EOFError,
    TypeError,
    IndexError,
    struct.error,
    zlib.error,
    Image.DecompressionBombError,
)
_EXIF_ORIENTATION = 0x0112
_STRICT = threading.Lock()


@dataclass(frozen=True, slots=True)
class StoredImage:
    """Opens one portrait at each call; this is a profile's `open_image`. Safe to call from several threads.

    Attributes:
        cell: the image cell in any form found in use (``{"bytes", "path"}``, encoded bytes, a path, a decoded Pillow
            image), or a function that reads the cell from the source when called.
        file: the file the row comes from; a relative path in the cell starts from its folder.
    """

    cell: object
    file: str
    row_id: str
    column: str

    def __call__(self) -> Image.Image:
        """Return the portrait as an RGB image.

        Raises:
            DataError: the cell holds no image, or one that does not open.
        """
        cell = self._read()
        if isinstance(cell, Image.Image):
            return to_rgb(cell)
        data = self._bytes(cell)
        try:
            with refuse_truncated(), Image.open(io.BytesIO(data)) as image:
                return to_rgb(image)
        except _DECODE_ERRORS as error:
            raise self._error(
                f"the image does not open ({len(data)} bytes; {error}). Replace the image, or drop the row."
            ) from error

    def content(self) -> bytes:
        """Return the encoded bytes as stored (of a decoded image: its size, mode and pixels), for hashing."""
        cell = self._read()
        if isinstance(cell, Image.Image):
            return f"{cell.mode}{cell.size}".encode() + cell.tobytes()
        return self._bytes(cell)

    def _read(self) -> object:
        return self.cell() if callable(self.cell) else self.cell

    def _bytes(self, cell: object) -> bytes:
        data, path = (cell.get("bytes"), cell.get("path")) if isinstance(cell, Mapping) else (cell, cell)
        if isinstance(data, bytes | bytearray | memoryview):
            return bytes(data)
        if not isinstance(path, str | Path):
            raise self._error("no image: neither bytes nor a path. Add the image, or drop the row.")
        full_path = Path(self.file).parent / path
        try:
            return full_path.read_bytes()
        except OSError as error:
            raise self._error(f"the image file {full_path} cannot be read ({error}). Put it there.") from error

    def _error(self, problem: str) -> DataError:
        return DataError(problem, file=self.file, row_id=self.row_id, column=self.column, kind="image does not open")


@contextmanager
def refuse_truncated() -> Iterator[None]:
    """Have Pillow raise on a file that is cut off, whatever the process has set.

    lmms-eval switches Pillow to filling the missing part with grey, so that half a portrait would be asked about as if
    it were whole. The switch is one for all threads: one decodes at a time.
    """
    with _STRICT:
        before = ImageFile.LOAD_TRUNCATED_IMAGES
        ImageFile.LOAD_TRUNCATED_IMAGES = False
        try:
            yield
        finally:
            ImageFile.LOAD_TRUNCATED_IMAGES = before


def is_empty_cell(cell: object) -> bool:
    """Tell whether an image cell holds nothing. A function counts as something: it is not called."""
    if isinstance(cell, Mapping):
        return not cell.get("bytes") and not cell.get("path")
    return cell is None or (isinstance(cell, str | bytes) and not cell)


def _eight_bits(image: Image.Image) -> Image.Image:
    """Return a grey image of 16 bits a pixel (PNG knows them) in 8: Pillow would make all but the darkest white."""
    wide = image.convert("I")
    return wide.point(lambda level: level * (1 / 256) + 0).convert("L")


def to_rgb(image: Image.Image) -> Image.Image:
    """Return a loaded RGB copy, turned upright as `datasets` does it."""
    if image.getexif().get(_EXIF_ORIENTATION) is not None:
        image = ImageOps.exif_transpose(image)
    if image.mode.startswith("I"):
        image = _eight_bits(image)
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")  # Pillow warns if a palette with transparency goes straight to RGB
    return image.convert("RGB")
