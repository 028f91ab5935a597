"""What a run's model was trained with, from the record that our training scripts leave beside the weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from umu_tasks.report.runs import Origin, split_model_args

RECORD = "training_record.json"
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


def training_facts(origin: Origin) -> str:
    """Return the settings in one line, "" where the weights are not here or have no record of ours."""
    settings = split_model_args(origin.model_args)
    folders = [Path(settings[name]).expanduser() for name in ("peft", "pretrained") if name in settings]
    record = next((found for folder in folders if (found := _read(folder / RECORD))), {})
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


def _read(file: Path) -> dict[str, Any]:
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # no folder here (a hub id), or not a record
        return {}
    return record if isinstance(record, dict) else {}
