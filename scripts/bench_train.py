"""Seconds and memory of a training step: the published scripts' and ours, on the same model shape and rows, in one run.

    python scripts/bench_train.py --shape llava-1.5-7b --device cuda --json bench_train.json   # 120 GB for KL
    python scripts/bench_train.py --shape mini --device cpu

Both train LoRA of rank 64 on 6 multimodal and 6 unimodal forget questions a step (GD, KL and PO with as many retain
questions beside), with weights in bf16 on a GPU. `published_steps.py` restates the published step. Ours is `unlearn.py`
with `pack_by_profile`, `cache_image_features` and the adapter off as reference; its labels are on the answers only.
Data loading is part of both. `--our_batch_sizes 6 24` also measures ours with more questions a step, for which it has
the memory: a step of few questions is bound by the number of its operations.

"floor" is what ours would take if nothing but the decoder's multiplications counted, at the speed of a large matrix
product measured here: 4 operations a weight and token with gradient (6 with checkpointing), 2 without.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from measuring import clock, machine, measured_flops, peak_gib, reset_peak
from published_steps import LORA_MODULES, METHODS, PublishedStep
from shapes import SHAPES, checkpoint_of
from transformers import TrainerCallback

from umu_tasks.benchmarks.sources import open_source
from umu_trainers import run, unlearn
from umu_trainers.config import UnlearnArguments, parse
from umu_trainers.data import load_refusals, training_set, unlearn_sets
from umu_trainers.image_features import cache_image_features
from umu_trainers.model import Start
from umu_trainers.objectives import REFERENCE

WARM_UP = 2  # steps not measured
RATIO = 15  # percent of UMU-mini's people in the forget set: 54 questions of each modality


@dataclass(frozen=True)
class Cost:
    """What one way costs: median seconds a forget question, GiB at the peak (None on a CPU), tokens a step."""

    seconds: float
    peak: float | None
    tokens: int


@dataclass(frozen=True)
class Line:
    """One line of the table."""

    method: str
    checkpointing: bool
    questions: int  # forget questions of each modality in our step
    published: Cost
    ours: Cost
    floor: float

    @property
    def faster(self) -> float:
        return self.published.seconds / self.ours.seconds

    @property
    def memory(self) -> float | None:
        """Our peak as a fraction of the published one."""
        if self.ours.peak is None or self.published.peak is None:
            return None
        return self.ours.peak / self.published.peak

    def record(self) -> dict[str, Any]:
        return {**asdict(self), "faster": self.faster, "memory": self.memory}


class Clock(TrainerCallback):
    """Notes when each step ends, so that what comes between two steps counts too."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.ends: list[float] = []

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.ends.append(clock(self.device))
        if len(self.ends) == WARM_UP:
            reset_peak(self.device)


def main() -> None:
    """Measure each method both ways, print the table."""
    options = _options()
    device = torch.device(options.device)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    result: dict[str, Any] = {
        "shape": options.shape,
        "batch_size": options.batch_size,
        "machine": machine(device),
        "measured_TFLOPs": measured_flops(device, dtype) / 1e12,
        "lines": [],
    }
    for checkpointing in options.checkpointing:
        for method in options.methods:
            for line in _lines(method, checkpointing == "on", options, device, dtype, result["measured_TFLOPs"] * 1e12):
                result["lines"].append(line.record())
                print(_text(line), flush=True)
                if options.json:
                    options.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(_table(result))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="mini", help="sizes of the model (default: mini)")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS, help="default: all")
    parser.add_argument(
        "--checkpointing", nargs="+", choices=("off", "on"), default=("off", "on"), help="default: both"
    )
    parser.add_argument("--batch_size", type=int, default=6, help="forget questions of each modality (default: 6)")
    parser.add_argument(
        "--our_batch_sizes", type=int, nargs="+", help="the same for ours, one or several (default: equal)"
    )
    parser.add_argument("--steps", type=int, default=3, help="steps measured, after two that are not (default: 3)")
    parser.add_argument("--json", type=Path, help="file to write the figures to, after each line anew")
    return parser.parse_args()


def _lines(
    method: str,
    checkpointing: bool,
    options: argparse.Namespace,
    device: torch.device,
    dtype: torch.dtype,
    flops: float,
) -> Iterator[Line]:
    published = _published(method, checkpointing, options, device, dtype)
    for questions in options.our_batch_sizes or [options.batch_size]:
        ours, floor = _ours(method, checkpointing, questions, options, device, dtype)
        yield Line(method, checkpointing, questions, published, ours, floor / flops / (2 * questions))


# ---- the two ways -----------------------------------------------------------------------------------------------


