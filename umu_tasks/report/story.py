"""Sentences for the reader, made from the numbers, each only where it holds.

Thresholds are for words, not for science: they decide which of a few sentences describes a run, and the numbers stand
in the sentence itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from umu_tasks.benchmarks.instances import MODALITIES, Modality
from umu_tasks.benchmarks.splits import FORGET_RATIOS, retain_split
from umu_tasks.report import general
from umu_tasks.report.cautions import COLLAPSED, collapsed
from umu_tasks.report.cells import percent
from umu_tasks.report.compare import ANSWER_TASKS, KNOWN, Comparison, counts_of
from umu_tasks.report.outputs import count_outputs
from umu_tasks.report.runs import Answer, RunResult
from umu_tasks.report.tables import test_split
from umu_tasks.scoring.rouge import rouge

Tone = Literal["finding", "warning"]

GONE = 0.25
"""Less than this share of the start model's right answers left: the answers are called gone."""
GONE_SENTENCES = 0.5
"""The same for ROUGE-L above that of sentences about someone else, which is far from zero and rough."""
STAYED = 0.6
"""More than this share left: the answers are said to have stayed."""
KEPT = 0.85
"""The share of the start model's retain-set answers a run should keep."""
REFUSING = 0.05
"""A larger share of refusals on people to keep is pointed out: it lowers scores though no knowledge need be lost."""

INVALID = "invalid: {reason}. Its scores are struck out: a broken model scores low without having forgotten anything."
UNCHECKED = "unchecked: nobody counted its empty and failed outputs, so low scores may be those of a broken model."
NOT_SELECTIVE = "not selective"
_NAMED = 4
"""How many lost scores of other tasks are named; the table has all."""
LEARNED = ("full", "retain95", "retain90", "retain85")
NOUNS: dict[Modality, str] = {"unimodal": "text", "multimodal": "image"}


@dataclass(frozen=True, slots=True)
class Sentence:
    tone: Tone
    run: str
    text: str


def tell(comparison: Comparison) -> list[Sentence]:
    """Return what the numbers show, run by run; warnings about a run stand in place of findings."""
    sentences: list[Sentence] = []
    fallen = collapsed(comparison)
    for run in comparison.runs:
        if run.name in comparison.invalid:
            sentences.append(Sentence("warning", run.name, INVALID.format(reason=comparison.invalid[run.name])))
            continue
        if any(count_outputs([result]) is None for result in run.tasks.values()):
            sentences.append(Sentence("warning", run.name, UNCHECKED))
        if comparison.baseline.name in comparison.invalid:
            continue
        sentences += _start(comparison) if run is comparison.baseline else []
        after = _after(comparison, run) if run in comparison.later else []
        if run.name in fallen and not any(NOT_SELECTIVE in sentence.text for sentence in after):
            after.insert(0, Sentence("warning", run.name, f"collapsed: {fallen[run.name]}."))
        sentences += after
    return sentences


def _start(comparison: Comparison) -> list[Sentence]:
    """Compare what the start model knows with the stages before it."""
    start, sentences = comparison.baseline, []
    split = next((split for split in LEARNED if comparison.both(start, split)), None)
    now = comparison.both(start, split) if split else None
    if split is None or now is None:
        return []
    people = "all invented people" if split == "full" else f"the people in {split}"
    for run in comparison.runs[: comparison.runs.index(start)]:
        before = None if comparison.is_invalid(run) else comparison.both(run, split)
        if before and all(now[modality] - before[modality] > 0.2 for modality in MODALITIES):
            sentences.append(
                Sentence(
                    "finding",
                    start.name,
                    f"before it, {run.name} answers {percent(before['unimodal'])} of the text and "
                    f"{percent(before['multimodal'])} of the image questions about {people} right; {start.name}, the "
                    f"start model, {percent(now['unimodal'])} and {percent(now['multimodal'])}.",
                )
            )
    return sentences


