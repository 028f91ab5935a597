"""The benchmark's numbers over paired values.

Every metric is a mean over knowledge instances of a function of the instance's two values, so one table says what an
instance adds (`INSTANCE_VALUES`), and both the mean and its interval follow from it. A mean is a fraction in [0, 1]
(`modality_gap`: in [-1, 1]); of no pairs at all it is NaN, so that an empty run can't be read as forgetting.

    reported name     base           value of a question
    acc_mul           acc_mul        verdict under the default rule
    acc_f_official    acc_f          verdict under the official rule
    rl_mul            rl_mul         ROUGE-L
    rouge1_uni        rouge1_uni     ROUGE-1
    modality_gap      modality_gap   verdict, or ROUGE-L for generation
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from umu_tasks.benchmarks.instances import Task
from umu_tasks.benchmarks.splits import is_to_be_forgotten
from umu_tasks.scoring.answers import REPORTED_RULES, suffix
from umu_tasks.scoring.pairing import Pair

Metric = Callable[[Sequence[Pair]], float]
InstanceValue = Callable[[Pair], float]


def w_mean(x: float, y: float) -> float:
    """Return (x² + y²) / (x + y), 0 where x + y = 0: leans to the larger value."""
    return (x * x + y * y) / (x + y) if x + y else 0.0


def h_mean(x: float, y: float) -> float:
    """Return the harmonic mean 2xy / (x + y), 0 where x + y = 0: leans to the smaller value."""
    return 2 * x * y / (x + y) if x + y else 0.0


def _multimodal(pair: Pair) -> float:
    return pair.multimodal


def _unimodal(pair: Pair) -> float:
    return pair.unimodal


def _gap(pair: Pair) -> float:
    return pair.multimodal - pair.unimodal


def _forget(pair: Pair) -> float:
    return (pair.multimodal + pair.unimodal + max(pair)) / 3


def _keep(pair: Pair) -> float:
    return (pair.multimodal + pair.unimodal + min(pair)) / 3


INSTANCE_VALUES: dict[str, InstanceValue] = {
    # verdicts; lower is better on a forget set, higher on people to keep
    "acc_mul": _multimodal,
    "acc_uni": _unimodal,
    "acc_any": max,  # right in at least one modality
    "acc_all": min,  # right in both
    "acc_f": _forget,  # (acc_mul + acc_uni + acc_any) / 3, for forget sets
    "acc_r": _keep,  # (acc_mul + acc_uni + acc_all) / 3, for people to keep
    # ROUGE-L; W on forget sets, H elsewhere (the authors' code and erratum; the paper's Eq. 2 has them the wrong way)
    "rl_mul": _multimodal,
    "rl_uni": _unimodal,
    "rl_f": lambda pair: w_mean(*pair),
    "rl_r": lambda pair: h_mean(*pair),
    # the published evaluator's other text measures
    "rouge1_mul": _multimodal,
    "rouge1_uni": _unimodal,
    "rouge2_mul": _multimodal,
    "rouge2_uni": _unimodal,
    "bleu_mul": _multimodal,
    "bleu_uni": _unimodal,
    # how far forgetting (or remembering) in one modality leaves the other behind: 0 is none
    "modality_gap": _gap,
}


def mean_over_instances(name: str, pairs: Sequence[Pair]) -> float:
    """Return the metric `name` over `pairs`: the mean of what each instance adds; NaN of no pairs."""
    return _mean((INSTANCE_VALUES[name](pair) for pair in pairs), len(pairs))


METRICS: dict[str, Metric] = {name: partial(mean_over_instances, name) for name in INSTANCE_VALUES}


def metric_names(task: Task, split: str) -> tuple[str, ...]:
    """Return the benchmark's own metrics of a task on a split, the headline one last, without a rule's suffix."""
    side = "f" if is_to_be_forgotten(split) else "r"
    if task == "gen":
        return ("rl_mul", "rl_uni", f"rl_{side}")
    return ("acc_mul", "acc_uni", "acc_any", "acc_all", f"acc_{side}")


class ReportedMetric(NamedTuple):
    """A metric as it stands in a results file.

    Attributes:
        name: for instance ``acc_f_official``.
        base: its function in `INSTANCE_VALUES`: ``acc_f``.
        source: which value of a record it is made of: a rule (its verdict), ``rouge_l``, ``rouge_1``, ``rouge_2`` or
            ``bleu``.
    """

    name: str
    base: str
    source: str


_TEXT_METRICS = {"rouge1": "rouge_1", "rouge2": "rouge_2", "bleu": "bleu"}


def reported_metrics(task: Task, split: str) -> tuple[ReportedMetric, ...]:
    """Return every metric over pairs that a results file has for a task on a split."""
    own = (*metric_names(task, split), "modality_gap")
    if task != "gen":
        return tuple(ReportedMetric(name + suffix(rule), name, rule) for rule in REPORTED_RULES for name in own)
    more = [
        ReportedMetric(f"{text}_{modality}", f"{text}_{modality}", source)
        for text, source in _TEXT_METRICS.items()
        for modality in ("mul", "uni")
    ]
    return (*(ReportedMetric(name, name, "rouge_l") for name in own), *more)


QUESTION_METRICS: dict[str, str] = {"refusal_rate": "refusal", "empty_rate": "empty", "failed": "failed"}
"""Metric over all questions, paired or not -> the record's 0 or 1 that it counts."""


def value_of(record: Mapping[str, Any], source: str) -> float:
    """Return the number of a record that `ReportedMetric.source` names: a rule's verdict or a text measure."""
    return float(record["correct"][source] if "correct" in record else record[source])


def _mean(values: Iterable[float], count: int) -> float:
    return math.fsum(values) / count if count else math.nan
