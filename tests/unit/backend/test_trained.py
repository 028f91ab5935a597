"""Which prompt style a checkpoint was trained with."""

from __future__ import annotations

import json

from umu_tasks.backend.trained import trained_style


def write(file, **content):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content))


def test_record_of_a_finished_run(tmp_path):
    """A model trained with the chat template and asked in the published frame looks as if it had forgotten."""
    write(tmp_path / "new" / "training_record.json", prompt_style="chat", settings={"prompt": None})
    write(tmp_path / "old" / "training_record.json", settings={"prompt": "chat"})
    write(tmp_path / "unset" / "training_record.json", settings={"prompt": None})
    assert trained_style(str(tmp_path / "new")) == trained_style(str(tmp_path / "old")) == "chat"
    assert trained_style(str(tmp_path / "unset")) is None
    assert trained_style(None, str(tmp_path), "someone/vlm") is None


def test_adapter_comes_before_its_base(tmp_path):
    write(tmp_path / "base" / "training_record.json", prompt_style="published")
    write(tmp_path / "lora" / "training_record.json", prompt_style="chat")
    assert trained_style(str(tmp_path / "lora"), str(tmp_path / "base")) == "chat"
    assert trained_style(None, str(tmp_path / "base")) == "published"


def test_checkpoint_of_a_run_that_goes_on(tmp_path):
    """Intermediate checkpoints are scored to choose one; only a folder that is one asks its parent."""
    write(tmp_path / "started_with.json", prompt="chat", method="npo")
    (tmp_path / "checkpoint-40").mkdir()
    (tmp_path / "other").mkdir()
    assert trained_style(str(tmp_path / "checkpoint-40")) == "chat"
    assert trained_style(str(tmp_path / "other")) is None


def test_files_that_are_not_ours(tmp_path):
    (tmp_path / "training_record.json").write_text("no JSON")
    write(tmp_path / "a" / "training_record.json", settings={"prompt": "alpaca"})
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "training_record.json").write_text("[1]")
    assert [trained_style(str(tmp_path / name)) for name in ("", "a", "b")] == [None] * 3
