"""Does an output answer its question? One function for each rule and task.

    rule      classification                               cloze
    default   nearest option is the gold option            gold in output, both cut at their first "."
    official  forget, retain: output equals the gold       gold, cut at its first ".", in output
              option; real people: nearest option
    strict    normalized output equals the gold option,    whole gold in output, at word boundaries
              or is its letter; a refusal is wrong

Every rule reads the same parsed response (`parse_response`) of the same output.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

from umu_tasks.benchmarks.instances import Question, Task
from umu_tasks.scoring.nearest import nearest_option

RuleName = Literal["default", "official", "strict"]
Rule = Callable[[str, Question, str], bool]
"""(parsed response, question, split) -> is it right."""

ASSISTANT_TAG = "ASSISTANT:"


def parse_response(output: str) -> str:
    """Return the answer in `output`: what stands before the model starts another ``ASSISTANT:`` turn, stripped.

    >>> parse_response(" Baker\\nASSISTANT: Pilot")
    'Baker'
    """
    return output.split(ASSISTANT_TAG, 1)[0].strip()


# ---- classification ---------------------------------------------------------------------------------------------


def default_classification(response: str, question: Question, split: str) -> bool:
    """Right if the option nearest to the response is the gold option, on every split."""
    options = list(question.options.values())
    return options[nearest_option(response, options)] == question.gold


def official_classification(response: str, question: Question, split: str) -> bool:
    """The published LLaVA evaluator: exact text, but the nearest option for real people (eval.py, commit 93b9900)."""
    if split != "real":
        return response == question.official_gold
    options = list(question.options.values())
    return options[nearest_option(response, options)] == question.official_gold


def strict_classification(response: str, question: Question, split: str) -> bool:
    """Right if the response is the gold option or the letter of one with that text, up to case and outer marks."""
    if is_refusal(response):
        return False
    normalized = normalize(response)
    if normalized == normalize(question.gold):
        return True
    option = {letter.casefold(): text for letter, text in question.options.items()}.get(normalized)
    return option is not None and option == question.gold


# ---- cloze ------------------------------------------------------------------------------------------------------


def default_cloze(response: str, question: Question, split: str) -> bool:
    """Right if the gold is in the response, both lower-cased and cut at their first full stop."""
    return _before_full_stop(question.gold) in _before_full_stop(response)


def official_cloze(response: str, question: Question, split: str) -> bool:
    """The published LLaVA evaluator: as `default_cloze`, but the response is not cut (eval.py, commit 93b9900)."""
    return _before_full_stop(question.gold) in response.lower()


def strict_cloze(response: str, question: Question, split: str) -> bool:
    """Right if the whole gold is in the response and neither starts nor ends inside a word. An empty gold never is."""
    gold = question.gold.strip().casefold()
    return bool(gold) and re.search(rf"(?<!\w){re.escape(gold)}(?!\w)", response.casefold()) is not None


def _before_full_stop(text: str) -> str:
    return text.split(".", 1)[0].lower()


# ---- shared -----------------------------------------------------------------------------------------------------

_REFUSALS = re.compile(
    r"\b(?:"
    r"(?:i|we) (?:do not|don't|did not|didn't|cannot|can't|can not|could not|couldn't|am unable|am not able|"
    r"am not (?:sure|certain|aware|familiar)|'m not (?:sure|certain|aware|familiar)|'m unable|have no)\b"
    r"|i'm (?:not (?:sure|certain|aware|familiar|able)|unable|sorry|afraid)\b"
    r"|(?:sorry|unfortunately|apologi[sz]e|my apologies)\b"
    r"|no (?:idea|information|knowledge|clue)\b"
    r"|(?:unknown|not (?:available|known|specified|provided))\s*[.!]?$"
    r"|(?:beyond|outside) my\b"
    r")",
    re.IGNORECASE,
)


def is_refusal(response: str) -> bool:
    """Return whether the response declines to answer (``I don't know``, ``I'm not sure``, ``Sorry, …``)."""
    return _REFUSALS.search(response.replace("’", "'")) is not None


_OUTER_MARKS = re.compile(r"^[\W_]+|[\W_]+$")


def normalize(text: str) -> str:
    """Return `text` casefolded, without space and punctuation at its ends; a text of marks alone is kept.

    >>> normalize(" (Sound Engineer). ")
    'sound engineer'
    """
    folded = text.strip().casefold()
    return _OUTER_MARKS.sub("", folded) or folded


RULES: dict[RuleName, dict[Task, Rule]] = {
    "default": {"cls": default_classification, "cloze": default_cloze},
    "official": {"cls": official_classification, "cloze": official_cloze},
    "strict": {"cls": strict_classification, "cloze": strict_cloze},
}


REPORTED_RULES: tuple[RuleName, ...] = tuple(RULES)
"""Every run is scored under all of them, from the same outputs."""

RULE_VERSIONS: dict[str, str] = {"default": "1", "official": "1", "strict": "1", "text": "1"}
"""Rule -> version, `text` for ROUGE and BLEU. A change that could move a score raises it; result files record it."""


def suffix(rule: RuleName) -> str:
    """Return what a rule's metrics end with: nothing, ``_official`` or ``_strict``."""
    return "" if rule == "default" else f"_{rule}"


def is_correct(output: str, question: Question, *, split: str, rule: RuleName = "default") -> bool:
    """Return whether `output` answers a classification or cloze question under `rule`.

    Args:
        output: what the model wrote after the prompt, untouched.
        split: our name of the split the question is in; the official rule differs for ``real``.

    Raises:
        ValueError: the question is a generation question, which has a ROUGE-L value and no verdict.
    """
    by_task = RULES[rule]
    if question.task not in by_task:
        raise ValueError(f"task {question.task!r} has no {rule} verdict; tasks with one: {', '.join(by_task)}.")
    return by_task[question.task](parse_response(output), question, split)
