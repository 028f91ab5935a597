"""What the speed scripts share: a clock that waits for the device, peak memory, and the machine's own ceilings."""

from __future__ import annotations

import gc
import platform
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import torch

GIB = 2**30


def clock(device: torch.device) -> float:
    """Return the time in seconds, once the device has done all it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def reset_peak(device: torch.device) -> None:
    """Let go of unused memory and count peak memory from here on."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def peak_gib(device: torch.device) -> float | None:
    """Return the device's peak memory, GiB; None on a CPU, where it is not counted."""
    return torch.cuda.max_memory_allocated(device) / GIB if device.type == "cuda" else None


def seconds_of(work: Callable[[], Any], device: torch.device, repeats: int = 10) -> float:
    """Return the mean seconds of a piece of work, run once before."""
    work()
    started = clock(device)
    for _ in range(repeats):
        work()
    return (clock(device) - started) / repeats


def measured_flops(device: torch.device, dtype: torch.dtype) -> float:
    """Return floating point operations a second of a large matrix product (8192³ on a GPU, 1024³ else)."""
    side = 8192 if device.type == "cuda" else 1024
    a, b = (torch.randn(side, side, device=device, dtype=dtype) for _ in range(2))
    return 2 * side**3 / seconds_of(lambda: a @ b, device)


def machine(device: torch.device) -> dict[str, str]:
    """Return where and with what a figure was measured."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    packages = ("torch", "transformers", "peft", "trl")
    return {"device": name, "date": time.strftime("%Y-%m-%d"), **{one: version(one) for one in packages}}
