"""Wrong options."""

import random

from hypothesis import given
from hypothesis import strategies as st

from umu_tasks.build.distractors import Pool
from umu_tasks.scoring.answers import normalize
from umu_tasks.scoring.texts import contains_words, fold

CITIES = ["Lima", "Oslo", "Paris, France", "Rome", "oslo ", "Turin"]


def test_what_may_be_right_too_is_no_wrong_option():
    """ "Paris" against "Paris, France", or "Engineer" against "Sound Engineer", has two right answers."""
    pool = Pool.of(CITIES)
    for seed in range(30):
        wrong = pool.draw("paris", random.Random(seed))
        assert len(wrong) == 3
        assert "Paris, France" not in wrong
        assert len({fold(one) for one in wrong}) == 3
    assert Pool.of(["Engineer", "Baker", "Judge", "Poet"]).draw("Sound Engineer", random.Random(0)) is not None
    assert Pool.of(["Engineer", "Baker", "Judge"]).draw("Sound Engineer", random.Random(0)) is None
    assert Pool.of(["171 cm", "71 cm", "71", "80"]).draw("1", random.Random(0)) is not None


def test_neither_the_order_of_rows_nor_copies_matter():
    one, other = Pool.of(CITIES), Pool.of([*reversed(CITIES), *CITIES])
    assert one == other
    assert one.draw("Rome", random.Random(4)) == other.draw("Rome", random.Random(4))


@given(st.lists(st.text(min_size=1, max_size=6), max_size=12), st.integers(0, 9))
def test_every_draw_is_three_different_wrong_values_or_none(values, seed):
    """An option set in which two options are one text, or the gold stands twice, cannot be scored."""
    pool = Pool.of(values)
    for gold in values:
        wrong = pool.draw(gold, random.Random(seed))
        possible = [
            value
            for value in pool.values
            if normalize(value) != normalize(gold)
            and not contains_words(fold(value), fold(gold))
            and not contains_words(fold(gold), fold(value))
        ]
        assert (wrong is None) == (len(possible) < 3)
        if wrong is not None:
            assert set(wrong) <= set(possible)
            assert len({normalize(one) for one in (gold, *wrong)}) == 4
