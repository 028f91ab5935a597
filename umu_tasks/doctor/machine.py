"""The machine: GPU, memory, disk."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from umu_tasks.benchmarks.cache import cache_dir
from umu_tasks.doctor.finding import Finding

GIB = 2**30
NVIDIA_DRIVER = Path("/proc/driver/nvidia/version")
LITTLE_DISK = 5 * GIB  # UMU-mini takes 30 MB, the published data about 1 GB, a 7B checkpoint 14 GB
LITTLE_MEMORY = 3 * GIB  # what `umu demo` takes


def check_machine() -> Iterator[Finding]:
    """Yield the accelerator, the memory, and the disk under the cache folder."""
    yield check_accelerator()
    yield check_memory()
    try:
        yield check_disk(cache_dir("."))
    except OSError as error:
        yield Finding("failed", "disk", str(error), "Set UMU_CACHE to a folder that can be written.")


def check_memory() -> Finding:
    """Return the CPU cores this process may use and the memory that is free."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    free = _free_memory() or total
    text = f"{len(os.sched_getaffinity(0))} cores, {free / GIB:.0f} of {total / GIB:.0f} GiB of memory free"
    if free < LITTLE_MEMORY:
        return Finding("warning", "CPU", text, "Even the small model needs 3 GiB: end other programs.")
    return Finding("ok", "CPU", text)


def _free_memory() -> int | None:
    try:
        found = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        return None  # not Linux
    return int(found[1]) * 1024 if found else None


def check_accelerator() -> Finding:
    """Return the GPUs that PyTorch sees, with the memory that is free on each."""
    try:
        import torch
    except (ImportError, OSError) as error:  # OSError: one of its libraries is missing
        return Finding("failed", "GPU", f"PyTorch: {error}", "Install PyTorch for your machine: pip install torch")
    if not torch.cuda.is_available():
        return _without_gpu(torch.version.cuda)
    named = []
    try:
        for number in range(torch.cuda.device_count()):
            free, total = torch.cuda.mem_get_info(number)
            named.append(f"{torch.cuda.get_device_name(number)} ({free / GIB:.0f} of {total / GIB:.0f} GiB free)")
    except RuntimeError as error:  # full to the last byte, in exclusive use, broken
        text = f"{torch.cuda.get_device_name(number)} can't be used: {str(error).splitlines()[0]}"
        return Finding("failed", "GPU", text, "Look at nvidia-smi; choose another one with CUDA_VISIBLE_DEVICES.")
    precision = "bfloat16" if torch.cuda.is_bf16_supported() else "no bfloat16: use float16 or float32"
    return Finding("ok", "GPU", f"{', '.join(named)}; {_driver()}, CUDA {torch.version.cuda}, {precision}")


def _without_gpu(built_for: str | None) -> Finding:
    """Return why there is no GPU, where something speaks for one."""
    found = "none that PyTorch can use: everything runs on the CPU"
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    if not NVIDIA_DRIVER.exists():
        return Finding("ok", "GPU", found)
    if hidden is not None and hidden.strip() in ("", "-1"):
        return Finding("warning", "GPU", f"{found}; CUDA_VISIBLE_DEVICES={hidden} hides them", "Unset it to use them.")
    built = f"built for CUDA {built_for}" if built_for else "built without CUDA"
    advice = f"The {_driver()} is there, and PyTorch is {built}: install a PyTorch that fits the driver."
    return Finding("warning", "GPU", found, advice)


def _driver() -> str:
    """Return ``driver 550.54`` as the kernel names it."""
    try:
        found = re.search(r"\s(\d+\.[\d.]+)\s", NVIDIA_DRIVER.read_text(encoding="utf-8"))
    except OSError:
        found = None
    return f"driver {found[1]}" if found else "driver of unknown version"


def check_disk(folder: Path) -> Finding:
    """Return the room in a folder."""
    free = shutil.disk_usage(folder).free
    text = f"{free / GIB:.0f} GiB free under {folder}"
    if not os.access(folder, os.W_OK):
        return Finding("failed", "disk", f"{folder} cannot be written", "Set UMU_CACHE to a folder that can.")
    if free < LITTLE_DISK:
        return Finding(
            "warning", "disk", text, "Checkpoints and data may not fit. Set UMU_CACHE and HF_HOME elsewhere."
        )
    return Finding("ok", "disk", text)
