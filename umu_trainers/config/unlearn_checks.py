"""What settings of `unlearn.py` may be, alone and together."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from umu_tasks.benchmarks.splits import FORGET_RATIOS
from umu_trainers import objectives
from umu_trainers.config import checks
from umu_trainers.config.choices import PHASES, RETAIN_MODALITIES, check_choice
from umu_trainers.outputs import AVERAGES, IGNORED, Outputs
from umu_trainers.stored import check_served

if TYPE_CHECKING:
    from umu_trainers.config.unlearn import UnlearnArguments


def check_unlearning(args: UnlearnArguments) -> None:
    """Raise a ValueError that says what to do, if settings of `unlearn.py` cannot be right."""
    if args.forget_ratio not in FORGET_RATIOS:
        raise ValueError(
            f"--forget_ratio {args.forget_ratio}: UMU-Bench has {', '.join(map(str, FORGET_RATIOS))}. "
            "Choose one of these."
        )
    for name in ("alpha", "beta", "gamma"):
        value = getattr(args, name)
        if value is not None and not 0 <= value < math.inf:
            raise ValueError(f"--{name} {value}: a weight of 0 or more is expected; below 0 it would teach.")
    if not any(args.weights[half] for half in args.halves):
        raise ValueError(
            f"--alpha {args.alpha} --beta {args.beta}: with --modality {args.modality} nothing would be learned. "
            "Give the modality that is trained a weight above 0 (alpha: multimodal, beta: unimodal)."
        )
    check_choice("retain_modality", args.retain_modality, RETAIN_MODALITIES)
    check_choice("phases", args.phases, PHASES)
    check_choice("nll_average", args.nll_average, AVERAGES)
    _check_method(args, args.objective())
    _check_scoring(args)


def _check_scoring(args: UnlearnArguments) -> None:
    if args.score_every < 0 or args.score_sample < 1:
        raise ValueError(
            f"--score_every {args.score_every} --score_sample {args.score_sample}: steps from 0 and questions from "
            "1 are expected."
        )
    if args.retain_floor is not None and not (args.score_every and 0 <= args.retain_floor <= 1):
        raise ValueError(
            f"--retain_floor {args.retain_floor}: a fraction from 0 to 1 is expected, together with score_every "
            "(steps between two scorings)."
        )


def _check_method(args: UnlearnArguments, objective: objectives.Objective) -> None:
    for name in ("reference_model", "precompute_reference"):
        if getattr(args, name) and not objective.uses_reference:
            raise ValueError(f"--{name}: method {args.method} compares with no reference model. Leave it out.")
    if args.precompute_reference:
        check_served(objective)
    if args.pack_by_profile and objective.settings.get("published_form"):
        raise ValueError(
            "--pack_by_profile with published_form: the published forms average over the columns of a padded "
            "batch. Leave pack_by_profile off."
        )
    if args.phases == "sequential" and not (objective.in_phases and objective.uses_retain):
        raise ValueError(
            f"--phases sequential: method {args.method} needs forget and retain rows in one step. Use gd with a "
            "gamma above 0, or leave phases at together."
        )
    if args.phases == "sequential" and args.retain_modality == "mix" and args.modality != "mix":
        raise ValueError(
            f"--retain_modality mix with phases sequential and --modality {args.modality}: it puts a retain row of "
            "each modality beside a forget row, but sequential phases have none side by side. Leave one of them out."
        )
    if not objective.uses_retain:
        for name, default in (("retain_subset", False), ("retain_modality", "same")):
            if getattr(args, name) != default:
                raise ValueError(
                    f"--{name}: method {args.method} uses no retain rows with these settings. Give it a gamma above 0, "
                    "or leave it out."
                )
    objective.try_out()
    if args.max_forget_loss is not None and not 0 < args.max_forget_loss < math.inf:
        raise ValueError(f"--max_forget_loss {args.max_forget_loss}: a number of nats above 0 is expected.")
    if args.max_forget_loss is not None and "forget" not in objective.passes:
        raise ValueError(f"--max_forget_loss: method {args.method} never computes the forget loss. Leave it out.")
    if args.clip_multimodal is not None and (
        args.modality != "mix" or args.world_size > 1 or args.gradient_accumulation_steps > 1
    ):
        raise ValueError(
            "--clip_multimodal: for --modality mix, one process and gradient_accumulation_steps 1 only. Use "
            "max_grad_norm instead."
        )
    if args.clip_multimodal is not None and args.fp16:
        raise ValueError(
            "--clip_multimodal with fp16: clipping takes the loss scale out of the multimodal gradient; the "
            "unimodal one would be added thousands of times too large. Use bf16: true, or leave clip_multimodal out."
        )


def without_effect(args: UnlearnArguments) -> list[str]:
    """Return what settings were given and change nothing in this run, and why.

    No errors: one config file serves runs of both modalities, and nothing else is trained than was asked for.
    """
    objective = args.objective()
    found = checks.without_effect(args)
    for name, half in (("alpha", "mul"), ("beta", "uni")):
        if half not in args.halves and getattr(args, name) != 1:
            found.append(f"{name} {getattr(args, name)}: weighs a loss that --modality {args.modality} does not have")
    is_blind = args.lora_target_modules is None and "language_model" not in args.train
    if is_blind and args.modality == "mix":
        found.append(f"the unimodal half: without an image nothing reaches {' and '.join(args.train)}")
    shown = (*args.halves, *(args.retain_halves if objective.uses_retain else ()))
    if args.cache_image_features and "mul" not in shown:
        found.append(f"cache_image_features: no image is shown with --modality {args.modality}")
    if args.nll_average != AVERAGES[0] and not _averages(objective):
        found.append(f"nll_average {args.nll_average}: method {args.method} has no mean over tokens as it is set")
    return found


def _averages(objective: objectives.Objective) -> bool:
    """Return whether a method's loss depends on how tokens of rows of different length are averaged; tries it out."""
    labels = torch.tensor([[1, 2, 3], [1, IGNORED, IGNORED]])
    # Each pass has logits of its own: terms of opposite sign would cancel.
    logits = torch.arange(24.0 * len(objective.passes)).sin().view(-1, 2, 3, 4)
    rows, tokens = (
        objective(*(Outputs.from_logits(own, labels, hidden_states=own, average=average) for own in logits))
        for average in AVERAGES
    )
    return not torch.equal(rows, tokens)
