"""Which outputs are a backend's note and not an answer."""

from __future__ import annotations

import pytest

from umu_tasks.scoring.failures import is_failed


@pytest.mark.parametrize(
    "output",
    [
        "[LMMS_EVAL_REQUEST_FAILED after 5 retries] Error code: 429 - rate limit",
        " [LMMS_EVAL_REQUEST_FAILED after 3 retries] ",
        "[LMMS_EVAL_BUDGET_EXCEEDED]",
        "[SAFETY_BLOCKED:finish_reason is 2]",
        "[GENERATION_FAILED] out of memory",
        "[ERROR] Unknown",
        "Batch failed",
        "Video [<PIL.Image.Image>] generate failed, check the source",
        "Video face.png can not load, check the source",
    ],
)
def test_notes_of_backends(output):
    """Scored as answers they would be wrong ones, and a dead server would read as perfect forgetting."""
    assert is_failed(output)


@pytest.mark.parametrize(
    "output",
    [
        "",
        "Pilot",
        "The batch failed",
        "[Blank]",
        "Batch failed to rise, said the baker",
        "Video artist",
        "Error analyst",
    ],
)
def test_answers(output):
    """An empty output is counted as such, and a model's odd answer is an answer."""
    assert not is_failed(output)


def test_markers_are_those_of_the_installed_lmms_eval():
    """A renamed marker would no longer be seen; this reads the backends' source."""
    from importlib.util import find_spec
    from pathlib import Path

    (folder,) = find_spec("lmms_eval.models").submodule_search_locations
    for file, text in (("chat/openai.py", "[LMMS_EVAL_REQUEST_FAILED after"), ("chat/gemini.py", "[SAFETY_BLOCKED:")):
        assert text in (Path(folder) / file).read_text(encoding="utf-8")
        assert is_failed(text + " 3]")
