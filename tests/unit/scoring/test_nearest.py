"""The nearest option is difflib's, whatever is skipped to find it."""

from __future__ import annotations

from difflib import SequenceMatcher

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from umu_tasks.scoring import nearest
from umu_tasks.scoring.nearest import nearest_option, upper_bound

JOBS = ["Teacher", "Sound Engineer", "Pilot", "Baker"]


def plain_difflib(response, options):
    """What the published evaluator does: measure every option, keep the first of the largest."""
    ratios = [SequenceMatcher(None, response, option).ratio() for option in options]
    return ratios.index(max(ratios))


def test_the_first_wins_a_tie():
    """An empty output is 0 to every option and goes to the first."""
    assert nearest_option("", JOBS) == 0
    assert nearest_option("ab", ["xx", "ba", "ab ", "ab  ", "ab "]) == 2
    assert nearest_option("Pilot", ["Baker", "Pilot", "Pilot"]) == 1


def test_order_of_arguments_is_kept():
    """SequenceMatcher is not symmetric: for this output the other order picks the other option."""
    response, options = "an a tall in", ["baker old pilot", "paris baker pilot"]
    swapped = [SequenceMatcher(None, option, response).ratio() for option in options]
    assert nearest_option(response, options) == 1
    assert swapped[0] > swapped[1]


def test_no_option_is_an_error():
    with pytest.raises(ValueError, match="at least one option"):
        nearest_option("Baker", [])


def test_long_options_keep_the_library_heuristic():
    """From 200 characters on difflib skips frequent characters, which makes the right long option lose here."""
    life = (
        "Mara Quill studied at the University of Sligo and later taught music in a small school near the harbour, "
        "where she also led the choir and wrote songs about boats, storms and the people of the old town for forty "
        "years"
    )
    response = "She studied at the University of Sligo and taught music near the harbour"
    options = [life, "He was a pilot"]
    assert len(life) >= 200
    assert nearest_option(response, options) == 1
    without = [SequenceMatcher(None, response, option, autojunk=False).ratio() for option in options]
    assert without[0] > without[1]


def test_a_long_copy_with_one_more_character_may_be_far_apart():
    """So containment is no shortcut: where every character is frequent, difflib finds nothing to anchor a match on."""
    assert SequenceMatcher(None, "x" + "ab" * 100, "ab" * 100).ratio() == 0
    assert nearest_option("x" + "ab" * 100, ["ab" * 100, "ba"]) == 1


# ---- the same winner, always --------------------------------------------------------------------------------------

repeated = st.text("ab ", max_size=12)
words = st.lists(st.sampled_from(["ab", "ba", "pilot", "Pilot", "ö", "北京", "🎻", "é", "."]), max_size=5).map(" ".join)
anything = st.text(max_size=20)
long_text = st.builds(  # 200 characters or more, of few and of many different characters
    lambda alphabet, length, draws: "".join(draws.choice(alphabet) for _ in range(length)),
    st.sampled_from(["ab", "abc ", "etaoin shrdlu", "abcdefghijklmnopqrstuvwxyz ,.", "北京市东城区 "]),
    st.integers(195, 260),
    st.randoms(use_true_random=False),
)


@pytest.mark.parametrize(
    "texts",
    [repeated, words, anything, long_text, st.one_of(repeated, words, anything, long_text)],
    ids=["repeated letters", "words", "unicode", "long", "mixed"],
)
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_winner_is_difflibs(texts, data):
    """A changed winner would change a verdict, and with it a published number."""
    options = data.draw(st.lists(texts, min_size=1, max_size=4))
    near = st.sampled_from(options).map(lambda option: option[: 1 + len(option) // 2])
    response = data.draw(st.one_of(texts, st.sampled_from(options), near))
    assert nearest_option(response, options) == plain_difflib(response, options)


@settings(max_examples=300, deadline=None)
@given(st.one_of(repeated, words, anything, long_text), st.one_of(repeated, words, anything, long_text))
def test_bound_is_never_exceeded(response, option):
    """After rounding too: a bound below the ratio would skip a winner."""
    assert SequenceMatcher(None, response, option).ratio() <= upper_bound(response, option)


def test_options_that_cannot_win_are_not_measured(monkeypatch):
    """The bound is there to save work: a sentence that names its option needs one measurement."""
    measured = []

    class Counting(SequenceMatcher):
        def ratio(self):
            measured.append(self.b)
            return super().ratio()

    monkeypatch.setattr(nearest, "SequenceMatcher", Counting)
    assert nearest_option("She is a sound engineer", JOBS) == 1
    assert measured == ["Sound Engineer"]
