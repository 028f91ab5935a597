"""Sentences for the reader, made from the numbers, each only where it holds.

Thresholds are for words, not for science: they decide which of a few sentences describes a run, and the numbers stand
in the sentence itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from umu_tasks.benchmarks.instances import MODALITIES, Modality
from umu_tasks.benchmarks.splits import FORGET_RATIOS, retain_split
from umu_tasks.report.compare import Comparison, counts_of, right_answers
from umu_tasks.report.runs import RunResult

Tone = Literal["finding", "warning"]

KNOWN = 0.5
"""A start model below this on a split has nothing there whose loss would say something."""
GONE = 0.25
"""Less than this share of the start model's right answers left: the answers are called gone."""
STAYED = 0.6
"""More than this share left: the answers are said to have stayed."""
KEPT = 0.85
"""The share of the start model's retain-set answers a run should keep."""
COLLAPSED = 0.5
"""Less than this share kept in both modalities: the run lost the retain set too and did not forget selectively."""
REFUSING = 0.05
"""A larger share of refusals on people to keep is pointed out: it lowers scores though no knowledge need be lost."""

INVALID = (
    "invalid: too many outputs are empty or missing. A model that writes nothing scores low without having forgotten "
    "anything; its scores are shown, but they are no evidence of forgetting."
)
UNCHECKED = "unchecked: without sample files nobody can tell empty outputs from wrong ones."
NOUNS: dict[Modality, str] = {"unimodal": "text", "multimodal": "image"}


@dataclass(frozen=True, slots=True)
class Sentence:
    tone: Tone
    run: str
    text: str


def percent(fraction: float) -> str:
    """Return a fraction as percent with one decimal; the space does not break.

    >>> percent(0.0139)
    '1.4\\u00a0%'
    """
    return f"{100 * fraction:.1f}\u00a0%"


def tell(comparison: Comparison) -> list[Sentence]:
    """Return what the numbers show, run by run; warnings about a run stand in place of findings."""
    sentences: list[Sentence] = []
    for run in comparison.runs:
        if run.name in comparison.invalid:
            sentences.append(Sentence("warning", run.name, INVALID))
            continue
        if any(result.answers is None for result in run.tasks.values()):
            sentences.append(Sentence("warning", run.name, UNCHECKED))
        if comparison.baseline.name in comparison.invalid:
            continue
        sentences += _start(comparison) if run is comparison.baseline else []
        sentences += _after(comparison, run) if run in comparison.later else []
    return sentences


def _start(comparison: Comparison) -> list[Sentence]:
    """Compare what the start model knows with the stages before it."""
    start, sentences = comparison.baseline, []
    split = next((split for split in ("full", "retain95", "retain90", "retain85") if _both(start, split)), None)
    now = _both(start, split) if split else None
    if split is None or now is None:
        return []
    people = "all invented people" if split == "full" else f"the people in {split}"
    for run in comparison.runs[: comparison.runs.index(start)]:
        before = None if run.name in comparison.invalid else _both(run, split)
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
        before, after = _both(comparison.baseline, forget), _both(run, forget)
        if not before or not after or min(before.values()) < KNOWN:
            continue
        retained = _kept(comparison, run, retain_split(forget))
        if retained and max(retained.values()) < COLLAPSED:
            sentences.append(_collapse(run, forget, before, after, retained))
            continue
        sentences.append(Sentence("finding", run.name, _forgetting(run, forget, before, after)))
        if retained:
            sentences.append(_retention(run, "the retain set", retained))
    real = _kept(comparison, run, "real")
    if real and sentences:
        sentences.append(_retention(run, "real people", real))
    return [*sentences, *_refusals(comparison, run)]


def _forgetting(run: RunResult, forget: str, before: dict[Modality, float], after: dict[Modality, float]) -> str:
    left = {modality: after[modality] / before[modality] for modality in MODALITIES}
    gone = [modality for modality in MODALITIES if left[modality] < GONE]
    stayed = [modality for modality in MODALITIES if left[modality] > STAYED]
    people = len({key.profile_id for task in ("cls", "cloze") for key in run.tasks[forget, task].pairs})
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
        return f"{both}: gone in both modalities."
    if len(stayed) == 2:
        return f"{both}: most of the knowledge is still there in both modalities."
    return f"{both}."


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
        f"not selective: it kept only {percent(retained['unimodal'])} of the start model's text and "
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


def _both(run: RunResult, split: str) -> dict[Modality, float] | None:
    """Return the right answers of both modalities, None unless both were scored."""
    known = {modality: right_answers(run, split, modality) for modality in MODALITIES}
    values = {modality: one for modality, one in known.items() if one is not None}
    return values if len(values) == len(MODALITIES) else None


def _kept(comparison: Comparison, run: RunResult, split: str) -> dict[Modality, float] | None:
    """Return the shares of the start model's right answers that are left, None where it had (nearly) none."""
    before, after = _both(comparison.baseline, split), _both(run, split)
    if not before or not after or min(before.values()) < KNOWN:
        return None
    return {modality: after[modality] / before[modality] for modality in MODALITIES}
