"""What the judge said, on disk, line by line as it comes: a killed run loses nothing, and nothing is judged twice.

    {"key": "9f2c…", "score": 7.0, "reason": "Height missing.", "reply": "{\\"score\\": 7, …}"}

One file for each judge model, shared by all result folders. The key is a hash of what was asked.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from umu_tasks.benchmarks.cache import cache_dir
from umu_tasks.benchmarks.errors import DataError
from umu_tasks.judge.rubric import VERSION, Verdict


def verdict_key(question: str, gold: str, output: str) -> str:
    """Return the key of one answer: the same texts under the same rubric have the same one."""
    return hashlib.sha256(json.dumps([VERSION, question, gold, output]).encode()).hexdigest()


class VerdictCache:
    """The verdicts of one judge model. A context manager: while it is open, no other process may judge with it.

    Args:
        model: the judge model's name.
        url: its endpoint: two hosts may serve different models under one name.
        folder: where the files lie; by default in `umu_tasks.benchmarks.cache`'s folder.
    """

    def __init__(self, model: str, url: str, folder: Path | None = None) -> None:
        name = re.sub(r"[^\w.-]+", "_", model)[:60] or "judge"
        digest = hashlib.sha256(f"{model}\n{url.rstrip('/')}".encode()).hexdigest()[:12]
        self.file = (folder or cache_dir("judge")) / f"{name}-{digest}.jsonl"
        self._known: dict[str, Verdict] = {}
        self._lock = threading.Lock()
        self._process_lock = FileLock(self.file.with_suffix(".lock"))

    def __enter__(self) -> VerdictCache:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._process_lock.acquire(timeout=0)
        except Timeout:
            raise DataError("another `umu judge` is using it. Wait for that one to end.", file=str(self.file)) from None
        self._read()
        return self

    def __exit__(self, *_: object) -> None:
        self._process_lock.release()

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: str) -> Verdict | None:
        """Return what the judge said, None if it was not asked yet."""
        return self._known.get(key)

    def put(self, key: str, verdict: Verdict) -> None:
        """Keep a verdict; it is on disk when this returns."""
        line = {"key": key, "score": verdict.score, "reason": verdict.reason, "reply": verdict.reply}
        with self._lock, self.file.open("ab") as file:
            file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
            self._known[key] = verdict

    def _read(self) -> None:
        """Read all whole lines. A last line that was cut off by a kill is left out and ended, so that the next fits."""
        content = self.file.read_bytes() if self.file.exists() else b""
        for line in content.splitlines():
            value = _parsed(line)
            if value is not None:
                score = value["score"]
                verdict = Verdict(None if score is None else float(score), str(value["reason"]), str(value["reply"]))
                self._known[str(value["key"])] = verdict
        if content and not content.endswith(b"\n"):
            with self.file.open("ab") as file:
                file.write(b"\n")


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) and {"key", "score", "reason", "reply"} <= set(value) else None
