"""Outputs that are no answer of the model: what backends write in place of one when a request failed.

Counted as `failed`, since they would read as forgetting. An empty output is not among them; it is counted apart.
"""

from __future__ import annotations

import re

_MARKERS = re.compile(
    r"\[(?:"
    r"LMMS_EVAL_(?:REQUEST_FAILED|BUDGET_EXCEEDED)"  # openai, async_openai, gemini: no retry helped; budget used up
    r"|SAFETY_BLOCKED"  # gemini: the provider withheld the answer
    r"|GENERATION_FAILED|ERROR"  # generation_api and its kin
    r")\b"
    r"|Batch failed$"  # batch_gpt4
    r"|Video .* (?:can not load|generate failed), check the source$"  # oryx, llava_vid: any media
)


def is_failed(output: str) -> bool:
    """Return whether the output is a backend's note that the request failed.

    >>> is_failed("[LMMS_EVAL_REQUEST_FAILED after 5 retries] Error code: 429")
    True
    """
    return _MARKERS.match(output.strip()) is not None
