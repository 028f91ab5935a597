"""A sweep's trials as its storage has them, and as JSON and CSV."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from umu_trainers.sweep import studies
from umu_trainers.sweep.choice import Recommendation, Record, pareto_front
from umu_trainers.sweep.config import START, SweepConfig
from umu_trainers.sweep.objectives import NAMES
from umu_trainers.sweep.storages import shown_storage
from umu_trainers.sweep.studies import Study
from umu_trainers.sweep.trial import COMPLETE

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

FORMAT = 1


def read_records(found: Sequence[Study]) -> list[Record]:
    """Return every trial that counts, the start model's first, then method by method."""
    return [_record(study, trial) for study in found for trial in study.trials()]


def _record(study: Study, trial: FrozenTrial) -> Record:
    noted = trial.user_attrs
    slot = int(noted[studies.SLOT])
    kind = str(noted.get(studies.KIND, "")) if trial.state.is_finished() else trial.state.name.lower()
    is_complete = trial.state.name == "COMPLETE" and kind == COMPLETE
    return Record(
        name=study.trial_name(slot),
        method=study.method,
        slot=slot,
        kind=kind,
        values=study.values(trial),
        scores=dict(zip(NAMES, trial.values, strict=True)) if is_complete else {},
        intervals=noted.get(studies.INTERVALS, {}) if is_complete else {},
        reason=str(noted.get(studies.REASON, "")),
        seconds=float(noted.get(studies.SECONDS, 0)),
        scored=noted.get(studies.SCORED, {}),
        folder=str(noted.get(studies.FOLDER, "")),
    )


def start_of(records: Sequence[Record]) -> Record | None:
    return next((one for one in records if one.method == START), None)


def as_data(config: SweepConfig, records: Sequence[Record], chosen: Sequence[Recommendation]) -> dict[str, Any]:
    """Return a sweep as ``sweep.json`` has it; scores are fractions."""
    front = {one.name for one in pareto_front(records)}
    return {
        "format": FORMAT,
        "name": config.name,
        "config": str(config.file.path),
        "storage": shown_storage(config.storage),
        "sampler": config.sampler,
        "seed": config.seed,
        "trials_per_method": config.trials,
        "objectives": {name: one.described() for name, one in config.objectives.items()},
        "tasks": list(config.scoring.tasks),
        "limit": config.scoring.limit,
        "trials": [
            {
                "name": one.name,
                "method": one.method,
                "state": one.kind,
                "reason": one.reason,
                "values": dict(one.values),
                "scores": dict(one.scores),
                "intervals": dict(one.intervals),
                "on_front": one.name in front,
                "sample": dict(one.scored),
                "seconds": one.seconds,
                "folder": one.folder,
            }
            for one in records
        ],
        "front": [one.name for one in pareto_front(records)],
        "recommended": {one.method: {"trial": one.record and one.record.name, "why": one.why} for one in chosen},
    }


def write_json(file: Path, data: Any) -> None:
    """Write data whole, or not at all: another process may read or write it now."""
    write_whole(file, json.dumps(data, indent=2, ensure_ascii=False, default=str) + "\n")


def write_csv(file: Path, records: Sequence[Record], chosen: Sequence[Recommendation]) -> None:
    """Write one line a trial: how it ended, its searched settings, its scores (fractions) with intervals."""
    options = list(dict.fromkeys(name for one in records for name in one.values))
    scores = [column for name in NAMES for column in (name, f"{name}_low", f"{name}_high")]
    header = ["trial", "method", "state", *options, *scores, "on_front", "recommended", "seconds", "reason"]
    partial = file.with_name(f"{file.name}.partial")
    with partial.open("w", newline="", encoding="utf-8") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(_rows(records, chosen, options))
    partial.replace(file)


def _rows(
    records: Sequence[Record], chosen: Sequence[Recommendation], options: Sequence[str]
) -> Iterator[list[object]]:
    front = {one.name for one in pareto_front(records)}
    recommended = {one.record.name for one in chosen if one.record is not None}
    for one in records:
        scores: list[object] = []
        for name in NAMES:
            scores += [one.scores.get(name, ""), *(one.intervals.get(name) or ("", ""))]
        values = [one.values.get(name, "") for name in options]
        marks = [one.name in front, one.name in recommended]
        yield [one.name, one.method, one.kind, *values, *scores, *marks, one.seconds, one.reason]


def write_whole(file: Path, text: str) -> None:
    """Write a file so that it is there as a whole or not at all."""
    partial = file.with_name(f"{file.name}.partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(file)
