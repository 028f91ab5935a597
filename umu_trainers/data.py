"""Training rows: which question-answer pairs of which people are trained on."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from umu_tasks.benchmarks.errors import DataError
from umu_tasks.benchmarks.instances import Modality, Profile, TrainingPair
from umu_tasks.benchmarks.profiles import ProfileSet
from umu_tasks.benchmarks.sources import Source
from umu_trainers.config import Half, SFTArguments, UnlearnArguments

MODALITIES: dict[Half, Modality] = {"uni": "unimodal", "mul": "multimodal"}
REFUSALS = Path(__file__).parent / "refusals.txt"


@dataclass(frozen=True, slots=True)
class Row:
    """One training row: a question-answer pair and whose it is.

    Attributes:
        attach_image: show the image although the question is unimodal.
    """

    split: str
    profile: Profile
    pair: TrainingPair
    attach_image: bool = False

    @property
    def has_image(self) -> bool:
        return self.pair.has_image or self.attach_image

    @property
    def half(self) -> Half:
        return "mul" if self.has_image else "uni"

    @property
    def person(self) -> tuple[str, str]:
        """What identifies the person: IDs are unique within a split only (real people start again at 001)."""
        return self.split, self.profile.profile_id

    @property
    def name(self) -> str:
        """How messages name the row."""
        return f"{self.split}, row ID {self.profile.profile_id}, {self.pair.modality} pair {self.pair.key}"

    def answered(self, answer: str) -> Row:
        """Return the row with another answer to its question."""
        return dataclasses.replace(self, pair=dataclasses.replace(self.pair, answer=answer))


@dataclass(frozen=True)
class TrainingSet:
    """The rows of one role, such as the forget set.

    Attributes:
        rows: half -> rows, in stored order; only the halves that are trained on.
        skipped: names of rows left out because their answer is empty.
        too_long: names of rows left out because `max_length` would cut their answer.
    """

    role: str
    profiles: ProfileSet
    rows: dict[Half, list[Row]]
    skipped: list[str] = field(default_factory=list)
    too_long: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return sum(map(len, self.rows.values()))

    def __str__(self) -> str:
        counts = ", ".join(f"{len(self.rows.get(half, []))} {MODALITIES[half]}" for half in ("mul", "uni"))
        text = f"{self.role} ({self.profiles.split}): {len(self.profiles)} people, {counts} rows"
        if attached := sum(row.attach_image for row in self.rows.get("mul", [])):
            text += f" ({attached} of them unimodal questions with the image attached)"
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
            "too_long": self.too_long,
        }

    def fitting(self, fits: Callable[[Row], bool]) -> TrainingSet:
        """Return the set without the rows that do not fit, and names those.

        Raises:
            DataError: a half of which no row would be left.
        """
        rows = {half: [row for row in own if fits(row)] for half, own in self.rows.items()}
        kept = {id(row) for own in rows.values() for row in own}
        too_long = [row.name for own in self.rows.values() for row in own if id(row) not in kept]
        for half, own in rows.items():
            if not own:
                raise DataError(
                    f"no {MODALITIES[half]} row of the {self.role} set is within max_length with its whole answer. "
                    "Raise max_length, or leave it out.",
                    file=self.profiles.split,
                )
        return dataclasses.replace(self, rows=rows, too_long=too_long)


def training_set(
    role: str, profiles: ProfileSet, halves: Iterable[Half], *, attach_image: bool = False, advice: str = ""
) -> TrainingSet:
    """Return the rows of `profiles` in the halves that are trained on.

    Args:
        attach_image: show the image with unimodal questions too, which makes multimodal rows of them.
        advice: how to do without a half that has no row; left out, another `--modality`.

    Raises:
        DataError: a half without a single row.
    """
    rows: dict[Half, list[Row]] = {half: [] for half in halves}
    skipped = []
    for profile in profiles:
        for pair in profile.pairs:
            row = Row(profiles.split, profile, pair, attach_image=attach_image and not pair.has_image)
            if row.half not in rows:
                continue
            if pair.answer.strip():
                rows[row.half].append(row)
            else:
                skipped.append(row.name)
    for half, own in rows.items():
        if not own:
            other = f"leave that half out with --modality {'mul' if half == 'uni' else 'uni'}"
            raise DataError(
                f"the {role} set has no {MODALITIES[half]} question-answer pairs. Add some, or {advice or other}.",
                file=profiles.split,
            )
    return TrainingSet(role, profiles, rows, skipped)


def sft_sets(source: Source, args: SFTArguments) -> tuple[TrainingSet, TrainingSet | None]:
    """Return the people to learn and, where asked for, the real people to replay."""
    attach = args.attach_image
    learn = training_set("train", source.load_for_training(args.split), args.halves, attach_image=attach)
    if not args.replay_real:
        return learn, None
    return learn, training_set("replay", source.load_for_training("real"), args.halves, attach_image=attach)


def unlearn_sets(source: Source, args: UnlearnArguments) -> tuple[TrainingSet, TrainingSet | None]:
    """Return the forget set and, where the method uses it, the retain set.

    Raises:
        DataError: the two share a person, or a half of either has no rows.
    """
    forget = training_set("forget", source.load_for_training(args.forget_split), args.halves)
    if not args.objective().uses_retain:
        return forget, None
    added = set(args.retain_halves) - set(args.halves)
    advice = "set --retain_modality same" if added else ""
    retain = training_set("retain", source.load_for_training(args.retain_split), args.retain_halves, advice=advice)
    check_disjoint(forget.profiles, retain.profiles)
    return forget, published_subset(retain, 100 - args.forget_ratio) if args.retain_subset else retain


def published_subset(retain: TrainingSet, share: int) -> TrainingSet:
    """Return the retain set with the rows that the published UMU-Bench scripts draw from it, about as many as forget
    rows: of each half `n * (1 - r) / r` of its n rows, with seed 42.

    Args:
        share: the retain set's percentage of the fictitious people (r = share / 100).

    Raises:
        DataError: a half so small that none would be left.
    """
    ratio = share / 100
    rows = {}
    for half, own in retain.rows.items():
        # Rounded down as there: 299 rows, not 300, of 2,700 at 90 %.
        count = int(len(own) * (1 - ratio) / ratio)
        if not count:
            raise DataError(
                f"retain_subset: of {len(own)} {MODALITIES[half]} rows the published share is less than one row. "
                "Leave retain_subset out.",
                file=retain.profiles.split,
            )
        rows[half] = random.Random(42).sample(own, count)
    return dataclasses.replace(retain, rows=rows)


def load_refusals() -> list[str]:
    """Return the refusals that PO and DPO teach, one a line of the packaged file."""
    return REFUSALS.read_text(encoding="utf-8").split("\n")[:-1]


def rows_by_role(
    roles: Iterable[str], forget: TrainingSet, retain: TrainingSet | None, refusals: Sequence[str]
) -> dict[str, Mapping[Half, Sequence[Row]]]:
    """Return role -> half -> rows of the roles that an objective needs.

    The refusal rows are each half's forget row with the longest question, with the longest refusal: stand-ins that show
    at the start whether any would be too long. Which refusal a row gets is drawn by the plan.
    """
    found: dict[str, Mapping[Half, Sequence[Row]]] = {}
    for role in roles:
        if role == "refusal":
            longest = max(refusals, key=len)
            questions = {half: max(own, key=lambda row: len(row.pair.question)) for half, own in forget.rows.items()}
            found[role] = {half: [row.answered(longest)] for half, row in questions.items()}
        elif role == "forget":
            found[role] = forget.rows
        elif retain is not None:
            found[role] = retain.rows
    return found


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
