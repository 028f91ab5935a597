"""A server on 127.0.0.1 that speaks the chat-completions API, and answers from a table instead of a model."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from PIL import Image


def looks_like(image: Image.Image) -> str:
    """A portrait's identity: its pixels, however it was sent."""
    return hashlib.sha256(image.convert("RGB").tobytes()).hexdigest()


class ChatServer:
    """Runs in a thread while used as a context.

    Args:
        answer: (texts, portraits) of the one user message -> the model's output; an exception becomes an error 500.

    Attributes:
        requests: what was sent, in order of arrival.
    """

    def __init__(self, answer: Callable[[list[str], list[str]], str]) -> None:
        self.requests: list[dict[str, Any]] = []
        requests = self.requests

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                requests.append({"path": self.path, **request})
                try:
                    self.reply(200, completion(answer(*parts(request))))
                except Exception as error:  # noqa: BLE001 - the client is to see any
                    self.reply(500, {"error": {"message": f"{type(error).__name__}: {error}"}})

            def reply(self, status: int, body: dict[str, Any]) -> None:
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args: Any) -> None:
                """Nothing on the test's output."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"

    def __enter__(self) -> ChatServer:
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self.server.shutdown()
        self.server.server_close()


def parts(request: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return the texts and the portraits (as `looks_like` tells them) of a request's one user message."""
    (message,) = request["messages"]
    assert message["role"] == "user"
    texts = [part["text"] for part in message["content"] if part["type"] == "text"]
    images = [part["image_url"]["url"] for part in message["content"] if part["type"] == "image_url"]
    return texts, [looks_like(_decoded(url)) for url in images]


def _decoded(url: str) -> Image.Image:
    head, _, data = url.partition(",")
    assert head.startswith("data:image/")
    return Image.open(io.BytesIO(base64.b64decode(data)))


def completion(text: str) -> dict[str, Any]:
    """Return a response as the API has it."""
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 0,
        "model": "table",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12},
    }
