"""The machine: GPU, memory, disk."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from umu_tasks.benchmarks.cache import cache_dir
from umu_tasks.doctor.finding import Finding

GIB = 2**30
NVIDIA_DRIVER = Path("/proc/driver/nvidia/version")
LITTLE_DISK = 5 * GIB  # UMU-mini takes 30 MB, the published data about 1 GB, a 7B checkpoint 14 GB


def check_machine() -> Iterator[Finding]:
    """Yield the accelerator, the memory, and the disk under the cache folder."""
    yield check_accelerator()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    yield Finding("ok", "CPU", f"{os.cpu_count()} cores, {memory / GIB:.0f} GiB of memory")
    try:
        yield check_disk(cache_dir("."))
    except OSError as error:
        yield Finding("failed", "disk", str(error), "Set UMU_CACHE to a folder that can be written.")


def check_accelerator() -> Finding:
    """Return the GPUs that PyTorch sees."""
    try:
        import torch
    except ImportError as error:
        return Finding("failed", "PyTorch", str(error), "Install PyTorch for your machine: pip install torch")
    if not torch.cuda.is_available():
        found = "none that PyTorch can use: everything runs on the CPU"
        if not NVIDIA_DRIVER.exists():
            return Finding("ok", "GPU", found)
        built = f"built for CUDA {torch.version.cuda}" if torch.version.cuda else "built without CUDA"
        return Finding(
            "warning", "GPU", found, f"There is an NVIDIA driver, and a PyTorch {built}: install a fitting one."
        )
    cards = [torch.cuda.get_device_properties(number) for number in range(torch.cuda.device_count())]
    named = ", ".join(f"{one.name} ({one.total_memory / GIB:.0f} GiB)" for one in cards)
    precision = "bfloat16" if torch.cuda.is_bf16_supported() else "no bfloat16: use float16 or float32"
    return Finding("ok", "GPU", f"{named}; CUDA {torch.version.cuda}, {precision}")


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
