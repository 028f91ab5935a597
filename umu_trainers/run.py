"""What both training scripts do around their own part: open, build, train, save, and end with a clear message."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from accelerate import PartialState

from umu_tasks.backend.checkpoint import locate
from umu_tasks.backend.fingerprint import adapter_fingerprint, weights_fingerprint
from umu_tasks.backend.prompting import PromptStyle
from umu_tasks.benchmarks.errors import DataError
from umu_tasks.benchmarks.sources import Source
from umu_trainers.collator import Collator
from umu_trainers.config import CommonArguments, LabelScope, UnlearnArguments
from umu_trainers.data import Row, TrainingSet
from umu_trainers.early import stop
from umu_trainers.encoding import RowEncoder
from umu_trainers.guards import TrainingStopped
from umu_trainers.image_features import cache_image_features
from umu_trainers.model import (
    Start,
    check_trained,
    describe_trained,
    load_start,
    lora_config,
    resolve_checkpoint,
    train_parts,
)
from umu_trainers.objectives import Objective
from umu_trainers.outputs import run_pass
from umu_trainers.packing import make_packer
from umu_trainers.plan import EpochPlan
from umu_trainers.record import build_record, had_ended, note_start, save_run
from umu_trainers.reference import Reference
from umu_trainers.scoring import Asked, SampleScorer, sample_questions
from umu_trainers.stored import StoredReference


def say(text: object) -> None:
    """Print on the main process."""
    PartialState().on_main_process(print)(text, flush=True)


def say_without_effect(found: Sequence[str]) -> None:
    """Name the settings that were given and change nothing."""
    for one in found:
        say(f"Without effect: {one}.")


def open_start(args: CommonArguments) -> Start:
    """Load the model and freeze what is not trained."""
    start = load_start(
        args.model,
        use_lora=args.use_lora,
        dtype=args.weights_dtype,
        quantization=args.quantization,
        prompt=cast(PromptStyle | None, args.prompt),
        attn_implementation=args.attn_implementation,
        trust_remote_code=args.trust_remote_code,
    )
    if not args.use_lora:
        train_parts(start.model, args.train)
    elif start.adapter is not None:
        say(f"Training goes on with the adapter in {start.adapter}; its own settings hold, not lora_*.")
    if args.cache_image_features:
        cache_image_features(start.model, args.train, args.image_feature_cache_mb)
    return start


def adapter_config(start: Start, args: CommonArguments) -> Any:
    """Return the config of the adapter to add; None in full training or where an adapter is trained on."""
    return lora_config(start.model, args.train, args) if args.use_lora and start.adapter is None else None


def build_encoder(start: Start, args: CommonArguments) -> RowEncoder:
    """Return the row encoder of the model's processor and prompt style."""
    return RowEncoder(
        start.builder,
        max_length=args.max_length,
        cache_mb=args.pixel_cache_mb,
        label_scope=cast(LabelScope, args.label_scope),
    )


def stored_reference(
    reference: Reference | None,
    objective: Objective,
    plan: EpochPlan,
    args: UnlearnArguments,
    sets: Sequence[TrainingSet | None],
) -> StoredReference | None:
    """Return what computes the reference's log-probabilities once, with `precompute_reference`."""
    if reference is None or not args.precompute_reference:
        return None
    location = locate(resolve_checkpoint(args.reference_model or args.model))
    weights = [weights_fingerprint(location.base), location.adapter and adapter_fingerprint(location.adapter)]
    data = [one.profiles.fingerprint for one in sets if one is not None]
    settings = [args.prompt, args.label_scope, args.weights_dtype, args.bf16, args.fp16, args.quantization]
    folder = Path(args.output_dir) / "reference"
    return StoredReference(reference, objective.passes, plan, folder, [*weights, *data, *settings])


def build_collator(encoder: RowEncoder, stand_ins: Mapping[str, Row], start: Start, args: CommonArguments) -> Collator:
    """Return what makes batches of the plan's items."""
    packer = make_packer(start.model, start.builder) if args.pack_by_profile else None
    return Collator(encoder, stand_ins, keep_empty=args.world_size > 1, packer=packer)


