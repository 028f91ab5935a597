"""What is written beside the weights: the processor, the settings, the data, the versions."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from umu_trainers.config import CommonArguments
from umu_trainers.data import TrainingSet
from umu_trainers.guards import CHECKPOINT, STATE_FILE, STOPPED, is_complete, last_checkpoint
from umu_trainers.merging import MERGED
from umu_trainers.model import Start, Trained, merge_saved_adapter
from umu_trainers.scoring import Score, drop_best, take_best

RECORD_FILE = "training_record.json"  # written last: a folder with it holds a finished run
LAST = "last"
STARTED_FILE = "started_with.json"  # written first: what a resumed run must have in common with the one it continues
# Not the number of steps, processes and micro-batches: those may change, if a step has as many rows (`rows_per_step`).
_SAME_WHEN_RESUMED = (
    "model", "benchmark", "data", "split", "forget_ratio", "modality", "method", "method_kwargs", "alpha", "beta",
    "gamma", "npo_beta", "reference_model", "retain_modality", "retain_subset", "phases", "nll_average",
    "clip_multimodal", "label_scope", "replay_real", "attach_image", "pack_by_profile", "prompt", "max_length", "train",
    "use_lora", "lora_r", "lora_alpha", "lora_dropout", "lora_modules", "lora_target_modules", "use_dora",
    "quantization", "dtype", "learning_rate", "lr_scheduler_type", "optim", "weight_decay", "max_grad_norm", "seed",
)  # fmt: skip
# What is written when a run ends, by merging or in parts: what one that was killed meanwhile left of it.
_RESULT = ("*.safetensors", "*.safetensors.index.json", "config.json", "adapter_config.json")
_PACKAGES = ("umu-bench", "torch", "transformers", "trl", "peft", "accelerate", "datasets", "deepspeed")


def resume_point(args: CommonArguments) -> str | None:
    """Return the checkpoint folder to go on from, None to start anew.

    Raises:
        ValueError: a checkpoint that is not complete, a new run in a folder that holds one already, or an output folder
            that is the start model's.
    """
    asked = args.resume_from_checkpoint
    output = Path(args.output_dir)
    if Path(args.model).is_dir() and output.resolve() == Path(args.model).resolve():
        raise ValueError(
            f"--output_dir {output}: is the model that training starts from, which would be overwritten. Give another "
            "folder."
        )
    if asked == LAST:
        return last_checkpoint(args.output_dir)
    if asked:
        if not is_complete(Path(asked)):
            raise ValueError(f"--resume_from_checkpoint {asked}: no complete checkpoint there. Give one, or `{LAST}`.")
        return asked
    # Weights without a record too: an adapter left beside whole weights would be applied on top of them.
    left = (RECORD_FILE, f"{CHECKPOINT}*", "*.safetensors", MERGED)
    if any(next(output.glob(pattern), None) for pattern in left):
        raise ValueError(
            f"--output_dir {output}: already holds a run. Go on with it (--resume_from_checkpoint {LAST}), give "
            "another folder, or delete this one."
        )
    return None


def had_ended(output_dir: str, resume: str | None, step: int) -> bool:
    """Return whether a resumed run was a finished one, which took no step beyond the checkpoint's; `step` is its last.

    Its result stays as it is: where the best scored step was kept, the last checkpoint is another one.
    """
    if resume is None or not (Path(output_dir) / RECORD_FILE).is_file():
        return False
    state = json.loads((Path(resume) / STATE_FILE).read_text(encoding="utf-8"))
    return bool(state["global_step"] == step)


def note_start(args: CommonArguments, resume: str | None) -> None:
    """Write down what this run does, or, when it continues one, require that it is the same.

    Raises:
        ValueError: the checkpoint is another experiment's; lists the settings that differ.
    """
    file = Path(args.output_dir) / STARTED_FILE
    settings = {name: getattr(args, name) for name in _SAME_WHEN_RESUMED if hasattr(args, name)}
    # A checkpoint knows its place in an epoch as a number of steps: of another size, rows would be skipped or repeated.
    micro_batches = args.gradient_accumulation_steps * args.world_size
    settings["rows_per_step"] = args.per_device_train_batch_size * micro_batches
    if resume is not None and file.is_file():
        before = json.loads(file.read_text(encoding="utf-8"))
        now = json.loads(json.dumps(settings, default=str))
        other = [f"{name} {old} -> {now[name]}" for name, old in before.items() if now.get(name, old) != old]
        if other:
            raise ValueError(
                f"--resume_from_checkpoint: {resume} belongs to a run with other settings ({'; '.join(other)}). Give "
                "the same ones, or start anew in another --output_dir."
            )
    if args.should_save:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(settings, indent=2, default=str) + "\n", encoding="utf-8")


def build_record(
    command: str,
    args: CommonArguments,
    start: Start,
    trained: Trained,
    source: Any,
    sets: dict[str, TrainingSet | None],
) -> dict[str, Any]:
    """Return what the training record says before training."""
    return {
        "command": command,
        "arguments": sys.argv[1:],
        "start": {"model": args.model, "checkpoint": start.checkpoint, "adapter": start.adapter},
        "data": {
            "source": source.spec,
            "kind": source.kind,
            **{role: one.record() for role, one in sets.items() if one is not None},
        },
        "trained": {
            "parts": args.train,
            "lora": trained.is_lora,
            "parameters": trained.parameters,
            "total_parameters": trained.total,
            "modules": list(trained.modules),
        },
        "prompt_style": start.builder.style,  # what `umu_hf` asks this model in
        "seed": args.seed,
        "settings": args.to_dict(),
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Return the versions of what computes the result; packages that are not installed are left out."""
    found = {"python": sys.version.split()[0]}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def save_run(trainer: Any, record: dict[str, Any], *, merge_adapter: bool = False, best: Score | None = None) -> None:
    """Write the trained model to the output folder so that it opens with nothing else.

    Full training writes model and processor, LoRA the adapter and processor, `merge_adapter` the merged model and
    processor.

    Args:
        best: given, the result is this step's model, saved before, not the last one's.

    Raises:
        TrainingStopped: a weight is not finite; nothing is written.
    """
    output = Path(trainer.args.output_dir)
    if best is None:
        trainer.check_weights()
    if trainer.args.should_save:
        clear_result(output)
    if best is None:
        trainer.save_model(str(output))
    elif trainer.args.should_save:
        take_best(output)
    trainer.accelerator.wait_for_everyone()
    if trainer.args.should_save and merge_adapter:
        merge_saved_adapter(output, trainer.args)
    if not trainer.args.should_save:
        return
    history = trainer.state.log_history
    result: dict[str, Any] = {"steps": trainer.state.global_step, "epochs": trainer.state.epoch}
    if stopped := [one[STOPPED] for one in history if STOPPED in one]:
        result["stopped"] = stopped[-1]
    if best is not None:
        result["saved_step"] = asdict(best)
    result["log"] = history
    text = json.dumps({**record, "result": result}, indent=2, default=str)
    partial = output / f"{RECORD_FILE}.partial"
    partial.write_text(text + "\n", encoding="utf-8")
    partial.replace(output / RECORD_FILE)
    drop_best(output)


def clear_result(output: Path) -> None:
    """Delete what is left of a result in the output folder, its record first: a new one takes its place."""
    for pattern in (RECORD_FILE, *_RESULT):
        for file in output.glob(pattern):
            file.unlink()
    shutil.rmtree(output / MERGED, ignore_errors=True)
