"""Does an output answer its question? The published rules and a strict one.

    rule                classification                              cloze
    default = official  the first character of the answer, upper-   the whole gold is in the answer, both lower-cased
                        cased, is the gold letter
    strict              the answer is the gold letter or the gold   the whole gold is in the answer at word boundaries;
                        option and names no other; no refusal       no refusal

Both read the same parsed response (`umu_tasks.scoring.answers.parse_response`) of the same output.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from umu_tasks.benchmarks.instances import Question, Task
from umu_tasks.scoring.answers import RuleName, named_options, normalize, strict_cloze
from umu_tasks.scoring.refusals import is_refusal

# What may stand before the letter or the option: "Answer: B", "The correct answer is (B)".
_LEAD = re.compile(r"(?:the\s+)?(?:correct\s+)?(?:answer|option|choice)(?:\s+is)?\s*:?\s*", re.IGNORECASE)
# "B", "(B)", "B.", "B) Baker", "B: Baker"; the text is what follows the mark.
_LETTER = re.compile(r"\(?([A-Za-z])(?:\)|\b)\s*(?:[.:)\-]\s*(.*))?", re.DOTALL)


def published_classification(response: str, question: Question) -> bool:
    """Right if the first character is the gold letter; ``Answer: B`` counts as A. Source: published eval.py."""
    letter = response[:1].upper()
    return letter in question.options and letter == question.gold_letter


def strict_classification(response: str, question: Question) -> bool:
    """Right if the response is the gold letter, the gold option, or both; a text that belies the letter is wrong."""
    if is_refusal(response):
        return False
    if response.upper() in question.options:  # what was asked for, even where another option's text is this letter
        return response.upper() == question.gold_letter
    answer = _LEAD.sub("", response, count=1) if _LEAD.match(response) else response
    named = named_options(response, question.options) or named_options(answer, question.options)
    if named:
        return question.gold in named
    match = _LETTER.fullmatch(answer)
    if match is None or match[1].upper() != question.gold_letter:
        return False
    return not normalize(match[2] or "") or question.gold in named_options(match[2], question.options)


def published_cloze(response: str, question: Question) -> bool:
    """Right if the whole gold is somewhere in the response, whatever the case. Source: published eval.py."""
    return question.gold.lower() in response.lower()


def strict_cloze_answer(response: str, question: Question) -> bool:
    """Right if the gold stands in the response as words of its own, and the response is no refusal."""
    return strict_cloze(response, question, "")


_RULES: dict[Task, dict[RuleName, Callable[[str, Question], bool]]] = {
    "cls": {"default": published_classification, "strict": strict_classification},
    "cloze": {"default": published_cloze, "strict": strict_cloze_answer},
}


def verdicts(response: str, question: Question) -> dict[RuleName, int]:
    """Return rule -> 0 or 1 for a parsed response; `official` is `default` once more, so that every reader finds it.

    Raises:
        KeyError: a generation question, which has text measures and no verdict.
    """
    found = {rule: int(is_right(response, question)) for rule, is_right in _RULES[question.task].items()}
    return {"default": found["default"], "official": found["default"], "strict": found["strict"]}
