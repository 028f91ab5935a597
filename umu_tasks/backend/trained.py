"""The prompt style a checkpoint was trained with, which training writes down beside the weights.

Asked in the other style a model looks as if it had forgotten, so the record counts unless the user says otherwise.
"""

from __future__ import annotations

import json
from pathlib import Path

from umu_tasks.backend.prompting import PROMPT_STYLES, PromptStyle
from umu_tasks.backend.repository import find_file

# What our training scripts write: the record of a finished run, and what every run starts with.
RECORD_FILE = "training_record.json"
STARTED_FILE = "started_with.json"


def trained_style(*places: str | None) -> PromptStyle | None:
    """Return the style of the first folder that tells it: the adapter's, then the base's; None if none does.

    A checkpoint in the middle of a run (``…/checkpoint-40``) is told by its run's folder.
    """
    for place in filter(None, places):
        folder = Path(place).expanduser()
        if not folder.is_dir():
            record = find_file(place, RECORD_FILE)
            folder = folder if record is None else record.parent  # a finished run that was put on the hub
        for file in (folder / RECORD_FILE, folder / STARTED_FILE, folder.parent / STARTED_FILE):
            is_own = file.parent == folder or folder.name.startswith("checkpoint-")
            style = _style_in(file) if is_own and file.is_file() else None
            if style is not None:
                return style
    return None


def _style_in(file: Path) -> PromptStyle | None:
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
        named = record.get("prompt_style") or record.get("settings", record).get("prompt")
    except (ValueError, AttributeError):  # a file of this name that isn't ours
        return None
    return next((style for style in PROMPT_STYLES if style == named), None)
