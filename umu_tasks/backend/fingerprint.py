"""Says which weights answered, by their content: a path names a folder, and another model may lie in it tomorrow.

weights_fingerprint("runs/llava-x") == weights_fingerprint("elsewhere/run_17")  # the same tensors
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from huggingface_hub import try_to_load_from_cache

ADAPTER_CONFIG = "adapter_config.json"
_BLOCK = 8 * 1024**2  # bytes read at once; hashing lets other threads run meanwhile
_THREADS = 8
# What else decides an answer: architecture, tokens that end it, tokenizer, image processor, chat template, code.
_SETUP_FILES = (
    "config.json", "generation_config.json", "processor_config.json", "preprocessor_config.json", "tokenizer*",
    "special_tokens_map.json", "added_tokens.json", "vocab*", "merges.txt", "*.model", "chat_template*", "*.py",
)  # fmt: skip
# Where an adapter was trained and how it is used next; all other settings (rank, alpha, modules) change its answers.
_ADAPTER_WHEREABOUTS = ("base_model_name_or_path", "revision", "inference_mode", "peft_version", "auto_mapping")


class Stamp(NamedTuple):
    """One state of a file: while it is the same, so is the content."""

    path: str
    size: int
    modified: int
    inode: int


def weights_fingerprint(name: str) -> str | None:
    """Return the SHA-256 of a checkpoint's tensors: names, types, shapes, values, in whatever files they are stored.

    Args:
        name: a folder, or the hub id of a checkpoint that was downloaded before.

    Returns:
        None where no weight file is found. Pickled weights (``.bin``) are hashed by file, since reading their tensors
        would run them: the same tensors in other files then have another fingerprint.
    """
    stamps = weight_stamps(name)
    return _hash_files(stamps) if stamps else None


def weight_stamps(name: str) -> tuple[Stamp, ...]:
    """Return the state of a checkpoint's weight files, cheap to ask for; empty where there are none."""
    folder = local_folder(name)
    return () if folder is None else tuple(_stamp(file) for file in _weight_files(folder))


def adapter_fingerprint(name: str) -> str | None:
    """Return the SHA-256 of an adapter: its tensors and the settings that say how they act; None where there is none.

    Args:
        name: a folder, or the hub id of an adapter that was downloaded before.
    """
    folder = local_folder(name, ADAPTER_CONFIG)
    if folder is None:
        return None
    files = [folder / name for name in ("adapter_model.safetensors", "adapter_model.bin") if (folder / name).is_file()]
    if not files:
        return None
    weights = _hash_files((_stamp(files[0]),))
    settings = json.loads((folder / ADAPTER_CONFIG).read_text(encoding="utf-8"))
    own = {key: _unordered(value) for key, value in settings.items() if key not in _ADAPTER_WHEREABOUTS}
    return _digest([weights, json.dumps(own, sort_keys=True)])


def setup_fingerprint(name: str) -> str | None:
    """Return the SHA-256 of all else in a checkpoint's folder that decides an answer: config, tokenizer, processor."""
    folder = local_folder(name) or local_folder(name, ADAPTER_CONFIG)
    if folder is None:
        return None
    files = sorted({file for pattern in _SETUP_FILES for file in folder.glob(pattern) if file.is_file()})
    return _digest(f"{file.name} {hashlib.sha256(file.read_bytes()).hexdigest()}" for file in files)


def local_folder(name: str, marker: str = "config.json") -> Path | None:
    """Return the folder `name` stands for: itself, or the downloaded snapshot of a hub id that holds `marker`."""
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder
    try:
        cached = try_to_load_from_cache(name, marker)
    except ValueError:  # no hub id either
        return None
    return Path(cached).parent if isinstance(cached, str) else None


# ---- files ------------------------------------------------------------------------------------------------------


def _weight_files(folder: Path) -> list[Path]:
    """Return the files that transformers loads: one file before shards, safetensors before pickled weights."""
    for stem, ending in (("model", "safetensors"), ("pytorch_model", "bin")):
        single, index = folder / f"{stem}.{ending}", folder / f"{stem}.{ending}.index.json"
        if single.is_file():
            return [single]
        if index.is_file():
            shards = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
            return [folder / shard for shard in sorted(shards)]
    return []


def _stamp(file: Path) -> Stamp:
    status = file.stat()
    return Stamp(str(file.resolve()), status.st_size, status.st_mtime_ns, status.st_ino)


@lru_cache(maxsize=64)  # in memory only: a copied file can keep size and time of another one
def _hash_files(stamps: tuple[Stamp, ...]) -> str:
    parts = [part for stamp in stamps for part in _parts(stamp)]
    with ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1)) as pool:
        lines = list(pool.map(_hash_part, parts))
    return _digest(sorted(lines))


class _Part(NamedTuple):
    """A stretch of a file that is hashed on its own, with what it is called in the fingerprint."""

    label: str
    path: str
    start: int
    size: int


def _parts(stamp: Stamp) -> list[_Part]:
    if not stamp.path.endswith(".safetensors"):
        return [_Part("file", stamp.path, 0, stamp.size)]
    header, data = _safetensors_header(stamp.path)
    return [
        _Part(f"{name} {one['dtype']} {one['shape']}", stamp.path, data + begin, end - begin)
        for name, one in header.items()
        if name != "__metadata__"
        for begin, end in [one["data_offsets"]]
    ]


def _safetensors_header(path: str) -> tuple[dict[str, Any], int]:
    """Return the header and where the data starts. Format: header's length (8 bytes, little-endian), JSON, data."""
    with Path(path).open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        return json.loads(file.read(length)), 8 + length


def _hash_part(part: _Part) -> str:
    digest = hashlib.sha256()
    left = part.size
    with Path(part.path).open("rb") as file:
        file.seek(part.start)
        while left > 0:
            block = file.read(min(_BLOCK, left))
            if not block:
                raise ValueError(
                    f"{part.path}: cut off, {left} bytes of {part.label} are missing. Copy the file again."
                )
            digest.update(block)
            left -= len(block)
    return f"{part.label} {digest.hexdigest()}"


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _unordered(value: Any) -> Any:
    """PEFT keeps module names in sets, which it writes in any order."""
    return sorted(value, key=str) if isinstance(value, list) else value
