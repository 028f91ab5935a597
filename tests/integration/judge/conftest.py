"""A judge that speaks the API over HTTP on this machine, and misbehaves as told."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

Reply = Callable[["FakeJudge", dict[str, Any], str], Any]


class FakeJudge:
    """A real HTTP server in a thread. `reply`, a function of (judge, body, answer to grade), decides what it replies.

    It returns the text of the completion, or (status, headers, body) for anything else, or None to hang up.
    """

    def __init__(self) -> None:
        self.reply: Reply = lambda judge, body, answer: grade(7)
        self.asked: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.times: list[float] = []
        self.most_at_once = 0
        self._now = 0
        self._lock = threading.Lock()
        judge = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                judge.serve(self)

            def log_message(self, *_: Any) -> None:
                """Quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/v1"

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        answer = body["messages"][-1]["content"].rpartition("<<<\n")[2].removesuffix("\n>>>")
        with self._lock:
            self.asked.append(answer)
            self.bodies.append(body)
            self.headers.append(dict(handler.headers))
            self.times.append(time.monotonic())
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
        try:
            self.send(handler, self.reply(self, body, answer))
        except (BrokenPipeError, ConnectionResetError):
            pass  # the client has given up
        finally:
            with self._lock:
                self._now -= 1

    def send(self, handler: BaseHTTPRequestHandler, reply: Any) -> None:
        assert handler.path == "/v1/chat/completions"
        if reply is None:
            handler.close_connection = True
            return
        status, headers, content = (200, {}, completion(reply)) if isinstance(reply, str) else reply
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(content)

    def times_asked(self, answer: str) -> int:
        return self.asked.count(answer)


def grade(score: float, reason: str = "as told") -> str:
    return json.dumps({"score": score, "reason": reason})


def completion(text: str) -> bytes:
    return json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]}).encode()


@pytest.fixture
def judge() -> Iterator[FakeJudge]:
    fake = FakeJudge()
    yield fake
    fake.server.shutdown()
    fake.server.server_close()


def record(person: int, output: str, modality: str = "unimodal", **more: Any) -> dict[str, Any]:
    return {
        "profile_id": f"{person:03d}", "task": "gen", "key": "life", "modality": modality, "split": "forget05",
        "question": f"Who is {person}?", "gold": f"Person {person} is a pilot.", "output": output, "parsed": output,
        "failed": 0, **more,
    }  # fmt: skip


def write_samples(
    folder: Path, records: list[dict[str, Any]], task: str = "mllmu_forget05_gen", stamp: str = "20260102_030405"
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{stamp}_samples_{task}.jsonl"
    path.write_text("".join(json.dumps({"doc_id": i, "record": one}) + "\n" for i, one in enumerate(records)))
    return path


@pytest.fixture
def environment(judge: FakeJudge, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The judge set in the environment, an empty cache, and a result folder."""
    monkeypatch.setenv("UMU_JUDGE_URL", judge.url)
    monkeypatch.setenv("UMU_JUDGE_MODEL", "judge-1")
    monkeypatch.setenv("UMU_JUDGE_API_KEY", "sk-secret-0815")
    monkeypatch.setenv("UMU_CACHE", str(tmp_path / "cache"))
    return tmp_path / "results" / "model"
