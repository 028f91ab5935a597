"""A single file of a checkpoint, in its folder or in its repository on the hub."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from huggingface_hub import HfApi, hf_hub_download, try_to_load_from_cache
from huggingface_hub.errors import HFValidationError

from umu_tasks.benchmarks.hub import TRANSPORT_ERRORS

CONFIGS = ("config.json", "adapter_config.json")
HUB_ERRORS: tuple[type[Exception], ...] = (HFValidationError, *TRANSPORT_ERRORS)


def find_file(place: str, name: str) -> Path | None:
    """Return the path of a file that belongs to a checkpoint or an adapter; one on the hub is downloaded.

    Args:
        place: folder or hub id.

    Returns:
        None where it has no such file, or the hub is out of reach and the file not in its cache: whoever opens the
        checkpoint itself finds out and says why.
    """
    folder = Path(place).expanduser()
    if folder.exists():
        return folder / name if (folder / name).is_file() else None
    try:
        listed = _files(place)
        if listed is not None:
            return Path(hf_hub_download(place, name)) if name in listed else None
        cached = try_to_load_from_cache(place, name)
    except HUB_ERRORS:
        return None
    return Path(cached) if isinstance(cached, str) else None


def file_names(place: str) -> list[str]:
    """Return the sorted names of the files of a checkpoint or an adapter, those in folders below it left out.

    Args:
        place: folder or hub id. Where the hub is out of reach: the files of it that were downloaded before.
    """
    folder = Path(place).expanduser()
    if not folder.exists():
        try:
            listed = _files(place)
            if listed is not None:
                return sorted(name for name in listed if "/" not in name)
            cached = next(
                (file for name in CONFIGS if isinstance(file := try_to_load_from_cache(place, name), str)), None
            )
        except HUB_ERRORS:
            return []
        if cached is None:
            return []
        folder = Path(cached).parent
    return sorted(file.name for file in folder.iterdir() if file.is_file()) if folder.is_dir() else []


@lru_cache(maxsize=64)  # asked once a process: without network each attempt costs seconds
def _files(hub_id: str) -> frozenset[str] | None:
    """Return the files in a repository; None if the hub does not say."""
    try:
        return frozenset(one.rfilename for one in HfApi().model_info(hub_id).siblings or ())
    except HUB_ERRORS:
        return None
