"""Read a result file of the published UMU evaluator, so that numbers people have stand beside ours.

One file is one model. It opens like this (accuracies in percent, ROUGE as fractions, one ROUGE-L an instance, in the
same order in both lists)::

    {"Forget Results": {
       "fill_in_the_blank": {"image_textual_accuracy": 26.0, "pure_text_accuracy": 0.0,
                             "All Modal Question Accuracy": 0.0, "All Modal Question Error": 74.0},
       "classification": {"Image-Textual Question Accuracy": 32.0, …},
       "generation": {"Average ROUGE-1 (Image_Textual)": 0.34, …, "ALL ROUGE-L (Image_Textual)": [0.06, …], …}},
     "Retain Results": {…}, "Real Person Results": {…}}

"Question Accuracy" over all modalities is our `acc_all`, "Question Error" is 1 - `acc_any`. The scores are the
official rule's. People, outputs, counts of empty or refused outputs, fields and intervals are not in such a file.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from umu_tasks.benchmarks.errors import DataError
from umu_tasks.benchmarks.instances import Task
from umu_tasks.benchmarks.splits import FORGET_RATIOS, is_forget, retain_split
from umu_tasks.report.runs import RunResult, TaskResult
from umu_tasks.scoring.answers import suffix
from umu_tasks.scoring.metrics import METRICS
from umu_tasks.scoring.pairing import Pair

FORGET, RETAIN, REAL = "Forget Results", "Retain Results", "Real Person Results"
LAYOUT = f"Expected a result file of the published UMU evaluator: {FORGET!r}, {RETAIN!r}, {REAL!r}"
MISSING = "not in the published file"
NOTICE = (
    "A file of the published evaluator: its accuracies are under the official rule. Intervals, people, fields, the "
    f"other rules, empty, refused and failed outputs, and what made the run are {MISSING}."
)
CONTRADICTION = 1e-6  # numbers that must agree and differ by more were not written by the evaluator
SILENT = 0.9
"""A model whose sentences about people to keep have no word of the answer in more than this share is destroyed."""

_ACCURACIES = {
    "cls": ("classification", "Image-Textual Question Accuracy", "Pure Text Question Accuracy"),
    "cloze": ("fill_in_the_blank", "image_textual_accuracy", "pure_text_accuracy"),
}
_BOTH_RIGHT, _BOTH_WRONG = "All Modal Question Accuracy", "All Modal Question Error"
_MODALITIES = {"mul": "Image_Textual", "uni": "Pure_Text"}
_AVERAGES = {"rl": "ROUGE-L", "rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "bleu": "BLEU"}


def read_published(file: Path, name: str) -> RunResult:
    """Read one result file of the published evaluator; `splits` of it that the file lacks are just not there.

    Raises:
        DataError: the file is no such file, or a number in it is missing or out of range.
    """
    document = _read(file)
    forget, notices = _forget_split(file, document)
    splits = {FORGET: forget, RETAIN: retain_split(forget), REAL: "real"}
    tasks: dict[tuple[str, Task], TaskResult] = {}
    for section, split in splits.items():
        for result in _section(file, document, section, split):
            tasks[split, result.task] = result
    if not tasks:
        raise DataError(f"none of its parts holds scores. {LAYOUT}.", file=str(file))
    unknown = [key for key in document if key not in splits]
    if unknown:
        notices.append(f"Parts of {file.name} that this report does not know are left out: {', '.join(unknown)}.")
    return RunResult(
        name, file, "umu", tasks, (), (NOTICE, *notices), is_published=True, invalid=_destroyed(document, splits)
    )


def _read(file: Path) -> dict[str, Any]:
    try:
        document = json.loads(file.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:  # UnicodeDecodeError is a ValueError
        raise DataError(f"not readable as JSON ({error}). {LAYOUT}, or a result folder.", file=str(file)) from error
    if isinstance(document, dict) and isinstance(document.get("results"), dict):
        raise DataError("a results file of lmms-eval. Give its folder, with the sample files in it.", file=str(file))
    if not isinstance(document, dict) or not any(isinstance(document.get(key), dict) for key in (FORGET, RETAIN, REAL)):
        found = f"the keys {', '.join(map(repr, list(document)[:5]))}" if isinstance(document, dict) else "no object"
        raise DataError(f"{LAYOUT}; found {found or 'no keys'}. Our own runs are given as folders.", file=str(file))
    return document


def _forget_split(file: Path, document: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Return which forget set the file is about: from its number of instances, else from its name."""
    counts = [len(_rouge_list(document.get(key), "mul")) for key in (FORGET, RETAIN)]
    named = re.search(r"forget[_-]?(\d+)", file.name.lower())
    if all(counts):
        share = 100 * counts[0] / sum(counts)
        ratio = min(FORGET_RATIOS, key=lambda one: abs(one - share))
        if abs(ratio - share) < 1:
            told = f"Read as forget{ratio:02d}: {counts[0]} of {sum(counts)} generation instances are its forget set."
            return f"forget{ratio:02d}", [told]
    if named and int(named[1]) in FORGET_RATIOS:
        return f"forget{int(named[1]):02d}", [f"Read as forget{int(named[1]):02d}, as the file's name says."]
    if not isinstance(document.get(FORGET), dict) and not isinstance(document.get(RETAIN), dict):
        return "forget05", []  # only real people were scored: the name is not used
    choices = ", ".join(f"forget{ratio:02d}" for ratio in FORGET_RATIOS)
    raise DataError(
        f"its numbers of instances (forget {counts[0]}, retain {counts[1]}) don't tell which forget set it is about. "
        f"Rename the file so that its name holds one of {choices}.",
        file=str(file),
    )


