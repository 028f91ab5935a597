"""What a run's model was trained with: settings and curves, from the logs that training left beside the weights.

Read, in this order, where a folder has it: our training record (settings, and the log of the whole run), the Hugging
Face trainer's ``trainer_state.json`` (in the folder, or in its last checkpoint), TensorBoard's event files.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from umu_tasks.benchmarks.errors import DataError
from umu_tasks.report.runs import Origin, RunResult, split_model_args

RECORD = "training_record.json"
STATE = "trainer_state.json"
EVENTS = "events.out.tfevents.*"
_CHECKPOINT = re.compile(r"checkpoint-(\d+)")
_SHOWN = {
    "method": "method",
    "modality": "rows",
    "forget_ratio": "forget ratio",
    "split": "people",
    "learning_rate": "learning rate",
    "num_train_epochs": "epochs",
    "alpha": "alpha",
    "beta": "beta",
    "gamma": "gamma",
    "use_lora": "LoRA",
    "seed": "seed",
}
"""Setting -> what the report calls it; settings that a script does not have are left out."""


@dataclass(frozen=True, slots=True)
class Curves:
    """The log of one training.

    Attributes:
        file: where it was read.
        values: name of a number, as the trainer logs it (``loss``, ``nll/forget_mul``, …) -> (step, value), by step.
        scored_step: optimizer step of the weights that were scored, None when not known.
    """

    file: Path
    values: Mapping[str, Sequence[tuple[int, float]]]
    scored_step: int | None


def training_facts(origin: Origin, given: Path | None = None) -> str:
    """Return the settings in one line, "" where the weights are not here or have no record of ours.

    Args:
        given: the training's output folder, where it was named.
    """
    folders = [given] if given else _weight_folders([origin])
    record = next((found for folder in folders for one in _with_parent(folder) if (found := _read(one / RECORD))), {})
    chosen = record.get("settings")
    if not isinstance(chosen, dict):
        return ""
    told = [f"{label} {chosen[name]}" for name, label in _SHOWN.items() if chosen.get(name) is not None]
    result = record.get("result")
    steps = result.get("steps") if isinstance(result, dict) else None
    start = record.get("start")
    begun = start.get("model") if isinstance(start, dict) else None
    return ", ".join(
        [
            *([str(record["command"])] if record.get("command") else []),
            *told,
            *([f"{steps} steps"] if steps is not None else []),
            *([f"from {begun}"] if begun else []),
        ]
    )


def split_training(arguments: Iterable[str], names: Sequence[str]) -> dict[str, Path]:
    """Return run name -> training folder of ``NAME=DIR`` each.

    Raises:
        DataError: no such form, no run of that name, or no folder there.
    """
    found: dict[str, Path] = {}
    for argument in arguments:
        name, equals, folder = (part.strip() for part in argument.partition("="))
        if not equals or not folder or name not in names:
            expected = f"NAME=DIR, where NAME is one of {', '.join(names)}"
            raise DataError(f"--training {argument}: expected {expected}.")
        if not Path(folder).is_dir():
            raise DataError(f"--training {argument}: no such folder. Give the training's --output_dir.")
        found[name] = Path(folder)
    return found


def read_curves(run: RunResult, given: Path | None = None) -> Curves | None:
    """Return the log of the training that made a run's model, None where there is none to be found.

    Args:
        given: the training's output folder; None: the folder of the weights that the run says it was made with.

    Raises:
        DataError: the folder that was given has no log.
    """
    weights = _weight_folders(run.origins)
    for folder in [given] if given else weights:
        for one in _with_parent(folder):
            curves = _curves(one, _scored_step(one, weights))
            if curves is not None:
                return curves
    if given:
        problem = f"no training log: expected {RECORD}, {STATE} or {EVENTS} with numbers in it, also in checkpoint-N/."
        raise DataError(f"{problem} Give the training's --output_dir.", file=str(given))
    return None


def _weight_folders(origins: Iterable[Origin]) -> list[Path]:
    """Return the folders here that the weights were read from, an adapter's first."""
    named: list[str] = []
    for origin in origins:
        settings = split_model_args(origin.model_args)
        recorded = origin.provenance
        named += [str(one) for one in (settings.get("peft"), recorded.get("adapter")) if one]
        named += [str(one) for one in (settings.get("pretrained"), recorded.get("base")) if one]
    folders = [Path(one).expanduser() for one in dict.fromkeys(named)]
    return [folder for folder in folders if folder.is_dir()]


def _with_parent(folder: Path) -> list[Path]:
    """A checkpoint's own log ends with it; the output folder above it has the rest."""
    return [folder.resolve().parent, folder] if _CHECKPOINT.fullmatch(folder.resolve().name) else [folder]


def _scored_step(training: Path, weights: Iterable[Path]) -> int | None:
    """Return the step of the scored weights where they are one of the training's checkpoints."""
    for folder in (folder.resolve() for folder in weights):
        match = _CHECKPOINT.fullmatch(folder.name)
        if match and folder.parent == training.resolve():
            return int(match[1])
    return None


def _curves(folder: Path, scored: int | None) -> Curves | None:
    for file, log, saved in _logs(folder):
        values = _by_name(log)
        if values:
            last = max(points[-1][0] for points in values.values())
            return Curves(file, values, scored or saved or last)
    return None


def _logs(folder: Path) -> Iterator[tuple[Path, Sequence[Any], int | None]]:
    """Yield file, log and the step that was saved at the end, best source first."""
    result = _read(folder / RECORD).get("result")
    if isinstance(result, dict):
        saved = result.get("saved_step")
        step = saved.get("step") if isinstance(saved, dict) else result.get("steps")
        yield folder / RECORD, result.get("log") or [], step if isinstance(step, int) else None
    checkpoints = sorted(folder.glob("checkpoint-*"), key=_step, reverse=True)
    for file in [folder / STATE, *(checkpoint / STATE for checkpoint in checkpoints)]:
        yield file, _read(file).get("log_history") or [], None
    events = sorted(folder.rglob(EVENTS))
    if events:
        yield events[-1], _read_events(events), None


def _step(checkpoint: Path) -> int:
    match = _CHECKPOINT.fullmatch(checkpoint.name)
    return int(match[1]) if match else -1


def _by_name(log: Iterable[Any]) -> dict[str, list[tuple[int, float]]]:
    """Return name -> (step, value); of a step logged twice (a resumed run) the last value."""
    found: dict[str, dict[int, float]] = {}
    for entry in log:
        step = entry.get("step") if isinstance(entry, Mapping) else None
        if not isinstance(step, int):
            continue
        for name, value in entry.items():
            if name not in ("step", "epoch") and isinstance(value, int | float) and math.isfinite(value):
                found.setdefault(name, {})[step] = float(value)
    return {name: sorted(points.items()) for name, points in found.items()}


def _read_events(files: Iterable[Path]) -> list[dict[str, Any]]:
    """Return TensorBoard's numbers in the form of the trainer's log; empty where tensorboard is not installed."""
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    except ImportError:
        return []
    log: list[dict[str, Any]] = []
    for file in files:
        events = EventAccumulator(str(file))
        events.Reload()
        for tag in events.Tags()["scalars"]:
            name = tag.removeprefix("train/")  # the Hugging Face trainer's prefix
            log += [{"step": event.step, name: event.value} for event in events.Scalars(tag)]
    return log


def _read(file: Path) -> dict[str, Any]:
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # no folder here (a hub id), or not a record
        return {}
    return record if isinstance(record, dict) else {}
