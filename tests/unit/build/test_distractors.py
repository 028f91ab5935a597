"""Wrong options."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from umu_tasks.build.distractors import Pool, spellings
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


@pytest.mark.parametrize(
    ("gold", "other"),
    [
        ("Zürich", "Zurich"),
        ("Zürich", "ZU\u0308RICH"),
        ("2 June 1994", "June 2, 1994"),
        ("02/06/1994", "02.06.1994"),
        ("171 cm", "171cm"),
        ("Co-founder", "Cofounder"),
        ("New York", "New-York"),
        ("Lima, Peru", "Peru (Lima)"),
        ("chess & reading", "Reading and chess"),
    ],
)
def test_another_spelling_of_the_gold_is_no_wrong_option(gold, other):
    """Several hands type a table: with "Zurich" an option beside "Zürich" a right answer would count as wrong."""
    values = [gold, other, "C", "C#", "C++"]
    for right in (gold, other):
        assert set(Pool.of(values).draw(right, random.Random(0))) == {"C", "C#", "C++"}
    assert len({gold, other} & set(Pool.of(values).values)) == 1  # nor do both stand among the wrong ones


def test_values_that_only_look_alike_stay_apart():
    values = ["1/12/1990", "11/2/1990", "1.71 m", "171 m", "5 %", "5", "-5", "A", "A+"]
    assert len(Pool.of(values).values) == len(values)


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
            if not spellings(value) & spellings(gold)
            and not contains_words(fold(value), fold(gold))
            and not contains_words(fold(gold), fold(value))
        ]
        assert (wrong is None) == (len(possible) < 3)
        if wrong is not None:
            assert set(wrong) <= set(possible)
            assert len({normalize(one) for one in (gold, *wrong)}) == 4
