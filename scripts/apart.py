"""`unlearn.py` with its rows so ordered that, of two processes, one has image rows only and the other text rows only.

A hard case for several processes: unless all run the same modules in the same order, ZeRO-3 waits for ever.

    accelerate launch --config_file configs/accelerate/zero3.yaml scripts/apart.py 2 --per_device_train_batch_size 2 …

The first argument is the number of rows a process takes in a step; the rest are `unlearn.py`'s.
"""

from __future__ import annotations

import random
import sys

from umu_trainers import plan, run, unlearn


def apart(items: list[plan.Item], size: int) -> list[plan.Item]:
    """Return each item's image rows and text rows as items of their own, `size` of one kind, then of the other."""
    kinds = [_part(items, half) for half in ("mul", "uni")]
    return [item for start in range(0, len(items), size) for kind in kinds for item in kind[start : start + size]]


def _part(items: list[plan.Item], half: str) -> list[plan.Item]:
    return [{name: row for name, row in item.items() if name.endswith(half)} for item in items]


class ApartPlan(plan.UnlearnPlan):
    """An `UnlearnPlan` whose batches are of one modality."""

    size = 1

    def draw(self, generator: random.Random) -> list[plan.Item]:
        return apart(super().draw(generator), self.size)


if __name__ == "__main__":
    ApartPlan.size = int(sys.argv.pop(1))
    vars(unlearn)["UnlearnPlan"] = ApartPlan
    run.run_script(unlearn.main)
