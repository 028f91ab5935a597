"""The benchmark's numbers over paired values.

Every function takes the pairs of one task and split and returns a fraction in [0, 1]; of no pairs at all it returns
NaN, so that an empty run can't be read as forgetting.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from umu_tasks.benchmarks.instances import Task
from umu_tasks.benchmarks.splits import is_forget
from umu_tasks.scoring.pairing import Pair

Metric = Callable[[Sequence[Pair]], float]


def acc_mul(pairs: Sequence[Pair]) -> float:
    """Share of instances whose multimodal question was answered right; also the mean of any multimodal value."""
    return _mean((pair.multimodal for pair in pairs), len(pairs))


def acc_uni(pairs: Sequence[Pair]) -> float:
    """Share of instances whose unimodal question was answered right; also the mean of any unimodal value."""
    return _mean((pair.unimodal for pair in pairs), len(pairs))


def acc_any(pairs: Sequence[Pair]) -> float:
    """Share of instances that were answered right in at least one modality."""
    return _mean((max(pair) for pair in pairs), len(pairs))


def acc_all(pairs: Sequence[Pair]) -> float:
    """Share of instances that were answered right in both modalities."""
    return _mean((min(pair) for pair in pairs), len(pairs))


def acc_f(pairs: Sequence[Pair]) -> float:
    """Accuracy on a forget set, lower is better: mean of `acc_mul`, `acc_uni` and `acc_any`."""
    return (acc_mul(pairs) + acc_uni(pairs) + acc_any(pairs)) / 3


def acc_r(pairs: Sequence[Pair]) -> float:
    """Accuracy on people to keep, higher is better: mean of `acc_mul`, `acc_uni` and `acc_all`."""
    return (acc_mul(pairs) + acc_uni(pairs) + acc_all(pairs)) / 3


def rl_mul(pairs: Sequence[Pair]) -> float:
    """Mean ROUGE-L of the multimodal answers."""
    return acc_mul(pairs)


def rl_uni(pairs: Sequence[Pair]) -> float:
    """Mean ROUGE-L of the unimodal answers."""
    return acc_uni(pairs)


def rl_f(pairs: Sequence[Pair]) -> float:
    """ROUGE-L on a forget set, lower is better: mean of W = (x² + y²) / (x + y), which leans to the larger value.

    Source: the authors' code and erratum; the paper's Eq. 2 prints W and H the wrong way round.
    """
    return _mean((w_mean(*pair) for pair in pairs), len(pairs))


def rl_r(pairs: Sequence[Pair]) -> float:
    """ROUGE-L on people to keep, higher is better: mean of the harmonic mean H = 2xy / (x + y)."""
    return _mean((h_mean(*pair) for pair in pairs), len(pairs))


def w_mean(x: float, y: float) -> float:
    """Return (x² + y²) / (x + y), 0 where x + y = 0."""
    return (x * x + y * y) / (x + y) if x + y else 0.0


def h_mean(x: float, y: float) -> float:
    """Return 2xy / (x + y), 0 where x + y = 0."""
    return 2 * x * y / (x + y) if x + y else 0.0


METRICS: dict[str, Metric] = {
    metric.__name__: metric for metric in (acc_mul, acc_uni, acc_any, acc_all, acc_f, acc_r, rl_mul, rl_uni, rl_f, rl_r)
}


def metric_names(task: Task, split: str) -> tuple[str, ...]:
    """Return the metrics of a task on a split, the headline one last."""
    side = "f" if is_forget(split) else "r"
    if task == "gen":
        return ("rl_mul", "rl_uni", f"rl_{side}")
    return ("acc_mul", "acc_uni", "acc_any", "acc_all", f"acc_{side}")


def _mean(values: Iterable[float], count: int) -> float:
    return math.fsum(values) / count if count else math.nan
