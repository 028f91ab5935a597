"""Which rows each step uses, drawn anew each epoch from the seed alone.

An item names the rows of one position of a batch by role and half: `{"forget_mul": row, "retain_mul": row, …}` when
unlearning, `{"train_uni": row}` in SFT. A batch is `per_device_train_batch_size` items in plan order, so the order does
not depend on the number of processes. An epoch is filled up with empty items to whole batches on every process, never
with repeated rows.

Steps in an epoch: items / (per_device_train_batch_size x gradient_accumulation_steps x processes), rounded up. An
unlearning epoch has as many items as the longer half of the forget set has rows; in sequential phases as many more as
the longer half of the retain set has. An SFT epoch has one item a row.

With `by_profile` multimodal rows are drawn person by person, so that those of a person are in one batch and can share a
sequence (see `packing`): people in random order, and each one's rows in random order. Each forget row is still used
once an epoch. Retain rows are drawn a person at a time too, which are fewer people a step. Unimodal rows are drawn one
by one as ever.
"""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

from torch.utils.data import Dataset

from umu_trainers.config import Half
from umu_trainers.data import Row

Item = dict[str, Row | None]
"""Role and half -> row; None only says that the batch is of this role."""
T = TypeVar("T")


class EpochPlan(Dataset[Item]):
    """The items of one epoch. The dataloader calls `set_epoch` before each.

    Args:
        seed: of all draws, together with the epoch.
        multiple: items of one batch on all processes; the epoch is filled up to a multiple of it.
        by_profile: keep a person's multimodal rows together.
    """

    def __init__(self, seed: int, multiple: int, *, by_profile: bool = False) -> None:
        self.seed = seed
        self.multiple = multiple
        self.by_profile = by_profile
        self.epoch = -1
        self.items: list[Item] = []

    @abstractmethod
    def draw(self, generator: random.Random) -> list[Item]:
        """Return the items of an epoch, always equally many."""

    def shuffled(self, rows: Sequence[Row], generator: random.Random) -> list[Row]:
        """Return the rows in random order, a person's multimodal ones together with `by_profile`."""
        drawn = generator.sample(rows, len(rows))
        if not self.by_profile:
            return drawn
        groups: dict[object, list[Row]] = {}
        for number, row in enumerate(drawn):
            groups.setdefault(row.person if row.has_image else number, []).append(row)
        return [row for group in groups.values() for row in group]

    def draw_rows(self, rows: Sequence[Row], count: int, generator: random.Random) -> list[Row]:
        """Return `count` rows in random order; none comes again before all others have come."""
        if not self.by_profile:
            return draw_rows(rows, count, generator)
        drawn: list[Row] = []
        while len(drawn) < count:
            drawn += self.shuffled(rows, generator)[: count - len(drawn)]
        return drawn

    def set_epoch(self, epoch: int) -> None:
        if epoch == self.epoch:
            return
        self.epoch = epoch
        # A generator of its own: the global one is for the model, and is not restored in the middle of an epoch.
        items = self.draw(random.Random(f"{self.seed}-{epoch}"))
        self.items = items + [{} for _ in range(-len(items) % self.multiple)]

    def __len__(self) -> int:
        if not self.items:
            self.set_epoch(0)
        return len(self.items)

    def __getitem__(self, index: int) -> Item:
        return self.items[index]


class UnlearnPlan(EpochPlan):
    """Forget rows, each exactly once an epoch, and beside each a retain row of the same half.

    A half with fewer forget rows is spread evenly over the epoch; where it has no row, it has no retain row either.
    Retain rows are drawn without repetition as long as there are enough. Where one half is forgotten and the retain set
    has both, a retain row of each stands beside every forget row.

    Args:
        forget, retain: half -> rows; retain None for a method without it.
        refusals: given, each forget row also comes with one of these as its answer, drawn anew each epoch.
    """

    def __init__(
        self,
        forget: dict[Half, list[Row]],
        retain: dict[Half, list[Row]] | None,
        *,
        refusals: Sequence[str] = (),
        seed: int,
        multiple: int,
        by_profile: bool = False,
    ) -> None:
        super().__init__(seed, multiple, by_profile=by_profile)
        self.forget = forget
        self.retain = retain or {}
        self.refusals = refusals

    def draw(self, generator: random.Random) -> list[Item]:
        items: list[Item] = [{} for _ in range(max(map(len, self.forget.values())))]
        for half, rows in self.forget.items():
            beside = self.retain if len(self.forget) == 1 else self.retain.keys() & {half}
            forget = self.shuffled(rows, generator)
            retain = {other: self.draw_rows(self.retain[other], len(rows), generator) for other in sorted(beside)}
            for index, row in enumerate(forget):
                item = items[spread(index, len(rows), len(items))]
                item[f"forget_{half}"] = row
                if self.refusals:
                    item[f"refusal_{half}"] = row.answered(self.refusal(row))
                item.update({f"retain_{other}": own[index] for other, own in retain.items()})
        return items

    def refusal(self, row: Row) -> str:
        """Return the refusal of a forget row in this epoch, by seed, epoch and row alone."""
        return random.Random(f"{self.seed}-{self.epoch}-{row.name}").choice(self.refusals)


