"""`scripts/same_answers.py`: what it counts as another answer."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[3] / "scripts"


@pytest.fixture(scope="module")
def script():
    sys.path.insert(0, str(SCRIPTS))
    spec = importlib.util.spec_from_file_location("same_answers", SCRIPTS / "same_answers.py")
    module = sys.modules["same_answers"] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(SCRIPTS))
    return module


def run(folder, answers):
    """Write a run: (task, output, parsed, right) of each question."""
    (folder / "model").mkdir(parents=True)
    lines = [
        json.dumps(
            {
                "record": {
                    "split": "real", "task": task, "profile_id": str(number), "key": "0", "modality": "unimodal",
                    "output": output, "parsed": parsed, "correct": {"default": right},
                }
            }
        )
        for number, (task, output, parsed, right) in enumerate(answers)
    ]  # fmt: skip
    (folder / "model" / "1_samples_umu_real_cls.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def test_differences_are_counted_apart(script, tmp_path):
    one = [
        ("cls", "Oslo.", "Oslo", 1),
        ("cls", "Bergen", "Bergen", 1),
        ("cloze", "Rome", "Rome", 0),
        ("gen", "A b", "", 0),
    ]
    two = [
        ("cls", "Oslo!", "Oslo", 1),
        ("cls", "Berne", "Berne", 0),
        ("cloze", "Roma", "Roma", 0),
        ("gen", "A c", "", 0),
    ]
    found = script.compare(script.read(run(tmp_path / "1", one)), script.read(run(tmp_path / "2", two)))
    assert found == script.Compared(questions=4, texts=4, short=3, parsed=2, verdicts=1)


def test_other_questions_or_none_are_no_agreement(script, tmp_path):
    one = script.read(run(tmp_path / "1", [("cls", "a", "a", 1)] * 2))
    with pytest.raises(ValueError, match="2 and 1 questions, 1 of them the same"):
        script.compare(one, script.read(run(tmp_path / "2", [("cls", "a", "a", 1)])))
    (tmp_path / "3").mkdir()
    with pytest.raises(ValueError, match="0 and 0 questions"):
        script.compare(script.read(tmp_path / "3"), script.read(tmp_path / "3"))
