"""What a results file says about how answers were decoded."""

from __future__ import annotations

import pytest

from umu_tasks.results.provenance import _decoding


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"max_new_tokens": 50, "do_sample": False, "temperature": 0}, "greedy"),
        ({"temperature": 0.7, "top_p": 0.9}, "sampled temperature=0.7 top_p=0.9"),
        ({"temperature": 0, "num_beams": 4}, "greedy num_beams=4"),
        ({}, "greedy"),
    ],
)
def test_decoding(settings, told):
    """A sampled run must not be compared with a greedy one unnoticed."""
    results = {"configs": {"umu_real_cls": {"generation_kwargs": settings}}}
    assert _decoding(results, "umu_real_cls") == told