class SequentialPlan(EpochPlan):
    """Each epoch a whole pass over the forget rows, then a whole pass over the retain rows (MLLMU-Bench's GD).

    Each phase is filled up to whole batches, so that all processes are in the same phase.

    Args:
        forget, retain: half -> rows.
    """

    def __init__(
        self,
        forget: dict[Half, list[Row]],
        retain: dict[Half, list[Row]],
        *,
        seed: int,
        multiple: int,
        by_profile: bool = False,
    ) -> None:
        super().__init__(seed, multiple, by_profile=by_profile)
        self.phases = {"forget": forget, "retain": retain}

    def draw(self, generator: random.Random) -> list[Item]:
        items: list[Item] = []
        for role, halves in self.phases.items():
            count = max(map(len, halves.values()))
            # Items without a row name their phase too: a process may have no others in a batch.
            phase: list[Item] = [{f"{role}_{half}": None for half in halves} for _ in range(count)]
            for half, rows in halves.items():
                for index, row in enumerate(self.shuffled(rows, generator)):
                    phase[spread(index, len(rows), count)][f"{role}_{half}"] = row
            items += phase
            items += [dict.fromkeys(phase[0]) for _ in range(-count % self.multiple)]
        return items


def spread(index: int, count: int, places: int) -> int:
    """Return the place of the index-th of `count` things that are spread evenly over `places`."""
    return index * places // count


class SFTPlan(EpochPlan):
    """All rows to learn in random order, with a share of replayed rows drawn anew each epoch.

    Args:
        rows: each is used once an epoch.
        replay: rows of which `replay_share`, a fraction, is used each epoch.
        batch_size: items of one optimizer step.
        length: row -> tokens; given, rows of similar length and a like mix of halves share a step, which saves padding.
    """

    def __init__(
        self,
        rows: Sequence[Row],
        replay: Sequence[Row] = (),
        *,
        replay_share: float = 0.0,
        batch_size: int = 1,
        length: Callable[[Row], int] | None = None,
        seed: int,
        multiple: int,
        by_profile: bool = False,
    ) -> None:
        super().__init__(seed, multiple, by_profile=by_profile)
        self.rows = list(rows)
        self.replay = list(replay)
        self.replayed = round(replay_share * len(self.replay))
        self.batch_size = batch_size
        self.length = length

    def draw(self, generator: random.Random) -> list[Item]:
        rows = self.rows + generator.sample(self.replay, self.replayed)
        if self.by_profile:
            rows = self.shuffled(rows, generator)
        else:
            generator.shuffle(rows)
        if self.length is not None:
            rows = group_by_length(rows, self.length, self.batch_size, generator)
        return [{f"train_{row.half}": row} for row in rows]


def draw_rows(rows: Sequence[T], count: int, generator: random.Random) -> list[T]:
    """Return `count` rows in random order; none comes again before all others have come."""
    drawn: list[T] = []
    while len(drawn) < count:
        drawn += generator.sample(rows, min(len(rows), count - len(drawn)))
    return drawn


def group_by_length(
    rows: Sequence[Row], length: Callable[[Row], int], batch_size: int, generator: random.Random, window: int = 8
) -> list[Row]:
    """Reorder shuffled rows so that those of a batch are of similar length and every batch has a like mix of halves.

    Rows move within `window` batches only, so that an epoch's order stays random on the whole.
    """
    ordered: list[Row] = []
    for start in range(0, len(rows), window * batch_size):
        near = rows[start : start + window * batch_size]
        ranked: list[tuple[float, int, Row]] = []
        for half in ("uni", "mul"):
            own = sorted((row for row in near if row.half == half), key=length)
            ranked += [((rank + 0.5) / len(own), len(ranked) + rank, row) for rank, row in enumerate(own)]
        by_rank = [row for _, _, row in sorted(ranked, key=lambda one: one[:2])]
        batches = [by_rank[i : i + batch_size] for i in range(0, len(by_rank), batch_size)]
        short = [batches.pop()] if len(batches[-1]) < batch_size else []  # stays last, or all later batches would shift
        generator.shuffle(batches)
        ordered += [row for batch in batches + short for row in batch]
    return ordered
