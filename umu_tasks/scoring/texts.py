"""What the strict rule and the counts see in a text: its letters and digits, whatever their encoding and spacing.

The published rules do without: they compare texts as they stand.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

_APOSTROPHES = str.maketrans(dict.fromkeys("’‘ʼ′´`", "'") | dict.fromkeys("“”„", '"'))
_SPACE = re.compile(r"\s+")

# A number with its sign, decimals and thousands. A date such as 12.05.1990 is three numbers.
_NUMBER = re.compile(r"(?P<date>(?<!\d)\d{1,2}\.\d{1,2}\.\d{4}(?!\d))|(?:(?<![\w)])[-−])?(?:(?<!\w)\.)?\d+(?:[.,]\d+)*")

# Scripts written without spaces between words.
_SPACELESS = re.compile(
    "["
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai and Lao, Burmese, Khmer
    "\u2e80-\u2fdf\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
    "\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # Kana
    "]"
)


def fold(text: str) -> str:
    """Return `text` casefolded in NFC, with plain quotes, single spaces between words and none at its ends.

    >>> fold(" L’Aquila,\\u00a0 Italy")
    "l'aquila, italy"
    """
    composed = unicodedata.normalize("NFC", text).translate(_APOSTROPHES).casefold()
    return _SPACE.sub(" ", unicodedata.normalize("NFC", composed)).strip()


def has_letter_or_digit(text: str) -> bool:
    """Return whether any letter or digit is in `text`, of whatever script.

    >>> has_letter_or_digit("!!! \\u200b"), has_letter_or_digit("C++")
    (False, True)
    """
    return any(character.isalnum() for character in text)


def says_nothing(response: str, answers: Iterable[str]) -> bool:
    """Return whether a response is empty: no letter or digit in it, and none of the right answers, which may be marks.

    >>> says_nothing(" !!!", ["Baker"]), says_nothing("+", ["+", "-"]), says_nothing("No.", ["Baker"])
    (True, False, False)
    """
    if has_letter_or_digit(response):
        return False
    said = response.strip()
    return not said or said not in {answer.strip() for answer in answers}


def contains_words(text: str, words: str) -> bool:
    """Return whether `words` stand in `text` and neither start nor end inside a word or a number; both folded.

    >>> contains_words("born in sligo, ireland.", "sligo"), contains_words("sligoville", "sligo")
    (True, False)
    >>> contains_words("1.75 m", "75"), contains_words("it is 175.", "175")
    (False, True)
    """
    start = text.find(words) if words else -1
    while start >= 0:
        end = start + len(words)
        if not (_is_inside_word(text, start) or _is_inside_word(text, end) or _is_inside_number(text, start, end)):
            return True
        start = text.find(words, start + 1)
    return False


def tells_answer(question: str, answer: str, options: Iterable[str] = ()) -> bool:
    """Return whether a question holds its own answer, so that whoever reads it is right without knowing anything.

    One that lists all options does not say which. A letter (blood type A) is a word of other questions too.

    >>> tells_answer("Is the Baker tall?", "baker"), tells_answer("A pilot or a baker?", "baker", ["pilot", "baker"])
    (True, False)
    """
    said, listed = fold(question), [fold(option) for option in options]
    if len(answer) == 1 or (listed and all(contains_words(said, option) for option in listed)):
        return False
    return contains_words(said, fold(answer))


def _is_inside_word(text: str, place: int) -> bool:
    """Return whether a word goes on across `place`, the place between two characters."""
    if not 0 < place < len(text):
        return False
    before, after = text[place - 1], text[place]
    if _SPACELESS.match(before) or _SPACELESS.match(after):
        return False
    return _is_of_a_word(before) and _is_of_a_word(after)


def _is_of_a_word(character: str) -> bool:
    # a combining mark (an accent, a vowel sign) belongs to the letter before it
    return character.isalnum() or character == "_" or unicodedata.category(character).startswith("M")


def _is_inside_number(text: str, start: int, end: int) -> bool:
    numbers = (match.span() for match in _NUMBER.finditer(text) if not match["date"])
    return any(first < start < last or first < end < last for first, last in numbers)
