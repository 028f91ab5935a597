"""ROUGE-L as the benchmark uses it: F-measure of `rouge_score` with the stemmer, whole output against whole answer."""

from __future__ import annotations

from functools import lru_cache
from typing import Any


@lru_cache(maxsize=1)
def _scorer() -> Any:
    from rouge_score.rouge_scorer import RougeScorer  # imports nltk: seconds, so only when a generation is scored

    return RougeScorer(["rougeL"], use_stemmer=True)


def rouge_l(response: str, gold: str) -> float:
    """Return the ROUGE-L F-measure in [0, 1] of `response` against `gold`; 0 when either has no Latin letter or digit.

    Source: `rouge_score` 0.1.2, use_stemmer=True, as in the published evaluator.
    """
    return float(_scorer().score(gold, response)["rougeL"].fmeasure)
