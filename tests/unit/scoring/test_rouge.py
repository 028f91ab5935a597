"""ROUGE-L is `rouge_score`'s, stemmer on, answer and gold not swapped."""

from __future__ import annotations

import pytest

from umu_tasks.scoring.rouge import rouge_l

BAKER = "She works as a baker."


@pytest.mark.parametrize(
    ("response", "gold", "value"),
    [
        (BAKER, BAKER, 1.0),
        ("she WORKS as a baker", BAKER, 1.0),  # case and punctuation are dropped
        ("She worked as a baker", BAKER, 1.0),  # stemmer: worked, works -> work
        ("two bakers", "two baker", 1.0),  # plural
        ("", BAKER, 0.0),
        (BAKER, "", 0.0),
        ("она пекарь", "она пекарь", 0.0),  # only Latin letters and digits are tokens
        ("a baker", BAKER, 2 * 1.0 * 0.4 / 1.4),  # precision 2/2, recall 2/5
        ("baker a as works she", BAKER, 0.2),  # longest common subsequence: one word
        ("born on 1992-04-17", "born 1992-04-17", 2 * 0.8 * 1.0 / 1.8),  # 4 of 5, 4 of 4
    ],
)
def test_known_pairs(response, gold, value):
    assert rouge_l(response, gold) == pytest.approx(value, abs=1e-9)
