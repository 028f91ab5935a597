"""The option nearest to a response, as the published evaluator finds it, without most of the work."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

from rapidfuzz.distance import LCSseq


def nearest_option(response: str, options: Sequence[str]) -> int:
    """Return the index of the option nearest to `response`; the first one on a tie, so 0 for an empty response.

    Nearness is ``difflib.SequenceMatcher(None, response, option).ratio()``. The measure is not symmetric: the response
    stays the first argument. It is slow, too, so an option is measured only if it could still win (`upper_bound`).

    Raises:
        ValueError: there is no option.
    """
    if not options:
        raise ValueError("nearest_option: a classification question needs at least one option, found none.")
    bounds = [upper_bound(response, option) for option in options]
    winner, best = len(options), -1.0
    for index in sorted(range(len(options)), key=lambda index: (-bounds[index], index)):
        if bounds[index] < best:
            break  # so are the bounds of all that follow
        if bounds[index] == best and index > winner:
            continue  # could tie at most, and the first one wins a tie
        ratio = SequenceMatcher(None, response, options[index]).ratio()
        if ratio > best or (ratio == best and index < winner):
            winner, best = index, ratio
    return winner


def upper_bound(response: str, option: str) -> float:
    """Return a number that ``SequenceMatcher(None, response, option).ratio()`` never exceeds.

    That ratio is 2·M/T, with T the length of both texts and M the length of one common subsequence; no common
    subsequence is longer than the longest one, which rapidfuzz finds fast. Computed in difflib's own order of
    operations, so that the bound holds after rounding too.
    """
    length = len(response) + len(option)
    return 2.0 * LCSseq.similarity(response, option) / length if length else 1.0
