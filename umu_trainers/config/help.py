"""How `--help` is ordered and worded: by what one wants to do, in lines a newcomer can read."""

from __future__ import annotations

import argparse
from typing import Any

# Title -> settings, in the order shown. All others are shown by --help_all only.
GROUPS: dict[str, tuple[str, ...]] = {
    "start, data and output": (
        "model", "trust_remote_code", "benchmark", "data", "output_dir", "resume_from_checkpoint",
    ),
    "what is forgotten, and how": (
        "method", "forget_ratio", "modality", "alpha", "beta", "gamma", "npo_beta", "method_kwargs", "retain_modality",
    ),
    "what is learned": ("split", "replay_real", "attach_image"),
    "steps": (
        "num_train_epochs", "max_steps", "per_device_train_batch_size", "gradient_accumulation_steps", "learning_rate",
        "lr_scheduler_type", "warmup_steps", "weight_decay", "max_grad_norm", "optim", "seed",
        "train_sampling_strategy",
    ),
    "what of the model is trained": (
        "train", "use_lora", "lora_r", "lora_alpha", "lora_dropout", "lora_init", "lora_modules", "use_dora",
        "quantization", "dtype", "merge_adapter",
    ),
    "when to stop": ("max_forget_loss", "score_every", "score_sample", "retain_floor"),
    "the reference model": ("reference_model", "precompute_reference"),
    "rows": ("prompt", "max_length"),
    "speed and memory": (
        "use_cpu", "bf16", "fp16", "gradient_checkpointing", "attn_implementation", "pack_by_profile",
        "cache_image_features", "image_feature_cache_mb", "pixel_cache_mb", "dataloader_num_workers",
    ),
    "logs and checkpoints": (
        "logging_steps", "report_to", "disable_tqdm", "save_strategy", "save_steps", "save_total_limit",
    ),
    "as the published scripts (docs/objectives.md)": (
        "label_scope", "nll_average", "retain_subset", "phases", "clip_multimodal", "lora_target_modules",
    ),
}  # fmt: skip
OTHERS = "all other settings of TRL and transformers"

# In place of transformers' texts, which speak of any trainer.
TEXTS = {
    "output_dir": "Folder the result is written to; must not hold a run yet, unless that is resumed.",
    "num_train_epochs": "Passes over the forget set (in SFT: over the split).",
    "max_steps": "End after this many steps instead. -1: as num_train_epochs says.",
    "per_device_train_batch_size": "Rows of each modality in a step, for each process.",
    "gradient_accumulation_steps": "Batches summed up before the weights are changed; one step is batch size x this x "
    "processes.",
    "learning_rate": "Learning rate at its highest.",
    "lr_scheduler_type": "How the rate goes on: linear (down to 0), cosine, constant, …",
    "warmup_steps": "Steps in which the rate rises from 0; below 1: a fraction of all steps.",
    "weight_decay": "Weight decay of AdamW.",
    "max_grad_norm": "Norm the gradient is clipped to. 0: no clipping.",
    "optim": "Optimizer, as transformers names it.",
    "seed": "Of the rows' order, the retain rows and refusals drawn, and the adapter's start.",
    "train_sampling_strategy": "random, or in SFT group_by_length (less padding).",
    "use_cpu": "Train on the CPU although there is a GPU.",
    "fp16": "float16 mixed precision.",
    "gradient_checkpointing": "Less memory, slower: activations are computed again in the backward pass.",
    "dataloader_num_workers": "Processes that prepare batches; 0: the training process itself.",
    "logging_steps": "Steps between two entries of the log.",
    "disable_tqdm": "No progress bar. None: as the log level says.",
    "save_strategy": "When checkpoints are written: no, steps, epoch.",
    "save_steps": "Steps between two checkpoints, with save_strategy steps.",
    "save_total_limit": "Checkpoints kept, the newest. None: all.",
}


class HelpFormatter(argparse.HelpFormatter):
    """One spelling a setting, no lists of choices, and defaults only where they say something."""

    def __init__(self, prog: str, **settings: Any) -> None:
        super().__init__(prog, max_help_position=30, **settings)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Leave examples in the lines they were written in."""
        return text if text.startswith("examples:") else super()._fill_text(text, width, indent)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """`--use_lora USE_LORA`, without the spelling with dashes."""
        if not action.option_strings or action.nargs == 0:
            return ", ".join(action.option_strings)
        named = [one for one in action.option_strings if "-" not in one.removeprefix("--")] or action.option_strings
        value = action.metavar if isinstance(action.metavar, str) else _kind(action)
        return f"{named[0]} {value}"

    def _get_help_string(self, action: argparse.Action) -> str | None:
        default = action.default
        if not action.help or default in (None, argparse.SUPPRESS) or action.nargs == 0:
            return action.help
        shown = " ".join(map(str, default)) if isinstance(default, list) else str(getattr(default, "value", default))
        return f"{action.help} [{shown.lower() if isinstance(default, bool) else shown.replace('%', '%%')}]"


def _kind(action: argparse.Action) -> str:
    """What is to be given."""
    if isinstance(action.default, bool):
        return "true|false"
    several = " …" if action.nargs in ("+", "*") else ""
    return {int: "N", float: "X"}.get(action.type, "VALUE") + several  # type: ignore[call-overload]
