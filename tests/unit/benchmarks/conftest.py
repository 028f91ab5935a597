"""Raw rows for the tests of the benchmark readers."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
from PIL import Image

Row = dict[str, Any]


def png(color: tuple[int, int, int] = (200, 30, 60), size: int = 8) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (size, size), color).save(buffer, "PNG")
    return buffer.getvalue()


def structures() -> dict[str, Any]:
    """The five text columns of one person, as structures; the row holds their `repr` or JSON."""
    options = {"A": "Baker", "B": "Sound Engineer", "C": "Pilot ", "D": "Pilot"}
    return {
        "MM_QA": {"question": {"0": "What is their job?", "1": "Born where?"}, "answer": {"0": "Pilot", "1": "Sligo"}},
        "UM_QA": {"question": {"0": "What is Zoë O'Brien's job?"}, "answer": {"0": 'the "Pilot"'}},
        "Classify": {
            "unimodal": {"job": {"question": "What is Zoë's job?", "options": options, "answer": "B. Sound Engineer"}},
            "muitimodal": {"job": {"question": "What is their job?", "options": dict(options), "answer": "B"}},
        },
        "Cloze": {
            "unimodal": {
                "height": {"question": "Zoë is [Blank] tall.", "answer": "171 cm "},
                "home": {"question": "Zoë lives in [Blank].", "answer": "St. Ives"},
            },
            "muitimodal": {
                "home": {"question": "They live in [Blank].", "answer": "St. Ives"},
                "height": {"question": "They are [Blank] tall.", "answer": "171 cm"},
            },
        },
        "Generation": {
            "unimodal": {"life": {"question": "Tell me more about Zoë.", "answer": "Zoë is a pilot."}},
            "muitimodal": {"life": {"question": "Tell me more about them.", "answer": "They are a pilot."}},
        },
    }


@pytest.fixture
def parts() -> dict[str, Any]:
    return structures()


@pytest.fixture
def make_row() -> Callable[..., Row]:
    """Return a function that writes structures into a row, by default as Python literals like the published data."""

    def make(parts: dict[str, Any], write: Callable[[Any], str] = repr, profile_id: Any = "017") -> Row:
        cells = {name: write(value) for name, value in parts.items()}
        return {"ID": profile_id, "image": {"bytes": png(), "path": None}, "Biography": "Zoë (1990).", **cells}

    return make
