"""Does training on two processes give what one process gives? Runs a small job on UMU-mini each way and compares.

    python scripts/check_processes.py --configs ddp zero2 zero3      # two GPUs
    DS_ACCELERATOR=cpu python scripts/check_processes.py --configs zero2 zero3      # no GPU

Of the two processes, one has image rows only and the other text rows only (`apart.py`).
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from faults import fault

ROOT = Path(__file__).parents[1]
STEP = 8  # rows of a step
ADAPTER = ["--method", "kl", "--use_lora", "true", "--lora_r", "8", "--lora_dropout", "0"]
JOBS = {
    "adapter": [*ADAPTER, "--gradient_checkpointing", "false"],
    "adapter-checkpointing": [*ADAPTER, "--gradient_checkpointing", "true"],
    "weights": ["--method", "kl", "--use_lora", "false"],
}
# Without mixed precision, so that the numbers can be compared closely.
COMMON = [
    "--model", "mini", "--data", "mini", "--max_steps", "5", "--learning_rate", "1e-3", "--logging_steps", "1",
    "--bf16", "false", "--save_strategy", "no", "--report_to", "none", "--disable_tqdm", "true",
]  # fmt: skip


def train(config: str, processes: int, job: str, folder: Path, limit: int) -> str:
    """Run one job; return what went wrong, or nothing."""
    rows = STEP // processes
    launch = ["--config_file", str(ROOT / f"configs/accelerate/{config}.yaml"), "--num_processes", str(processes)]
    command = [
        sys.executable, "-m", "accelerate.commands.launch", *launch, "--main_process_port", "0",
        str(ROOT / "scripts/apart.py"), str(STEP // 2), *COMMON, *JOBS[job], "--output_dir", str(folder),
        "--per_device_train_batch_size", str(rows),
    ]  # fmt: skip
    if processes == 1 and not torch.cuda.is_available():
        command += ["--use_cpu", "true"]
    log = folder.with_suffix(".stderr")
    with log.open("w", encoding="utf-8") as errors:
        # A session of its own, so that a hanging run's processes end with the launcher.
        run = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True)
        try:
            status = run.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, signal.SIGKILL)
            run.wait()
            return f"no end within {limit} s; last: {fault(log.read_text(encoding='utf-8', errors='replace'))}"
    return f"failed: {fault(log.read_text(encoding='utf-8', errors='replace'))}" if status else ""


def read(folder: Path) -> tuple[list[dict[str, Any]], dict[str, torch.Tensor]]:
    """Return the losses and gradient norms of each step, and the weights."""
    from safetensors.torch import load_file

    log = json.loads((folder / "training_record.json").read_text(encoding="utf-8"))["result"]["log"]
    steps = [{name: one[name] for name in one if name.startswith(("loss", "nll", "grad_norm"))} for one in log]
    weights = {name: one for file in folder.glob("*.safetensors") for name, one in load_file(file).items()}
    return [one for one in steps if "loss" in one], {_bare(name): one for name, one in weights.items()}


def _bare(name: str) -> str:
    """Return a weight's name without `model`: transformers has more than one name for LLaVA's in files."""
    return ".".join(part for part in name.split(".") if part not in ("model", "vision_model"))


def compare(one: Path, other: Path) -> str:
    """Return the largest differences between two runs."""
    (steps, weights), (found_steps, found) = read(one), read(other)
    if weights.keys() != found.keys():
        return f"other tensors: {len(found)} of {len(weights)} saved"
    loss = max(
        abs(found[name] - step[name]) / max(1.0, abs(step[name]))
        for step, found in zip(steps, found_steps, strict=True)
        for name in step
    )
    weight = max(float((found[name] - one).abs().max()) for name, one in weights.items())
    return f"largest relative difference of a logged value {loss:.1e}; of a weight {weight:.1e}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--configs", nargs="+", default=["ddp", "zero2", "zero3"], help="in configs/accelerate")
    parser.add_argument("--jobs", nargs="+", default=list(JOBS), help=f"default: {' and '.join(JOBS)}")
    parser.add_argument("--limit", type=int, default=300, help="seconds after which a run counts as hanging")
    parser.add_argument(
        "--keep", type=Path, help="folder for the runs and what each wrote to stderr; default: none is kept"
    )
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        for job in asked.jobs:
            reference = (asked.keep or Path(scratch)) / job
            reference.parent.mkdir(parents=True, exist_ok=True)
            if wrong := train("single", 1, job, reference, asked.limit):
                sys.exit(f"{job}, one process: {wrong}")
            for config in asked.configs:
                folder = reference.with_name(f"{reference.name}-{config}")
                begun = time.perf_counter()
                wrong = train(config, 2, job, folder, asked.limit)
                took = f"{time.perf_counter() - begun:.0f} s"
                print(f"{config}: {job}: {wrong or compare(reference, folder)} ({took})", flush=True)


if __name__ == "__main__":
    main()