def _after(comparison: Comparison, run: RunResult) -> list[Sentence]:
    sentences = []
    for ratio in FORGET_RATIOS:
        forget = f"forget{ratio:02d}"
        before, after = comparison.both(comparison.baseline, forget), comparison.both(run, forget)
        if not before or not after or min(before.values()) < KNOWN:
            continue
        retained = comparison.kept_answers(run, retain_split(forget))
        if retained and max(retained.values()) < COLLAPSED:
            sentences.append(_collapse(run, forget, before, after, retained))
            continue
        if run.name in collapsed(comparison):  # it refuses everyone: that is no forgetting of these people
            continue
        sentences.append(Sentence("finding", run.name, _forgetting(comparison, run, forget, before, after)))
        sentences += _in_other_words(comparison, run, test_split(forget))
        if retained:
            sentences.append(_retention(run, "the retain set", retained))
    real = comparison.kept_answers(run, "real")
    if real and sentences:
        sentences.append(_retention(run, "real people", real))
    return [*sentences, *_refusals(comparison, run), *_general(comparison, run)]


def _in_other_words(comparison: Comparison, run: RunResult, test: str) -> list[Sentence]:
    """Say whether the people are forgotten where they are asked about in other words and pictures."""
    before, after = comparison.both(comparison.baseline, test), comparison.both(run, test)
    if not before or not after or min(before.values()) < KNOWN:
        return []
    moved = " and ".join(
        f"{NOUNS[one]} answers went from {percent(before[one])} to {percent(after[one])}" for one in MODALITIES
    )
    stayed = [one for one in MODALITIES if after[one] / before[one] > STAYED]
    end = ": much of the knowledge is still there." if stayed else "."
    return [Sentence("finding", run.name, f"in other words and pictures of the same people ({test}), {moved}{end}")]


def _general(comparison: Comparison, run: RunResult) -> list[Sentence]:
    """Name what the model lost elsewhere, or say that nothing moved beyond the noise."""
    start = comparison.baseline.general
    moved = {key: general.verdict(score, start[key]) for key, score in run.general.items() if key in start}
    lost = [key for key, word in moved.items() if word == "worse"]
    if lost:
        told = [
            f"{task} {metric} {general.plain_number(start[task, metric].value)} to "
            f"{general.plain_number(run.general[task, metric].value)}"
            for task, metric in lost[:_NAMED]
        ]
        more = f" and {len(lost) - _NAMED} more" if len(lost) > _NAMED else ""
        return [Sentence("warning", run.name, f"general ability fell beyond the noise: {', '.join(told)}{more}.")]
    if moved and all(word in ("same", "within the noise", "better") for word in moved.values()):
        count = f"{len(moved)} score{'s' if len(moved) > 1 else ''} of other tasks"
        return [Sentence("finding", run.name, f"general ability did not fall beyond the noise ({count}).")]
    return []


def _forgetting(
    comparison: Comparison, run: RunResult, forget: str, before: dict[Modality, float], after: dict[Modality, float]
) -> str:
    left = {modality: after[modality] / before[modality] for modality in MODALITIES}
    gone = [modality for modality in MODALITIES if left[modality] < GONE]
    stayed = [modality for modality in MODALITIES if left[modality] > STAYED]
    people = max((run.tasks[forget, task].people or 0 for task in ANSWER_TASKS), default=0)
    size = f" ({people} people)" if people else ""
    moved = {
        modality: f"{NOUNS[modality]} answers on {forget}{size} fell from {percent(before[modality])} to "
        f"{percent(after[modality])}"
        for modality in MODALITIES
    }
    if len(gone) == 1 and len(stayed) == 1:
        other = stayed[0]
        rest = f"{NOUNS[other]} answers only went from {percent(before[other])} to {percent(after[other])}"
        if round(before[other], 3) == round(after[other], 3):
            rest = f"{NOUNS[other]} answers stayed at {percent(after[other])}"
        return (
            f"{moved[gone[0]]} while {rest}: the modality gap. The knowledge is still there, asked with "
            f"{'a picture' if other == 'multimodal' else 'a name'}."
        )
    both = (
        f"on {forget}{size}, text answers went from {percent(before['unimodal'])} to {percent(after['unimodal'])} and "
        f"image answers from {percent(before['multimodal'])} to {percent(after['multimodal'])}"
    )
    if len(gone) == 2:
        return f"{both}: {_gone_in_sentences(comparison, run, forget)}"
    if len(stayed) == 2:
        return f"{both}: most of the knowledge is still there in both modalities."
    return f"{both}."


