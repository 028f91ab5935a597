"""Where a trial's values come from. A sampler is made anew for each trial, seeded by the trial's slot.

So grid and random give the same trials however many processes share them, and no two processes draw the same.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler


def make_sampler(name: str, trials: int, seed: int, method: str, slot: int) -> BaseSampler:
    """Return the sampler of one trial.

    Args:
        name: random, tpe or nsga2; a grid's trials come with their values, and random serves them as well.
        trials: of the method, in all.
    """
    from optuna.samplers import NSGAIISampler, RandomSampler, TPESampler

    own = slot_seed(seed, method, slot)
    if name == "tpe":
        return TPESampler(seed=own, n_startup_trials=startup_trials(trials))
    if name == "nsga2":
        return NSGAIISampler(seed=own, population_size=population(trials))
    return RandomSampler(seed=own)


def slot_seed(seed: int, method: str, slot: int) -> int:
    """Return the seed of a trial's draws."""
    return int.from_bytes(hashlib.sha256(f"{seed}-{method}-{slot}".encode()).digest()[:4])


def startup_trials(trials: int) -> int:
    """Return how many trials TPE draws at random before it learns: a third, at most 10."""
    return max(1, min(10, trials // 3))


def population(trials: int) -> int:
    """Return NSGA-II's population: a quarter of the trials, 4 to 50, so that there are some generations."""
    return max(4, min(50, trials // 4))
