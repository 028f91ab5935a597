"""ROUGE as the benchmark uses it: F-measures of `rouge_score` with the stemmer, whole output against whole answer."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

_TYPES = {"rouge1": "rouge_1", "rouge2": "rouge_2", "rougeL": "rouge_l"}


@lru_cache(maxsize=1)
def _scorer() -> Any:
    from rouge_score.rouge_scorer import RougeScorer  # imports nltk: seconds, so only when a generation is scored

    return RougeScorer(list(_TYPES), use_stemmer=True)


def rouge(response: str, gold: str) -> dict[str, float]:
    """Return `rouge_1`, `rouge_2` and `rouge_l` of `response` against `gold`, F-measures in [0, 1].

    All are 0 when either text has no Latin letter or digit, since only these make tokens.

    Source: `rouge_score` 0.1.2, use_stemmer=True, as in the published evaluator.
    """
    scores = _scorer().score(gold, response)  # target first, prediction second
    return {name: float(scores[kind].fmeasure) for kind, name in _TYPES.items()}
