"""What a report is made of: runs (one model each), their scores by split and task, the answers behind the scores."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from umu_tasks.benchmarks.instances import InstanceKey, Modality, Task
from umu_tasks.report.intervals import Interval
from umu_tasks.scoring.answers import RuleName, suffix
from umu_tasks.scoring.metrics import INSTANCE_VALUES
from umu_tasks.scoring.pairing import Pair
from umu_tasks.scoring.unpaired import RULE_VERSIONS

RULE_NAMES: tuple[RuleName, ...] = ("default", "official", "strict")
SIDES: dict[str, Modality] = {"mul": "multimodal", "uni": "unimodal"}


@dataclass(frozen=True, slots=True)
class Answer:
    """One scored question.

    Attributes:
        output: what the model wrote, untouched; None when the run recorded no output for the question.
        verdicts: rule -> 0 or 1 for classification and cloze; under "default" alone the ROUGE-L F-measure in [0, 1]
            for generation, which no rule changes.
        record: the sample's record as it was written, which summaries are made from; empty for an older sample file.
        question_hash: lmms-eval's hash of the question's document, "" when not recorded.
    """

    profile_id: str
    task: Task
    key: str
    modality: Modality
    output: str | None
    verdicts: Mapping[RuleName, float]
    refusal: bool = False
    empty: bool = False
    failed: bool = False
    question: str = ""
    gold: str = ""
    record: Mapping[str, Any] = field(default_factory=dict)
    question_hash: str = ""

    @property
    def instance_key(self) -> InstanceKey:
        return InstanceKey(self.profile_id, self.task, self.key)

    @property
    def score(self) -> float:
        return self.verdicts["default"]

    def under(self, rule: RuleName) -> float | None:
        """Return the score under a rule, None when the sample does not hold its verdict."""
        return self.verdicts.get("default" if self.task == "gen" else rule)


Pairs = dict[InstanceKey, Pair]


@dataclass(frozen=True)
class TaskResult:
    """The scores of one task on one split.

    Attributes:
        metrics: metric name -> value in [0, 1], as the results file has them (or computed, see `derived_from`).
        questions: number of questions asked; None when the file does not say.
        answers: the sample file's records, None when there is no sample file.
        summary: what `umu_tasks.scoring.summary.summarize` returns: intervals, counts, fields; empty when unknown.
        derived_from: empty for a task that was run; else the splits whose records these scores were computed from.
        published_instances: knowledge instances that a file of the published evaluator lists, None when it does not.
    """

    split: str
    task: Task
    metrics: dict[str, float]
    questions: int | None
    answers: tuple[Answer, ...] | None
    summary: Mapping[str, Any] = field(default_factory=dict)
    derived_from: tuple[str, ...] = ()
    published_instances: int | None = None

    @property
    def needs_pairs(self) -> bool:
        """Whether scores of one modality are means over instances asked in both; else over all its questions."""
        answers = self.answers or ()
        return not any(answer.record.get("benchmark") in RULE_VERSIONS for answer in answers[:1])

    @property
    def unpaired(self) -> int:
        """Number of instances that were asked in one modality only."""
        if self.answers is not None:
            return len({answer.instance_key for answer in self.answers}) - len(self.pairs())
        return int(self.summary.get("unpaired", 0))

    def values(self, metric: str, rule: RuleName = "default") -> dict[InstanceKey, float]:
        """Return what each knowledge instance adds to a metric, which is the mean of it.

        Args:
            metric: a name in `umu_tasks.scoring.metrics.INSTANCE_VALUES`.
        """
        modality = SIDES.get(metric.rpartition("_")[2])
        if modality is None or self.needs_pairs:
            return {key: INSTANCE_VALUES[metric](pair) for key, pair in self.pairs(rule).items()}
        own = [answer for answer in self.answers or () if answer.modality == modality]
        return {one.instance_key: score for one in own if (score := one.under(rule)) is not None}

    def pairs(self, rule: RuleName = "default") -> Pairs:
        """Return the scores by knowledge instance; only instances that were answered in both modalities."""
        return self._pairs_by_rule[rule]

    @cached_property
    def _pairs_by_rule(self) -> dict[RuleName, Pairs]:
        return {rule: self._paired(rule) for rule in RULE_NAMES}

    def _paired(self, rule: RuleName) -> Pairs:
        scores: dict[InstanceKey, dict[Modality, float]] = {}
        for answer in self.answers or ():
            score = answer.under(rule)
            if score is not None:
                scores.setdefault(answer.instance_key, {})[answer.modality] = score
        return {key: Pair(own["multimodal"], own["unimodal"]) for key, own in scores.items() if len(own) == 2}

    @property
    def instances(self) -> int | None:
        """Number of knowledge instances the scores are means over; half the questions when no records are there."""
        if self.answers is not None:
            return len(self.pairs())
        known = self.summary.get("instances", self.published_instances)
        return int(known) if known is not None else None if self.questions is None else self.questions // 2

    @property
    def people(self) -> int | None:
        """Number of people asked about, None when the run does not say."""
        if self.answers is not None:
            return len({answer.profile_id for answer in self.answers})
        known = self.summary.get("people")
        return None if known is None else int(known)

    def name_under(self, metric: str, rule: RuleName) -> str:
        """Return the metric's name under a rule: rules change classification and cloze, not generation."""
        return metric if self.task == "gen" else metric + suffix(rule)

    def interval(self, metric: str) -> Interval | None:
        """Return the 95 % interval of a metric by bootstrap over people, None when there is none."""
        found = self._summarized(metric)
        low, high = (_known(found.get(bound)) for bound in ("low", "high"))
        return None if low is None or high is None else Interval(low, high)

    def stderr(self, metric: str) -> float | None:
        return _known(self._summarized(metric).get("stderr"))

    def _summarized(self, metric: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.summary.get("metrics", {}).get(metric, {})
        return found


@dataclass(frozen=True, slots=True)
class Origin:
    """What made one results file, as the file itself says.

    Attributes:
        provenance: the results file's own record of what made it (weights, data, rules, versions); empty when it has
            none.
    """

    file: Path
    model: str
    model_args: str
    date: str
    lmms_eval_version: str
    limit: str
    task_versions: dict[str, str]
    settings: dict[str, str]
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @property
    def made_by(self) -> str:
        """The model and the weights; two files of one model agree in it whatever the batch size was."""
        weights = split_model_args(self.model_args)
        parts = [f"{name}={weights[name]}" for name in ("pretrained", "peft", "prompt") if name in weights]
        return f"{self.model} {','.join(parts) if parts else self.model_args}"

    @property
    def weights(self) -> tuple[str, ...]:
        """What the weights were read from, whatever backend read them; empty where the arguments do not say."""
        arguments = split_model_args(self.model_args)
        named = (arguments.get("pretrained") or arguments.get("model"), arguments.get("peft"))
        return tuple(str(Path(one).expanduser().resolve()) if Path(one).exists() else one for one in named if one)


@dataclass(frozen=True, slots=True)
class GeneralScore:
    """A number that lmms-eval has of another task than ours, as it stands in the results file.

    Attributes:
        value: in the task's own unit: a fraction, a percentage, points.
        stderr: standard error of `value`, None where lmms-eval has none.
        higher_is_better: None where the task does not say.
        settings: what must be equal for two runs' values to compare (questions, task version, prompt style, …).
        origin: what made it.
    """

    value: float
    stderr: float | None
    higher_is_better: bool | None
    settings: Mapping[str, str]
    origin: Origin


@dataclass(frozen=True)
class RunResult:
    """All that one model's result folder, or one file of the published evaluator, says about one benchmark.

    Attributes:
        folder: where it was read; the file itself for one of the published evaluator.
        is_published: it is a file of the published evaluator: scores under the official rule and little else.
        invalid: why the scores are no evidence of forgetting, as the run itself says; empty for a valid run.
        more_folders: other folders that belong to the run.
        form: ``0shot`` where tasks with examples in the prompt were asked without them.
        general: (task, metric) -> score of other people's tasks: the model's general ability.
        factuality: leaf task (split and task) -> a judge's scores (`umu_tasks.judge.scores`), where it was judged.
    """

    name: str
    folder: Path
    benchmark: str
    tasks: dict[tuple[str, Task], TaskResult]
    origins: tuple[Origin, ...]
    notices: tuple[str, ...] = field(default=())
    is_published: bool = False
    invalid: tuple[str, ...] = ()
    more_folders: tuple[Path, ...] = ()
    form: str = ""
    general: Mapping[tuple[str, str], GeneralScore] = field(default_factory=dict)
    factuality: Mapping[tuple[str, Task], Mapping[str, Any]] = field(default_factory=dict)

    @property
    def is_limited(self) -> bool:
        """Only a part of the questions was asked (--limit)."""
        return any(origin.limit for origin in self.origins)

    @property
    def splits(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(split for split, _ in self.tasks))


def _known(value: float | None) -> float | None:
    """Return a number, None for what stands for "no number": a single person has no interval."""
    return None if value is None or math.isnan(value) else float(value)


def split_order(split: str) -> tuple[int, str]:
    """Sort key: forget sets, test sets, retain sets, real people, the full set."""
    kinds = ("forget", "test", "retain", "real", "full")
    return next(index for index, kind in enumerate(kinds) if split.startswith(kind)), split


def split_model_args(model_args: str) -> dict[str, str]:
    """Return the options of ``--model_args`` by name."""
    # As the backend reads it: a comma separates only where `name=` follows, so paths may hold commas.
    parts = (part.partition("=") for part in re.split(r",(?=\s*\w+=|\s*$)", model_args.strip()))
    return {name.strip(): value.strip() for name, equals, value in parts if equals}
