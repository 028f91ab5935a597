"""BLEU by hand."""

from __future__ import annotations

import math

import pytest

from umu_tasks.scoring.bleu import bleu

LIFE = "Ada was born in Sligo"


def test_equal_texts_of_four_words_or_more_score_one():
    assert bleu(LIFE, LIFE) == pytest.approx(1.0)


@pytest.mark.parametrize(("response", "gold"), [("", LIFE), ("Pilot", LIFE), (LIFE, ""), ("", "")])
def test_nothing_in_common_is_zero_and_no_error(response, gold):
    """An empty output must not end a run."""
    assert bleu(response, gold) == 0


def test_counts_by_hand():
    """5 of 6 words, 3 of 5 pairs, 1 of 4 triples, 0 (smoothed to 0.1) of 3 fours; as long as the gold."""
    value = bleu("Ada was born near Sligo Ireland", "Ada was born in Sligo Ireland")
    expected = (5 / 6 * 3 / 5 * 1 / 4 * 0.1 / 3) ** 0.25
    assert value == pytest.approx(expected)


def test_short_response_is_penalized():
    """exp(1 - 5/4) for four words against five."""
    assert bleu("Ada was born in", LIFE) == pytest.approx(math.exp(1 - 5 / 4))


def test_tokens_are_what_white_space_separates():
    """Unlike ROUGE: case and punctuation count, and other scripts are words too."""
    assert bleu("ada was born in Sligo.", LIFE) < bleu("Ada was born in Sligo.", LIFE) < 1
    assert bleu("она родилась в городе Слайго", "она родилась в городе Слайго") == pytest.approx(1.0)