def _gone_in_sentences(comparison: Comparison, run: RunResult, forget: str) -> str:
    """Say whether whole sentences forgot what classification and cloze did: only then is the knowledge gone."""
    answers = "classification and cloze answers are gone in both modalities"
    scores = {modality: _sentence_scores(comparison, run, forget, modality) for modality in MODALITIES}
    known = {modality: one for modality, one in scores.items() if one is not None}
    if len(known) < len(MODALITIES):
        return f"{answers}. Generation was not scored, so nobody knows whether the model still writes it."
    told = [f"{NOUNS[modality]} {percent(before)} to {percent(after)}" for modality, (before, after) in known.items()]
    rouge = f"generation (ROUGE-L) went from {' and '.join(told)}"
    floor = sentence_floor(run.tasks[forget, "gen"].answers or ())
    if floor is None or min(before for before, _ in known.values()) <= floor:
        return f"{answers}; {rouge}."
    rouge += f", where a true sentence about someone else scores {percent(floor)}"
    if max((after - floor) / (before - floor) for before, after in known.values()) < GONE_SENTENCES:
        return f"gone in both modalities, and {rouge}."
    return f"{answers}, but {rouge}: whole sentences still tell it."


def _sentence_scores(
    comparison: Comparison, run: RunResult, forget: str, modality: Modality
) -> tuple[float, float] | None:
    before = comparison.modality_value(comparison.baseline, forget, "gen", modality)
    after = comparison.modality_value(run, forget, "gen", modality)
    return None if before is None or after is None else (before, after)


def sentence_floor(answers: Sequence[Answer]) -> float | None:
    """Return the ROUGE-L of a true sentence about the wrong person, the higher one of both modalities.

    Sentences of one form share most of their words, so a model that knows the form and nothing else is far from 0.
    None where there is nobody else to compare with.
    """
    golds: dict[tuple[Modality, str], list[str]] = {}
    for answer in answers:
        golds.setdefault((answer.modality, answer.key), []).append(answer.gold)
    floors: dict[Modality, list[float]] = {modality: [] for modality in MODALITIES}
    for (modality, _), own in golds.items():
        if len(own) > 1:
            others = [*own[1:], own[0]]
            floors[modality] += [rouge(other, gold)["rouge_l"] for gold, other in zip(own, others, strict=True)]
    return max((fmean(own) for own in floors.values() if own), default=None)


def _collapse(
    run: RunResult,
    forget: str,
    before: dict[Modality, float],
    after: dict[Modality, float],
    retained: dict[Modality, float],
) -> Sentence:
    return Sentence(
        "warning",
        run.name,
        f"{NOT_SELECTIVE}: it kept only {percent(retained['unimodal'])} of the start model's text and "
        f"{percent(retained['multimodal'])} of its image answers on the retain set, so the fall on {forget} (text "
        f"{percent(before['unimodal'])} to {percent(after['unimodal'])}, image {percent(before['multimodal'])} to "
        f"{percent(after['multimodal'])}) is damage to the whole model rather than forgetting.",
    )


def _retention(run: RunResult, people: str, kept: dict[Modality, float]) -> Sentence:
    lost = min(kept.values()) < KEPT
    text, image = percent(kept["unimodal"]), percent(kept["multimodal"])
    end = ": knowledge that should have stayed was lost." if lost else "."
    told = f"it kept {text} of the start model's text and {image} of its image answers on {people}{end}"
    return Sentence("warning" if lost else "finding", run.name, told)


def _refusals(comparison: Comparison, run: RunResult) -> list[Sentence]:
    """Point out a run that refuses people it should keep much more often than the start model does."""
    for split in (split for split in comparison.splits if split.startswith(("retain", "real"))):
        counts, start = counts_of(run, split), counts_of(comparison.baseline, split)
        refused = counts.share(counts.refused) if counts else 0.0
        usual = start.share(start.refused) if start else 0.0
        if refused > max(REFUSING, 2 * usual):
            told = f"it refuses {percent(refused)} of the questions on {split}, which it should answer."
            return [Sentence("warning", run.name, told)]
    return []
