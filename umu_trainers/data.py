"""Training rows: which question-answer pairs of which people are trained on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from umu_tasks.benchmarks.errors import DataError
from umu_tasks.benchmarks.instances import Modality, Profile, TrainingPair
from umu_tasks.benchmarks.profiles import ProfileSet
from umu_tasks.benchmarks.sources import Source
from umu_trainers.config import Half, SFTArguments, UnlearnArguments

MODALITIES: dict[Half, Modality] = {"uni": "unimodal", "mul": "multimodal"}


@dataclass(frozen=True, slots=True)
class Row:
    """One training row: a question-answer pair and whose it is."""

    split: str
    profile: Profile
    pair: TrainingPair

    @property
    def half(self) -> Half:
        return "mul" if self.pair.has_image else "uni"

    @property
    def person(self) -> tuple[str, str]:
        """What identifies the person: IDs are unique within a split only (real people start again at 001)."""
        return self.split, self.profile.profile_id

    @property
    def name(self) -> str:
        """How messages name the row."""
        return f"{self.split}, row ID {self.profile.profile_id}, {self.pair.modality} pair {self.pair.key}"


@dataclass(frozen=True)
class TrainingSet:
    """The rows of one role, such as the forget set.

    Attributes:
        rows: half -> rows, in stored order; only the halves that are trained on.
        skipped: names of rows left out because their answer is empty.
    """

    role: str
    profiles: ProfileSet
    rows: dict[Half, list[Row]]
    skipped: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return sum(map(len, self.rows.values()))

    def __str__(self) -> str:
        counts = ", ".join(f"{len(self.rows.get(half, []))} {MODALITIES[half]}" for half in ("mul", "uni"))
        text = f"{self.role} ({self.profiles.split}): {len(self.profiles)} people, {counts} rows"
        if self.skipped:
            text += f"; {len(self.skipped)} skipped for an empty answer: {'; '.join(self.skipped)}"
        return text

    def record(self) -> dict[str, Any]:
        """Return what the training record says of it."""
        return {
            "split": self.profiles.split,
            "fingerprint": self.profiles.fingerprint,
            "people": len(self.profiles),
            "rows": {half: len(rows) for half, rows in self.rows.items()},
            "skipped": self.skipped,
        }


def training_set(role: str, profiles: ProfileSet, halves: Iterable[Half]) -> TrainingSet:
    """Return the rows of `profiles` in the halves that are trained on.

    Raises:
        DataError: a half without a single row.
    """
    rows: dict[Half, list[Row]] = {half: [] for half in halves}
    skipped = []
    for profile in profiles:
        for pair in profile.pairs:
            row = Row(profiles.split, profile, pair)
            if row.half not in rows:
                continue
            if pair.answer.strip():
                rows[row.half].append(row)
            else:
                skipped.append(row.name)
    for half, own in rows.items():
        if not own:
            raise DataError(
                f"the {role} set has no {MODALITIES[half]} question-answer pairs. Add some, or leave that half out "
                f"with --modality {'mul' if half == 'uni' else 'uni'}.",
                file=profiles.split,
            )
    return TrainingSet(role, profiles, rows, skipped)


def sft_sets(source: Source, args: SFTArguments) -> tuple[TrainingSet, TrainingSet | None]:
    """Return the people to learn and, where asked for, the real people to replay."""
    learn = training_set("train", source.load(args.split), args.halves)
    replay = training_set("replay", source.load("real"), args.halves) if args.replay_real else None
    return learn, replay


def unlearn_sets(source: Source, args: UnlearnArguments) -> tuple[TrainingSet, TrainingSet | None]:
    """Return the forget set and, where the method uses it, the retain set.

    Raises:
        DataError: the two share a person, or a half of either has no rows.
    """
    forget = training_set("forget", source.load(args.forget_split), args.halves)
    if not args.objective().uses_retain:
        return forget, None
    retain = training_set("retain", source.load(args.retain_split), args.halves)
    check_disjoint(forget.profiles, retain.profiles)
    return forget, retain


def check_disjoint(forget: ProfileSet, retain: ProfileSet) -> None:
    """Raise a DataError that names the people who are in both sets."""
    shared = sorted(set(forget.ids) & set(retain.ids))
    if shared:
        named = ", ".join(shared[:10]) + (", …" if len(shared) > 10 else "")
        raise DataError(
            f"ID {named} in both: one loss would raise what the other lowers. Take them out of the retain set, or "
            "choose another --forget_ratio.",
            file=f"{forget.split} and {retain.split}",
        )


def all_rows(sets: Sequence[TrainingSet | None]) -> list[Row]:
    """Return all rows of several sets, in order."""
    return [row for one in sets if one is not None for own in one.rows.values() for row in own]
