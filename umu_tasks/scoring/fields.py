"""Which fact of a person a knowledge instance asks for: occupation, residence, …

An instance's key says so where it is a word (``occupation``). Where keys are numbers, the question's own words do:

    "What is the occupation of …", "What does … do for a living", "… works as a [Blank]"    occupation
    "Where does … live", "… resides in [Blank]"                                             residence

In a sentence with a blank the last such word before the blank decides, for the rest may tell other facts: "…, a teacher
who lives in [Blank], …" asks for the residence. In a question the first one does. Fields serve the breakdown of scores
only; no score depends on them.
"""

from __future__ import annotations

import re

_WORDS: dict[str, str] = {  # tried in this order at one place of a text: "born on" before "born"
    "birth_date": r"birth ?dates?|dates? of birth|birthday|birth year|year of birth|born (?:on|in the year)|"
    r"when (?:was|were) .{0,60}?\bborn",
    "birthplace": r"birth ?places?|places? of birth|born|hometown|native|comes? from|from which (?:place|city)",
    "occupation": r"occupations?|professions?|jobs?|careers?|works? as|working as|employed|for a living",
    "residence": r"residences?|residing|resides?|lives?|living|home|settled|based in",
    "education": r"education(?:al)?|degrees?|graduated?|stud(?:y|ied|ies)|universit(?:y|ies)|college|diploma|"
    r"qualifications?|alma mater|major(?:ed)?",
    "height": r"heights?|tall",
    "interests": r"interests?|hobb(?:y|ies)|passions?|passionate|free time|spare time|leisure|pastimes?|enjoys?",
    "name": r"names?|who is",
    "overview": r"tell me|more about|describe|description|overview|biography|introduc(?:e|tion)|background|story",
}
_PATTERNS = {field: re.compile(rf"\b(?:{words})\b", re.IGNORECASE) for field, words in _WORDS.items()}
_BLANK = re.compile(r"\[blank\]|_{2,}", re.IGNORECASE)
_COUNTER = re.compile(r"(?:q|question|item|fact|entry|key|task|instance|no|cls|cloze|gen)?", re.IGNORECASE)


def field_of(key: str, *questions: str) -> str:
    """Return the field that a knowledge instance is about.

    Args:
        key: the instance's key. A number at its end, as in ``occupation_2``, says nothing.
        questions: its questions, the one to trust most first: the multimodal one has no name in it that could be taken
            for an occupation.

    Returns:
        The key's word in lower case, words joined by ``_``; else what the first telling question asks for; else
        the key.

    >>> field_of("Occupation"), field_of("0", "Where does the person in the image live?"), field_of("3", "Why?")
    ('occupation', 'residence', '3')
    """
    word = re.sub(r"[\W_]*\d*[\W_]*$", "", key.strip())
    if not _COUNTER.fullmatch(word):
        return re.sub(r"[\W_]+", "_", word).casefold()
    return next(filter(None, map(_told_by, questions)), key)


def _told_by(question: str) -> str | None:
    """Return the field whose words decide in `question`, None if it has none of them."""
    blank = _BLANK.search(question)
    places = {field: [m.start() for m in pattern.finditer(question)] for field, pattern in _PATTERNS.items()}
    if blank is not None:
        before = {field: max((p for p in found if p < blank.start()), default=-1) for field, found in places.items()}
        field = max(before, key=lambda field: before[field])
        if before[field] >= 0:
            return field
    first = {field: found[0] for field, found in places.items() if found}
    return min(first, key=lambda field: first[field]) if first else None
