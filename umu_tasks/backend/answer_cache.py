"""Keeps finished answers on disk, so that a run that was killed goes on where it stopped.

    DIR/4f0c…/about.json                            whose answers these are: weights, adapter, prompt style …
    DIR/4f0c…/answers-20250101-120000-77-0.jsonl    one line an answer, written as soon as its batch is done

An answer is found again by what decides it, and by nothing else: the content of the weights and of the adapter, prompt
style, dtype and library versions (the folder), prompt text, images and decoding settings (the line's key). Paths, task
names and the place of a question in its task are no part of it. Sampled answers are not kept.

Each process appends to a file of its own and reads those of all others, so runs may share a folder and may go on with
another number of processes. A line that a kill cut off is skipped; its question is asked again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from umu_tasks.backend.generation import Answer, GenerationSettings

if TYPE_CHECKING:
    from PIL.Image import Image

logger = logging.getLogger(__name__)

_FORMAT = 1  # part of every key: raise it when the same key would come to mean something else


class AnswerCache:
    """The answers of one model.

    Args:
        folder: where the answers of all models are kept.
        model: what the answers depend on besides the question; JSON values. Two models with equal values share answers.
        rank: this process's number, for the name of its file.

    Raises:
        OSError: the folder can't be written.
    """

    def __init__(self, folder: Path, model: Mapping[str, Any], *, rank: int = 0) -> None:
        about = json.dumps({"format": _FORMAT, **model}, indent=2, sort_keys=True)
        self.folder = folder / hashlib.sha256(about.encode()).hexdigest()[:32]
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / f"about.json.{rank}").write_text(about + "\n", encoding="utf-8")
        (self.folder / f"about.json.{rank}").replace(self.folder / "about.json")
        started = time.strftime("%Y%m%d-%H%M%S")
        self._file = self.folder / f"answers-{started}-{os.getpid()}-{rank}.jsonl"
        self._answers = {key: answer for file in self.folder.glob("answers-*.jsonl") for key, answer in _read(file)}
        self.found = 0

    def __len__(self) -> int:
        return len(self._answers)

    def get(self, key: str | None) -> Answer | None:
        """Return a kept answer, None where there is none or `key` is None."""
        answer = None if key is None else self._answers.get(key)
        self.found += answer is not None
        return answer

    def put(self, answers: Mapping[str | None, Answer]) -> None:
        """Keep the answers of a batch, but those under None. Once this returns, killing the process loses none."""
        new = {key: answer for key, answer in answers.items() if key is not None and key not in self._answers}
        if not new:
            return
        self._answers |= new
        lines = [json.dumps({"key": key, **answer._asdict()}, ensure_ascii=False) for key, answer in new.items()]
        with self._file.open("a", encoding="utf-8") as file:
            file.write("".join(f"{line}\n" for line in lines))


def question_key(prompt: str, images: Sequence[Image], settings: GenerationSettings) -> str | None:
    """Return what a question is kept under; None for a sampled answer, of which there is not one but many."""
    if settings.temperature > 0:
        return None
    parts = [prompt, json.dumps(asdict(settings), sort_keys=True), *map(_image_hash, images)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _image_hash(image: Image) -> str:
    head = f"{image.mode} {image.size}".encode()
    return hashlib.sha256(head + image.tobytes()).hexdigest()


def _read(file: Path) -> Iterator[tuple[str, Answer]]:
    skipped = 0
    with file.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                values = json.loads(line)
                yield values.pop("key"), Answer(**values)
            except (ValueError, KeyError, TypeError, AttributeError):
                skipped += 1
    if skipped:
        logger.info("%s: skipped %d line(s) that are not complete; their questions are asked again.", file, skipped)
