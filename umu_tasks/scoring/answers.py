"""Does an output answer its question? One function for each rule and task.

    rule      classification                               cloze
    default   nearest option is the gold option            gold in output, both cut at their first "."
    official  forget, retain: output equals the gold       gold, cut at its first ".", in output
              option; real people: nearest option
    strict    output is the gold option, or its letter,    whole gold in output, not inside a word or number;
              up to outer marks; a refusal is wrong        a refusal is wrong

Every rule reads the same parsed response (`parse_response`) of the same output.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Literal

from umu_tasks.benchmarks.instances import Question, Task
from umu_tasks.scoring.nearest import nearest_option
from umu_tasks.scoring.refusals import is_refusal
from umu_tasks.scoring.texts import contains_words, fold, has_letter_or_digit, says_nothing

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
    """Right if the response is the gold option's text, or the letter of an option with that text; never a refusal.

    A response that is an option's text is that option, whatever else it may be: with options C, C# and Java, ``C#`` is
    not C with a mark behind it, and not the third letter.
    """
    response = own_turn(response)
    if is_refusal(response):
        return False
    named = named_options(response, question.options)
    if named:
        return question.gold in named
    return {fold(letter): text for letter, text in question.options.items()}.get(normalize(response)) == question.gold


def named_options(response: str, options: Mapping[str, str]) -> set[str]:
    """Return the texts of the options that the response is: exactly, else folded, else but for outer marks.

    >>> named_options("c#.", {"A": "C", "B": "C#"}), named_options("Lisp", {"A": "C", "B": "C#"})
    ({'C#'}, set())
    """
    for form in (str.strip, fold, normalize):
        named = {text for text in options.values() if form(text) == form(response)}
        if named:
            return named
    return set()


# ---- cloze ------------------------------------------------------------------------------------------------------


def default_cloze(response: str, question: Question, split: str) -> bool:
    """Right if the gold is in the response, both lower-cased and cut at their first full stop."""
    return _before_full_stop(question.gold) in _before_full_stop(response)


def official_cloze(response: str, question: Question, split: str) -> bool:
    """The published LLaVA evaluator: as `default_cloze`, but the response is not cut (eval.py, commit 93b9900)."""
    return _before_full_stop(question.gold) in response.lower()


def strict_cloze(response: str, question: Question, split: str) -> bool:
    """Right if the whole gold is in the response, not inside a word or number. A refusal or an empty gold never is."""
    response = own_turn(response)
    return not is_refusal(response) and contains_words(fold(response), fold(question.gold))


def _before_full_stop(text: str) -> str:
    return text.split(".", 1)[0].lower()


# ---- shared -----------------------------------------------------------------------------------------------------

# Marks at the ends that are no part of an answer; those of -5, $5, C++, C# and 5% are.
_OUTER_MARKS = re.compile(r"^(?:[^\w$€£+−-]|_|[$€£+−-](?![\d.]))+|(?:[^\w+#%°]|_)+$")


def own_turn(response: str) -> str:
    """Return the response up to a line in which the model goes on as the user.

    The default and official rules read on, as the published evaluator does.

    >>> own_turn("Baker\nUSER: And where does she live?")
    'Baker'
    """
    return response.split("\nUSER:", 1)[0].strip()


def normalize(text: str) -> str:
    """Return `text` folded, without space and punctuation at its ends; a text of marks alone is kept.

    >>> normalize(" (Sound Engineer). "), normalize("C++."), normalize("-5")
    ('sound engineer', 'c++', '-5')
    """
    folded = fold(text)
    return _OUTER_MARKS.sub("", folded) if has_letter_or_digit(folded) else folded


def is_empty(response: str, question: Question) -> bool:
    """Return whether a parsed response says nothing: no letter or digit in it, and no answer that is marks alone."""
    return says_nothing(response, (question.gold, *question.options.values()))


RULES: dict[RuleName, dict[Task, Rule]] = {
    "default": {"cls": default_classification, "cloze": default_cloze},
    "official": {"cls": official_classification, "cloze": official_cloze},
    "strict": {"cls": strict_classification, "cloze": strict_cloze},
}


REPORTED_RULES: tuple[RuleName, ...] = tuple(RULES)
"""Every run is scored under all of them, from the same outputs."""

RULE_VERSIONS: dict[str, str] = {"default": "1", "official": "1", "strict": "3", "text": "1"}
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
