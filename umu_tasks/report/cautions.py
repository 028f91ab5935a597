"""What a reader must know before the first number: collapsed runs, runs that can't be compared, what was not scored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from umu_tasks.benchmarks.instances import TASK_NAMES, TASKS
from umu_tasks.benchmarks.splits import is_forget, is_to_be_forgotten, retain_split
from umu_tasks.report import factuality, general
from umu_tasks.report.cells import percent
from umu_tasks.report.compare import KNOWN, Comparison, counts_of, headline
from umu_tasks.report.derive import differing_questions
from umu_tasks.report.intervals import FEW_PEOPLE
from umu_tasks.report.provenance import differences, same_models
from umu_tasks.report.runs import RunResult

COLLAPSED = 0.5
"""Less than this share kept in both modalities: the run lost the retain set too and did not forget selectively."""
ONE_TEXT, FEW_OUTPUTS = 0.9, 10
"""A larger share of one and the same output, among at least so many: the model does not answer the questions."""
REFUSES_ALL = 0.5
"""A larger share of refusals on people to keep: the model refuses whatever it is asked."""


class Caution(NamedTuple):
    """One caution; `run` is "" where it is about all of them."""

    run: str
    text: str


def collapsed(comparison: Comparison) -> dict[str, str]:
    """Return run name -> why its low scores are damage to the whole model; invalid runs are not repeated here."""
    reasons = {run.name: _collapse(comparison, run) for run in comparison.runs if not comparison.is_invalid(run)}
    return {name: why for name, why in reasons.items() if why}


def _collapse(comparison: Comparison, run: RunResult) -> str:
    for split in (split for split in comparison.splits if split.startswith(("retain", "real"))):
        counts = counts_of(run, split)
        if counts is not None and counts.share(counts.refused) > REFUSES_ALL:
            return f"it refuses {percent(counts.share(counts.refused))} of the questions on {split}, people to keep"
    if run not in comparison.later or comparison.is_invalid(comparison.baseline):
        return ""
    for split in (split for split in comparison.splits if split.startswith("retain")):
        kept = comparison.kept_answers(run, split)
        if kept is not None and max(kept.values()) < COLLAPSED:
            return (
                f"it kept only {percent(kept['unimodal'])} of the start model's text and "
                f"{percent(kept['multimodal'])} of its image answers on {split}, people to keep"
            )
    return ""


def cautions(comparison: Comparison) -> list[Caution]:
    """Return what spoils a comparison, most general first."""
    return [
        *(Caution("", told) for told in differences(comparison.runs)),
        *(Caution("", told) for told in differing_questions(comparison.runs)),
        *(Caution("", told) for told in same_models(comparison.runs)),
        *_forms(comparison),
        *_limited(comparison),
        *_mixed(comparison),
        *_ignorant_start(comparison),
        *(caution for run in comparison.runs for caution in _one_text(comparison, run)),
        *(caution for run in comparison.later for caution in _of_run(comparison, run)),
        *_few_people(comparison),
        *(Caution(*told) for told in general.cautions(comparison)),
        *(Caution(*told) for told in factuality.cautions(comparison)),
    ]


def _limited(comparison: Comparison) -> Iterator[Caution]:
    limited = [run.name for run in comparison.runs if run.is_limited]
    if limited:
        told = f"Only a part of the questions was asked (--limit) in {', '.join(limited)}"
        yield Caution("", f"{told}: these are not benchmark results.")


def _mixed(comparison: Comparison) -> Iterator[Caution]:
    published = [run.name for run in comparison.runs if run.is_published]
    if not published:
        return
    if comparison.rule != "official":
        told = f"holds no accuracies under the {comparison.rule} rule; show all runs under --rule official to compare."
        yield Caution("", f"The published evaluator's file of {', '.join(published)} {told}")
    elif len(published) < len(comparison.runs):
        told = "All runs are shown under the official rule, the only one that the published evaluator's files hold"
        yield Caution("", f"{told}. That their questions are the same as ours can't be checked.")


def _forms(comparison: Comparison) -> Iterator[Caution]:
    named = {"": "with examples in the prompt"}
    forms: dict[str, list[str]] = {}
    for run in comparison.runs:
        forms.setdefault(named.get(run.form, "zero-shot"), []).append(run.name)
    if len(forms) > 1:
        told = " / ".join(f"{', '.join(names)}: {form}" for form, names in forms.items())
        yield Caution("", f"The runs were asked in different forms ({told}). Their scores can't be compared.")


def _ignorant_start(comparison: Comparison) -> Iterator[Caution]:
    for split in comparison.forget_splits():
        known = comparison.both(comparison.baseline, split)
        if comparison.later and known is not None and min(known.values()) < KNOWN:
            yield Caution(
                comparison.baseline.name,
                f"taken for the start model, it answers only {percent(known['unimodal'])} of the text and "
                f"{percent(known['multimodal'])} of the image questions on {split}: there is little to forget, and no "
                "run is said to have forgotten anything. Name the start model with --baseline.",
            )


def _one_text(comparison: Comparison, run: RunResult) -> Iterator[Caution]:
    """A model that says the same to everything still hits some options."""
    if comparison.is_invalid(run):
        return
    for (split, task), result in run.tasks.items():
        outputs = Counter(answer.output.strip() for answer in result.answers or () if answer.output)
        text, count = outputs.most_common(1)[0] if outputs else ("", 0)
        if outputs.total() >= FEW_OUTPUTS and count > ONE_TEXT * outputs.total():
            told = f"{count} of {outputs.total()} answers to {TASK_NAMES[task]} on {split} are the same text"
            yield Caution(run.name, f"{told}, {text[:60]!r}: the score there is that of a constant.")


def _of_run(comparison: Comparison, run: RunResult) -> Iterator[Caution]:
    if comparison.is_invalid(run) or comparison.is_invalid(comparison.baseline):
        return
    for split in (split for split in run.splits if is_to_be_forgotten(split)):
        if is_forget(split) and retain_split(split) not in run.splits:
            told = f"no retain set was scored beside {split}: nobody can tell forgetting from a damaged model."
            yield Caution(run.name, f"{told} Score {run.benchmark}_{retain_split(split)} too.")
        for task in TASKS:
            change = comparison.change(run, split, task, headline(split, task))
            if change is not None and change > 0 and not comparison.is_noise(run, split, task, headline(split, task)):
                before = comparison.value(comparison.baseline, split, task, headline(split, task)) or 0.0
                told = f"its {TASK_NAMES[task]} score on {split} is above the start model's: {percent(before + change)}"
                yield Caution(run.name, f"{told} after {percent(before)}. Nothing was forgotten there.")


def _few_people(comparison: Comparison) -> Iterator[Caution]:
    few = {split: comparison.few_people(split) for split in comparison.splits}
    told = [f"{split} {people}" for split, people in few.items() if people is not None]
    if told and comparison.others:
        yield Caution(
            "",
            f"Few people ({', '.join(told)}): intervals over fewer than {FEW_PEOPLE} are rougher than they look, and "
            "changes there can be chance.",
        )
