"""What both training scripts do around their own part: open, build, train, save, and end with a clear message."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, cast

import torch
from accelerate import PartialState

from umu_tasks.backend.prompting import PromptStyle
from umu_tasks.benchmarks.errors import DataError
from umu_trainers.config import CommonArguments
from umu_trainers.data import TrainingSet
from umu_trainers.encoding import RowEncoder
from umu_trainers.guards import TrainingStopped
from umu_trainers.model import Start, check_trained, describe_trained, load_start, lora_config, train_parts
from umu_trainers.outputs import run_pass
from umu_trainers.record import build_record, note_start, save_run


def say(text: object) -> None:
    """Print on the main process."""
    PartialState().on_main_process(print)(text, flush=True)


def open_start(args: CommonArguments) -> Start:
    """Load the model and freeze what is not trained."""
    start = load_start(
        args.model,
        use_lora=args.use_lora,
        dtype=args.dtype or ("bfloat16" if args.use_lora and args.bf16 else "float32"),
        prompt=cast(PromptStyle | None, args.prompt),
        attn_implementation=args.attn_implementation,
        trust_remote_code=args.trust_remote_code,
    )
    if not args.use_lora:
        train_parts(start.model, args.train)
    elif start.adapter is not None:
        say(f"Training goes on with the adapter in {start.adapter}; its own settings hold, not lora_*.")
    return start


def adapter_config(start: Start, args: CommonArguments) -> Any:
    """Return the config of the adapter to add; None in full training or where an adapter is trained on."""
    return lora_config(start.model, args.train, args) if args.use_lora and start.adapter is None else None


def build_encoder(start: Start, args: CommonArguments) -> RowEncoder:
    """Return the row encoder of the model's processor and prompt style."""
    return RowEncoder(start.builder, max_length=args.max_length, cache_mb=args.pixel_cache_mb)


def items_per_batch(args: CommonArguments) -> int:
    """Return the number of items in one batch on all processes."""
    return args.per_device_train_batch_size * PartialState().num_processes


def train_and_save(
    command: str, trainer: Any, start: Start, source: Any, sets: dict[str, TrainingSet | None], resume: str | None
) -> None:
    """Say what is trained, train it, and write the output folder."""
    args = trainer.args
    trained = describe_trained(trainer.model)
    stray = list(check_trained(trainer.model, args.train))
    if stray:
        raise ValueError(f"--train {' '.join(args.train)}: these lie outside and would be trained too: {stray[:5]}")
    say(trained)
    note_start(args, resume)
    record = build_record(command, args, start, trained, source, sets)
    try:
        trainer.train(resume_from_checkpoint=resume)
    except ValueError as error:
        # Settings have been checked by now: what fails here is a fault that its traceback explains.
        raise RuntimeError("training failed") from error
    check_outputs(trainer)
    save_run(trainer, record, merge_adapter=args.merge_adapter and trained.is_lora)
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
        sys.exit(f"error: {error}")
    except TrainingStopped as error:
        sys.exit(f"stopped: {error}")
    except KeyboardInterrupt:
        print("interrupted; go on with --resume_from_checkpoint last", file=sys.stderr)
        sys.exit(130)