def _published(
    method: str, checkpointing: bool, options: argparse.Namespace, device: torch.device, dtype: torch.dtype
) -> Cost:
    reset_peak(device)
    opened = checkpoint_of(options.shape, device, dtype)
    source = open_source("mini")
    rows = {
        role: training_set(role, source.load_for_training(split), ("uni", "mul")).rows
        for role, split in (("forget", f"forget{RATIO}"), ("retain", f"retain{100 - RATIO}"))
    }
    reference = copy.deepcopy(opened.model) if method in ("kl", "npo") else None
    step = PublishedStep(
        method, opened.model, reference, opened.builder, rows, load_refusals(), options.batch_size,
        checkpointing=checkpointing,
    )  # fmt: skip
    seconds = []
    for number in range(WARM_UP + options.steps):
        if number == WARM_UP:
            reset_peak(device)
        started = clock(device)
        step()
        seconds.append(clock(device) - started)
    median = statistics.median(seconds[WARM_UP:])
    return Cost(median / (2 * options.batch_size), peak_gib(device), step.tokens)


def _ours(
    method: str,
    checkpointing: bool,
    questions: int,
    options: argparse.Namespace,
    device: torch.device,
    dtype: torch.dtype,
) -> tuple[Cost, float]:
    """Return the cost, and the decoder's operations in one step."""
    reset_peak(device)
    with tempfile.TemporaryDirectory() as folder:
        args = _settings(method, checkpointing, questions, options, folder)
        opened = checkpoint_of(options.shape, device, dtype)
        start = Start(opened.model, opened.builder, options.shape, None)
        cache_image_features(start.model, args.train, args.image_feature_cache_mb)
        sets = unlearn_sets(open_source("mini"), args)
        trainer = unlearn.build_trainer(args, start, run.build_encoder(start, args), *sets)
        steps = Clock(device)
        trainer.add_callback(steps)
        trainer.train()
    seconds = [end - start for start, end in zip(steps.ends[WARM_UP - 1 :], steps.ends[WARM_UP:], strict=False)]
    tokens, operations = _work(trainer, opened.model, checkpointing)
    return Cost(statistics.median(seconds) / (2 * questions), peak_gib(device), tokens), operations


def _settings(
    method: str, checkpointing: bool, questions: int, options: argparse.Namespace, folder: str
) -> UnlearnArguments:
    flags: dict[str, Any] = {
        "model": options.shape, "data": "mini", "method": method, "output_dir": folder,
        "pack_by_profile": True, "cache_image_features": True, "gradient_checkpointing": checkpointing,
        "per_device_train_batch_size": questions, "forget_ratio": RATIO, "max_steps": WARM_UP + options.steps,
        "save_strategy": "no", "report_to": "none", "disable_tqdm": True, "learning_rate": 1e-6,
        "logging_steps": 1000, "use_cpu": options.device == "cpu",
    }  # fmt: skip
    texts = [text for name, one in flags.items() for text in (f"--{name}", str(one))]
    if method in LORA_MODULES:
        texts += ["--lora_modules", *LORA_MODULES[method]]
    return parse(UnlearnArguments, "", texts)


def _work(trainer: Any, model: Any, checkpointing: bool) -> tuple[int, float]:
    """Return the tokens of one step, each counted once, and the decoder's operations on them in all passes."""
    plan, collator = trainer.train_dataset, trainer.data_collator
    batch = collator([plan[number] for number in range(trainer.args.per_device_train_batch_size)])
    tokens = {name: sum(one.length for one in batch[name]["packed"].sequences) for name in collator.fillers}
    decoder = model.get_decoder()
    weights = sum(one.numel() for name, one in decoder.named_parameters() if "embed" not in name)
    operations = 0.0
    for name in trainer.objective.passes:
        role = name.removesuffix(REFERENCE)
        a_weight = 2 if name.endswith(REFERENCE) else 6 if checkpointing else 4
        operations += a_weight * weights * sum(tokens.get(f"{role}_{half}", 0) for half in ("uni", "mul"))
    return sum(tokens.values()), operations


# ---- what is shown ------------------------------------------------------------------------------------------------


def _gib(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def _text(line: Line) -> str:
    ways = "  ".join(
        f"{name} {one.seconds:.4f} s a question, {_gib(one.peak)} GiB, {one.tokens} tokens a step"
        for name, one in (("published", line.published), ("ours", line.ours))
    )
    return f"{line.method}, checkpointing {'on' if line.checkpointing else 'off'}, ours {line.questions}: {ways}"


def _table(result: dict[str, Any]) -> str:
    """Return the Markdown table of docs/performance.md."""
    lines = [
        f"{result['shape']}, {result['batch_size']} + {result['batch_size']} questions a step, {result['machine']}, "
        f"matrix products {result['measured_TFLOPs']:.3g} TFLOP/s",
        "",
        "| method | checkpointing | published s a question | peak GiB | our step | ours s a question | peak GiB | "
        "times faster | share of memory | floor s |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for one in result["lines"]:
        published, ours = one["published"], one["ours"]
        share = "–" if one["memory"] is None else f"{one['memory']:.0%}"
        step = f"{one['questions']} + {one['questions']}"
        cells = [
            one["method"], "on" if one["checkpointing"] else "off", f"{published['seconds']:.4f}",
            _gib(published["peak"]), step, f"{ours['seconds']:.4f}", _gib(ours["peak"]), f"{one['faster']:.1f}", share,
            f"{one['floor']:.4f}",
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
