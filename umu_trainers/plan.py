"""Which rows each step uses, drawn anew each epoch from the seed alone.

An item names the rows of one position of a batch by role and half: `{"forget_mul": row, "retain_mul": row, …}` when
unlearning, `{"train_uni": row}` in SFT. A batch is `per_device_train_batch_size` items in plan order, so the order does
not depend on the number of processes. An epoch is filled up with empty items to whole batches on every process, never
with repeated rows.

Steps in an epoch: items / (per_device_train_batch_size x gradient_accumulation_steps x processes), rounded up. An
unlearning epoch has as many items as the longer half of the forget set has rows; an SFT epoch one a row.
"""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

from torch.utils.data import Dataset

from umu_trainers.config import Half
from umu_trainers.data import Row

Item = dict[str, Row]
T = TypeVar("T")


class EpochPlan(Dataset[Item]):
    """The items of one epoch. The dataloader calls `set_epoch` before each.

    Args:
        seed: of all draws, together with the epoch.
        multiple: items of one batch on all processes; the epoch is filled up to a multiple of it.
    """

    def __init__(self, seed: int, multiple: int) -> None:
        self.seed = seed
        self.multiple = multiple
        self.epoch = -1
        self.items: list[Item] = []

    @abstractmethod
    def draw(self, generator: random.Random) -> list[Item]:
        """Return the items of an epoch, always equally many."""

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
    Retain rows are drawn without repetition as long as there are enough.

    Args:
        forget, retain: half -> rows; retain None for a method without it.
    """

    def __init__(
        self, forget: dict[Half, list[Row]], retain: dict[Half, list[Row]] | None, *, seed: int, multiple: int
    ) -> None:
        super().__init__(seed, multiple)
        self.forget = forget
        self.retain = retain

    def draw(self, generator: random.Random) -> list[Item]:
        items: list[Item] = [{} for _ in range(max(map(len, self.forget.values())))]
        for half, rows in self.forget.items():
            forget = generator.sample(rows, len(rows))
            retain = draw_rows(self.retain[half], len(rows), generator) if self.retain else []
            for index, row in enumerate(forget):
                item = items[index * len(items) // len(rows)]
                item[f"forget_{half}"] = row
                if retain:
                    item[f"retain_{half}"] = retain[index]
        return items


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
    ) -> None:
        super().__init__(seed, multiple)
        self.rows = list(rows)
        self.replay = list(replay)
        self.replayed = round(replay_share * len(self.replay))
        self.batch_size = batch_size
        self.length = length

    def draw(self, generator: random.Random) -> list[Item]:
        rows = self.rows + generator.sample(self.replay, self.replayed)
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
