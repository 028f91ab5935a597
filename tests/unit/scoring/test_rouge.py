"""ROUGE is `rouge_score`'s, stemmer on, answer and gold not swapped."""

from __future__ import annotations

import pytest

from umu_tasks.scoring.rouge import rouge

BAKER = "She works as a baker."


@pytest.mark.parametrize(
    ("response", "gold", "one", "two", "longest"),
    [
        (BAKER, BAKER, 1.0, 1.0, 1.0),
        ("she WORKS as a baker", BAKER, 1.0, 1.0, 1.0),  # case and punctuation are dropped
        ("She worked as a baker", BAKER, 1.0, 1.0, 1.0),  # stemmer: worked, works -> work
        ("two bakers", "two baker", 1.0, 1.0, 1.0),  # plural
        ("", BAKER, 0.0, 0.0, 0.0),
        (BAKER, "", 0.0, 0.0, 0.0),
        ("она пекарь", "она пекарь", 0.0, 0.0, 0.0),  # only Latin letters and digits are tokens
        ("a baker", BAKER, 2 * 1.0 * 0.4 / 1.4, 2 * 1.0 * 0.25 / 1.25, 2 * 1.0 * 0.4 / 1.4),  # 2 of 2 and 2 of 5 words
        ("baker a as works she", BAKER, 1.0, 0.0, 0.2),  # all words, no two together, one in order
        # born on 1992 04 17, born 1992 04 17: 4 words of 5 and of 4; 2 pairs of 4 and of 3
        ("born on 1992-04-17", "born 1992-04-17", 8 / 9, 4 / 7, 8 / 9),
    ],
)
def test_known_pairs(response, gold, one, two, longest):
    """Other packages and options give other numbers, which could not be compared with published ones."""
    assert rouge(response, gold) == pytest.approx({"rouge_1": one, "rouge_2": two, "rouge_l": longest}, abs=1e-9)


def test_response_and_gold_are_not_swapped():
    """F is symmetric in precision and recall, so a swap would hide: check which text is which."""
    from rouge_score.rouge_scorer import RougeScorer

    response, gold = "Ada works as a baker in Sligo", "Ada is a baker"
    score = RougeScorer(["rougeL"], use_stemmer=True).score(target=gold, prediction=response)["rougeL"]
    assert score.precision == pytest.approx(3 / 7)
    assert score.recall == pytest.approx(3 / 4)
    assert rouge(response, gold)["rouge_l"] == pytest.approx(score.fmeasure)
