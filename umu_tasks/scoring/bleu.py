"""BLEU as the published evaluator reports it beside ROUGE."""

from __future__ import annotations

from functools import lru_cache
from typing import Any


@lru_cache(maxsize=1)
def _parts() -> tuple[Any, Any]:
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu  # seconds to import

    return sentence_bleu, SmoothingFunction().method1


def bleu(response: str, gold: str) -> float:
    """Return the sentence BLEU in [0, 1] of `response` against `gold`; 0 for an empty response.

    Tokens are what white space separates, up to 4-grams with equal weights, smoothing method 1 of Chen and Cherry 2014
    (a count of 0 becomes 0.1; no match of single words stays 0).

    Source: `nltk.translate.bleu_score`, as in the published evaluator.
    """
    sentence_bleu, smoothing = _parts()
    return float(sentence_bleu([gold.split()], response.split(), smoothing_function=smoothing))