def fitting(one: TrainingSet, encoder: RowEncoder) -> TrainingSet:
    """Return a set without the rows that `max_length` would cut, and say which those are."""
    kept = one.fitting(encoder.fits)
    if kept.too_long:
        named = "; ".join(kept.too_long[:10]) + ("; …" if len(kept.too_long) > 10 else "")
        say(f"{kept.role}: {len(kept.too_long)} rows skipped, since max_length would cut their answers: {named}")
    return kept


def questions_to_score(source: Source, args: UnlearnArguments) -> dict[str, list[Asked]]:
    """Return the samples of questions that are scored while training, with `score_every`; none without."""
    splits = {"forget": args.forget_split, "retain": args.retain_split} if args.score_every else {}
    return {
        name: sample_questions(args.benchmark, source.load(split), source.spec, args.score_sample, args.seed)
        for name, split in splits.items()
    }


def sample_scorer(
    questions: Mapping[str, Sequence[Asked]], args: UnlearnArguments, start: Start
) -> SampleScorer | None:
    """Return what scores the samples while training; None where there are none."""
    if not questions:
        return None
    return SampleScorer(questions, start.builder, every=args.score_every, floor=args.retain_floor)


def check_hidden_layer(start: Start, objective: Objective) -> None:
    """Raise a ValueError if a method asks for a decoder layer whose activations the model does not give."""
    layers = start.model.config.get_text_config().num_hidden_layers
    if objective.hidden_layer is not None and objective.hidden_layer > layers:
        raise ValueError(
            f"method_kwargs: hidden_layer {objective.hidden_layer}: this model's decoder has layers 1 to {layers}."
        )
    if objective.hidden_layer == layers:
        raise ValueError(
            f"method_kwargs: hidden_layer {layers}: is this model's last layer, whose activations come out behind the "
            f"decoder's final norm: another scale, and the norm would be trained. Choose one of 1 to {layers - 1}."
        )


def items_per_batch(args: CommonArguments) -> int:
    """Return the number of items in one batch on all processes."""
    return args.per_device_train_batch_size * PartialState().num_processes


def train_and_save(
    command: str, trainer: Any, start: Start, source: Any, sets: dict[str, TrainingSet | None], resume: str | None
) -> None:
    """Say what is trained, train it, and write the output folder."""
    args = trainer.args
    trained = describe_trained(trainer.model)
    stray = list(check_trained(trainer.model, args.train)) if args.lora_target_modules is None else []
    if stray:
        raise ValueError(f"--train {' '.join(args.train)}: these lie outside and would be trained too: {stray[:5]}")
    say(trained)
    note_start(args, resume)
    record = build_record(command, args, start, trained, source, sets)
    try:
        trainer.train(resume_from_checkpoint=resume)
    except ValueError as error:
        # Settings have been checked by now: what fails here is a fault that its traceback explains.
        raise RuntimeError(f"training failed: {error}") from error
    if had_ended(args.output_dir, resume, trainer.state.global_step):
        say(f"Nothing to do: the run in {args.output_dir} had ended already.")
        return
    best = trainer.scorer.best if trainer.scorer is not None else None
    if best is None:
        check_outputs(trainer)
    save_run(trainer, record, merge_adapter=args.merge_adapter and trained.is_lora, best=best)
    say(f"Saved to {args.output_dir}.")


@torch.no_grad()
def check_outputs(trainer: Any) -> None:
    """Ask the trained model about one row of each kind: no step has yet seen what the last update did.

    Raises:
        TrainingStopped: its logits are not finite.
    """
    model = trainer.model_wrapped
    training = model.training
    model.eval()
    with trainer.compute_loss_context_manager():
        for filler in trainer.data_collator.fillers.values():
            logits = run_pass(model, trainer._prepare_inputs(trainer.data_collator.rows_batch([filler]))).logits
            if not bool(torch.isfinite(logits).all()):
                raise TrainingStopped(
                    f"after step {trainer.state.global_step} the model's outputs are not finite (row {filler.name}). "
                    "Nothing was saved. Lower learning_rate or max_grad_norm, or train fewer steps."
                )
    model.train(training)


def run_script(main: Callable[[], None]) -> None:
    """Run a script's `main`; turn what a user can cause into one message and a non-zero exit status."""
    try:
        main()
    except (DataError, ValueError) as error:
        stop(f"error: {error}")
    except TrainingStopped as error:
        stop(f"stopped: {error}")
    except KeyboardInterrupt:
        print("interrupted; go on with --resume_from_checkpoint last", file=sys.stderr)
        sys.exit(130)