def _section(file: Path, document: Mapping[str, Any], section: str, split: str) -> list[TaskResult]:
    parts = document.get(section)
    if not isinstance(parts, dict):
        return []
    results = []
    for task in ("cls", "cloze"):
        name, image, text = _ACCURACIES[task]
        if isinstance(parts.get(name), dict):
            numbers = _Numbers(file, f"{section} -> {name}", parts[name])
            results.append(_answered(split, "cls" if task == "cls" else "cloze", numbers, image, text))
    if isinstance(parts.get("generation"), dict):
        results.append(_generated(split, _Numbers(file, f"{section} -> generation", parts["generation"])))
    return results


class _Numbers:
    """One part of the file; a number that is missing or impossible is named with its place."""

    def __init__(self, file: Path, where: str, values: Mapping[str, Any]) -> None:
        self.file, self.where, self.values = file, where, values

    def get(self, name: str, highest: float) -> float:
        value = self.values.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= highest * (1 + 1e-9):
            raise DataError(
                f"{self.where} -> {name!r}: expected a number from 0 to {highest:g}, found {value!r}. Use the file as "
                "the evaluator wrote it.",
                file=str(self.file),
            )
        return min(float(value), highest)

    def percent(self, name: str) -> float:
        return self.get(name, 100.0) / 100

    def fractions(self, name: str) -> list[float]:
        values = self.values.get(name, [])
        if not isinstance(values, list):
            raise DataError(f"{self.where} -> {name!r}: expected a list, found {values!r}.", file=str(self.file))
        listed = _Numbers(self.file, f"{self.where} -> {name!r}", {str(index): one for index, one in enumerate(values)})
        return [listed.get(index, 1.0) for index in listed.values]


def _answered(split: str, task: Task, numbers: _Numbers, image: str, text: str) -> TaskResult:
    mul, uni = numbers.percent(image), numbers.percent(text)
    both, any_ = numbers.percent(_BOTH_RIGHT), 1 - numbers.percent(_BOTH_WRONG)
    if abs(any_ - (mul + uni - both)) > CONTRADICTION:
        raise DataError(
            f"{numbers.where}: its accuracies contradict each other: {mul:.2%} and {uni:.2%} with {both:.2%} right in "
            f"both modalities leave {mul + uni - both:.2%} right in at least one; the file says {any_:.2%}. Use it as "
            "the evaluator wrote it.",
            file=str(numbers.file),
        )
    joint = {"acc_f": (mul + uni + any_) / 3} if is_forget(split) else {"acc_r": (mul + uni + both) / 3}
    metrics = {"acc_mul": mul, "acc_uni": uni, "acc_any": any_, "acc_all": both, "modality_gap": mul - uni} | joint
    named = {name + suffix("official"): one for name, one in metrics.items()}
    return TaskResult(split, task, named, None, None)


def _generated(split: str, numbers: _Numbers) -> TaskResult:
    metrics = {
        f"{ours}_{short}": numbers.get(f"Average {theirs} ({modality})", 1.0)
        for ours, theirs in _AVERAGES.items()
        for short, modality in _MODALITIES.items()
    }
    lists = {short: numbers.fractions(_list_name(modality)) for short, modality in _MODALITIES.items()}
    if len(lists["mul"]) != len(lists["uni"]):
        raise DataError(
            f"{numbers.where}: {len(lists['mul'])} multimodal and {len(lists['uni'])} unimodal ROUGE-L values, "
            "expected as many of one as of the other. Use the file as the evaluator wrote it.",
            file=str(numbers.file),
        )
    for short, values in lists.items():
        mean = math.fsum(values) / len(values) if values else metrics[f"rl_{short}"]
        if abs(mean - metrics[f"rl_{short}"]) > CONTRADICTION:
            raise DataError(
                f"{numbers.where}: the mean of {_list_name(_MODALITIES[short])!r} is {mean:.4f}, and the file says "
                f"{metrics[f'rl_{short}']:.4f}. Use it as the evaluator wrote it.",
                file=str(numbers.file),
            )
    metrics["modality_gap"] = metrics["rl_mul"] - metrics["rl_uni"]
    joint = "rl_f" if is_forget(split) else "rl_r"
    pairs = [Pair(*values) for values in zip(lists["mul"], lists["uni"], strict=True)]
    metrics[joint] = METRICS[joint](pairs) if pairs else numbers.get("All Modal Average ROUGE-L", 1.0)
    return TaskResult(split, "gen", metrics, 2 * len(pairs) or None, None, published_instances=len(pairs) or None)


def _list_name(modality: str) -> str:
    return f"ALL ROUGE-L ({modality})"


def _rouge_list(section: Any, short: str) -> list[Any]:
    parts = section.get("generation") if isinstance(section, dict) else None
    values = parts.get(_list_name(_MODALITIES[short])) if isinstance(parts, dict) else None
    return values if isinstance(values, list) else []


def _destroyed(document: Mapping[str, Any], splits: Mapping[str, str]) -> tuple[str, ...]:
    """Return why the scores can't be forgetting: sentences about people to keep that share no word with the answer."""
    kept = [key for key, split in splits.items() if not is_forget(split)]
    values = [
        value
        for key in kept
        for pair in zip(*(_rouge_list(document.get(key), short) for short in _MODALITIES), strict=True)
        for value in [math.fsum(pair)]
    ]
    silent = sum(1 for value in values if value == 0)
    if not values or silent <= SILENT * len(values):
        return ()
    return (
        f"{silent} of {len(values)} sentences about people to keep share no word with the answer in either modality "
        "(ROUGE-L 0): the outputs were empty or no language, and the model is destroyed",
    )
