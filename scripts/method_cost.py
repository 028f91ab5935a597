"""What a step of each unlearning method costs: time and peak memory, for the shape of LLaVA-1.5-7B.

    python scripts/method_cost.py --out method_cost.json            # needs a GPU with 80 GB or more
    python scripts/method_cost.py --shape tiny --steps 3            # on a CPU, to see that it runs

The weights are random, built from the config on the device: cost does not depend on their values, and nothing has to be
downloaded. Rows are UMU-mini's, encoded by a processor made here: 576 image tokens a multimodal row, as LLaVA-1.5 has.
"""

from __future__ import annotations

import argparse
import gc
import json
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    CLIPImageProcessor,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
    PreTrainedTokenizerFast,
    TrainerCallback,
)

from umu_tasks.backend.prompting import PromptBuilder
from umu_tasks.benchmarks.sources import open_source
from umu_trainers import objectives, run, unlearn
from umu_trainers.config import UnlearnArguments, parse
from umu_trainers.data import TrainingSet, unlearn_sets
from umu_trainers.encoding import RowEncoder
from umu_trainers.model import Start

WARM_UP = 2  # steps not measured
GIB = 2**30
EXTRA: dict[str, dict[str, Any]] = {"rmu": {"hidden_layer": 7}}  # settings without a default


@dataclass
class Cost:
    """One line of the table: seconds a step (median), GiB at the peak, GiB before the first step."""

    method: str
    checkpointing: bool
    seconds: float
    peak: float
    before: float


class Clock(TrainerCallback):
    """Times the steps, waiting for the device at both ends of each."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.start = 0.0

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.start = _now()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.seconds.append(_now() - self.start)

    @property
    def median(self) -> float:
        ordered = sorted(self.seconds[WARM_UP:])
        return ordered[len(ordered) // 2]


def _now() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def build_processor(texts: list[str]) -> LlavaProcessor:
    """Return a processor with LLaVA-1.5's images and a word-piece tokenizer of the texts at hand."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<pad>", "<s>", "</s>", "<image>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        texts,
        trainers.BpeTrainer(vocab_size=8000, special_tokens=special, initial_alphabet=alphabet, show_progress=False),
    )
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    named = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, extra_special_tokens={"image_token": "<image>"}, **named)
    images = CLIPImageProcessor(size={"shortest_edge": 336}, crop_size={"height": 336, "width": 336})
    return LlavaProcessor(
        image_processor=images, tokenizer=fast, patch_size=14, vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
    )  # fmt: skip


def build_config(shape: str) -> LlavaConfig:
    """Return LLaVA-1.5-7B's config (transformers' own default) or one of the same parts that a CPU can run."""
    config = LlavaConfig(image_token_id=3)
    config.text_config.vocab_size = 32064
    if shape == "tiny":
        for part, layers in ((config.text_config, 8), (config.vision_config, 3)):
            part.hidden_size, part.intermediate_size, part.num_hidden_layers, part.num_attention_heads = (
                64,
                128,
                layers,
                2,
            )
        config.text_config.num_key_value_heads = 2
    return config


def build_model(config: LlavaConfig, device: torch.device, dtype: torch.dtype) -> LlavaForConditionalGeneration:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with device:
            return LlavaForConditionalGeneration(config)
    finally:
        torch.set_default_dtype(before)


def settings(method: str, asked: argparse.Namespace, folder: str, *, checkpointing: bool) -> UnlearnArguments:
    """Return the published settings: LoRA of rank 64 on the whole decoder, 6 + 6 rows a step."""
    flags = {
        "model": "llava-1.5-7b-shape", "data": "mini", "method": method, "output_dir": folder,
        "gradient_checkpointing": checkpointing, "per_device_train_batch_size": asked.batch_size,
        "max_steps": WARM_UP + asked.steps, "save_strategy": "no", "report_to": "none", "disable_tqdm": True,
        "learning_rate": 1e-6, "logging_steps": 1000, "use_cpu": not torch.cuda.is_available(),
    }  # fmt: skip
    if method in EXTRA:
        flags["method_kwargs"] = json.dumps(EXTRA[method])
    return parse(UnlearnArguments, "", [text for name, one in flags.items() for text in (f"--{name}", str(one))])


def measure(method: str, asked: argparse.Namespace, processor: LlavaProcessor, *, checkpointing: bool) -> Cost:
    """Train a few steps of a method with the trainer that `unlearn.py` uses."""
    with tempfile.TemporaryDirectory() as folder:
        args = settings(method, asked, folder, checkpointing=checkpointing)
        model = build_model(build_config(asked.shape), args.device, torch.bfloat16 if args.bf16 else torch.float32)
        start = Start(model, PromptBuilder(processor, "published"), args.model, None)
        trainer = unlearn.build_trainer(args, start, RowEncoder(start.builder), *_sets(args))
        clock = Clock()
        trainer.add_callback(clock)
        gc.collect()
        _reset_peak()
        before = _allocated()
        trainer.train()
        return Cost(method, checkpointing, clock.median, _peak(), before)


def _sets(args: UnlearnArguments) -> tuple[TrainingSet, TrainingSet | None]:
    return unlearn_sets(open_source(args.data), args)


def _reset_peak() -> None:
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def _peak() -> float:
    return torch.cuda.max_memory_allocated() / GIB if torch.cuda.is_available() else 0.0


def _allocated() -> float:
    return torch.cuda.memory_allocated() / GIB if torch.cuda.is_available() else 0.0


def table(costs: list[Cost]) -> str:
    """Return the Markdown table of docs/training.md."""
    lines = [
        "| method | s a step | peak GiB | s a step, checkpointing | peak GiB, checkpointing |",
        "|---|---|---|---|---|",
    ]
    by_method: dict[str, dict[bool, Cost]] = {}
    for cost in costs:
        by_method.setdefault(cost.method, {})[cost.checkpointing] = cost
    for method, found in by_method.items():
        cells = [f"{found[on].seconds:.2f} | {found[on].peak:.1f}" if on in found else "– | –" for on in (False, True)]
        lines.append(f"| `{method}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=["llava-1.5-7b", "tiny"], default="llava-1.5-7b", help="size of the model")
    parser.add_argument("--methods", nargs="+", default=objectives.available(), help="default: all")
    parser.add_argument("--batch_size", type=int, default=6, help="forget rows of each modality in a step (default: 6)")
    parser.add_argument("--steps", type=int, default=5, help="steps measured, after two that are not (default: 5)")
    parser.add_argument("--out", type=Path, help="JSON file that gets the numbers, after each method anew")
    asked = parser.parse_args()
    source = open_source("mini")
    texts = [f"{one.question} {one.answer}" for split in ("full", "real") for profile in source.load(split)
             for one in profile.pairs]  # fmt: skip
    processor = build_processor(texts)
    costs: list[Cost] = []
    for method in asked.methods:
        for checkpointing in (False, True):
            costs.append(measure(method, asked, processor, checkpointing=checkpointing))
            gc.collect()
            print(asdict(costs[-1]), flush=True)
            if asked.out is not None:
                asked.out.write_text(json.dumps([asdict(one) for one in costs], indent=2) + "\n", encoding="utf-8")
    run.say(table(costs))


if __name__ == "__main__":
    main()
