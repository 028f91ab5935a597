"""What settings of both scripts may be, alone and together."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from umu_tasks.backend.prompting import PROMPT_STYLES
from umu_tasks.benchmarks.names import BENCHMARKS
from umu_trainers.config.choices import DTYPES, HALVES, LABEL_SCOPES, LORA_INITS, check_choice
from umu_trainers.model import PARTS, QUANTIZATIONS

if TYPE_CHECKING:
    from umu_trainers.config.common import CommonArguments

# Settings of SFTConfig that would change what is trained on and that our rows do not support: setting -> allowed
# values.
_FIXED: dict[str, tuple[Any, ...]] = {
    "packing": (False,),
    "padding_free": (False,),
    "assistant_only_loss": (False,),
    "completion_only_loss": (None, True),
    "loss_type": ("nll",),
    "label_smoothing_factor": (0, 0.0),
    "chat_template_path": (None,),
    "data_seed": (None,),  # rows are drawn from `seed`
    "pad_token": (None,),
    "pad_to_multiple_of": (None,),
    "eos_token": (None,),
    "model_init_kwargs": (None,),
    "dataloader_drop_last": (False,),
    "dataloader_persistent_workers": (False,),  # each would repeat the first epoch's order and refusals for ever
    "load_best_model_at_end": (False,),
    "auto_find_batch_size": (False,),
    "truncation_mode": ("keep_start",),
    "eval_strategy": ("no",),
    "eval_on_start": (False,),
    "use_liger_kernel": (False,),  # its loss never makes the logits that ours are computed from
}
# Setting -> lowest and highest value, and how to say so; None and -1 (max_steps) are let through.
_RANGES: dict[str, tuple[float, float, str]] = {
    "per_device_train_batch_size": (1, math.inf, "1 or more"),
    "gradient_accumulation_steps": (1, math.inf, "1 or more"),
    "max_steps": (1, math.inf, "1 or more, or -1 for num_train_epochs,"),
    "learning_rate": (math.ulp(0.0), math.inf, "a number above 0"),
    "weight_decay": (0, math.inf, "0 or more"),
    "max_grad_norm": (0, math.inf, "0 (no clipping) or more"),
    "lora_r": (1, math.inf, "1 or more"),
    "lora_dropout": (0, 1, "a fraction"),
    "max_length": (1, math.inf, "1 or more"),
    "pixel_cache_mb": (0, math.inf, "0 or more"),
    "image_feature_cache_mb": (1, math.inf, "1 MiB or more"),
}


_ADAPTER_ALONE = ("lora_r", "lora_alpha", "lora_dropout", "lora_init")


def check_common(args: CommonArguments, allowed: Mapping[str, tuple[Any, ...]]) -> None:
    """Raise a ValueError that says what to do, if settings of both scripts cannot be right.

    Args:
        allowed: setting -> values, beside those of `_FIXED`.
    """
    _check_ranges(args)
    check_choice("modality", args.modality, HALVES)
    check_choice("benchmark", args.benchmark, BENCHMARKS)
    if args.quantization is not None:
        check_choice("quantization", args.quantization, QUANTIZATIONS)
    if not args.use_lora:
        for name in ("quantization", "use_dora", "lora_modules", "lora_target_modules"):
            if getattr(args, name):
                raise ValueError(f"--{name}: for adapters only. Set use_lora: true, or leave it out ({name}: null).")
    elif args.lora_target_modules is not None and (args.lora_modules or args.train != ["language_model"]):
        name = "lora_modules" if args.lora_modules else "train"
        raise ValueError(
            f"--{name} with lora_target_modules, which takes its place: layers are chosen in one way only. Leave one "
            "of the two out."
        )
    check_choice("lora_init", args.lora_init, LORA_INITS)
    check_choice("label_scope", args.label_scope, LABEL_SCOPES)
    for part in args.train:
        check_choice("train", part, PARTS)
    if not args.train:
        raise ValueError(f"--train: nothing to train. Choose from: {', '.join(PARTS)}.")
    if args.dtype is not None:
        check_choice("dtype", args.dtype, DTYPES)
    _check_speed(args)
    if args.prompt is not None:
        check_choice("prompt", args.prompt, PROMPT_STYLES)
    if args.modality == "uni" and args.train != ["language_model"]:
        raise ValueError(f"--modality uni: no image is shown, so {', '.join(args.train)} cannot all be trained.")
    for name, values in {**_FIXED, **allowed}.items():
        value = getattr(args, name)
        if value not in values:
            shown = getattr(value, "value", value)
            raise ValueError(f"--{name} {shown}: not supported for these rows. Leave it at {values[0]}.")
    if getattr(args.accelerator_config, "dispatch_batches", None):
        raise ValueError(
            "--accelerator_config dispatch_batches: not supported, each process makes its own batches. Leave it out."
        )


def without_effect(args: CommonArguments) -> list[str]:
    """Return what settings of both scripts were given and change nothing in this run, and why.

    No errors: one config file serves runs with an adapter and, by a flag, runs without.
    """
    if args.use_lora:
        return []
    defaults = {one.name: one.default for one in fields(args) if one.name in _ADAPTER_ALONE}
    given = [f"{name} {getattr(args, name)}" for name, default in defaults.items() if getattr(args, name) != default]
    return [f"{', '.join(given)}: with use_lora false no adapter is trained"] if given else []


def _check_ranges(args: CommonArguments) -> None:
    for name, (lowest, highest, expected) in _RANGES.items():
        value = getattr(args, name)
        if value is None or (name == "max_steps" and value == -1):
            continue
        if not (lowest <= value <= highest and math.isfinite(value)):
            raise ValueError(f"--{name} {value}: {expected} is expected.")
    if args.max_steps == -1 and not 0 < args.num_train_epochs < math.inf:
        raise ValueError(f"--num_train_epochs {args.num_train_epochs}: a number above 0 is expected.")


def _check_speed(args: CommonArguments) -> None:
    if args.pack_by_profile and args.label_scope == "published":
        raise ValueError(
            "--pack_by_profile with label_scope published: that scope counts each row's own padding and image "
            "tokens, which packed rows do not have. Leave pack_by_profile off."
        )
    if args.pack_by_profile and args.train_sampling_strategy == "group_by_length":
        raise ValueError(
            "--pack_by_profile with train_sampling_strategy group_by_length: rows are grouped by person or by "
            "length. Leave one of the two out."
        )
    if args.cache_image_features and args.lora_target_modules is not None:
        raise ValueError(
            "--cache_image_features with lora_target_modules, which may reach the vision tower: its features would "
            "change. Leave one of the two out."
        )
