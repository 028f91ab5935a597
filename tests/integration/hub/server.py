"""A hub on this machine: answers what `huggingface_hub` asks of small repositories that are folders.

It knows the addresses behind a listing and a download, with the hub's headers: commit, entity tag, size, redirects of
large files to another address, byte ranges, error codes. That is enough, since all on our side of them is the real
code. Faults are settings: a download that breaks off, a repository that is private, a server that is overloaded.

    with Hub() as hub:
        hub.add("datasets", "linbojunzi/UMU-bench", folder)
        … HF_ENDPOINT=hub.url …
        hub.requests
"""

from __future__ import annotations

import hashlib
import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Literal
from urllib.parse import unquote, urlparse

LARGE = {".parquet", ".safetensors"}  # kept apart from the repository, as the hub does
Kind = Literal["datasets", "models"]


@dataclass
class Repository:
    """A folder as a repository with one commit.

    Attributes:
        gate: HTTP status (401, 403) that its files are refused with.
        broken_off: name of a file -> after how many bytes the connection is closed, at each of the next downloads.
    """

    folder: Path
    gate: int | None = None
    broken_off: dict[str, list[int]] = field(default_factory=dict)

    @property
    def commit(self) -> str:
        """Changes with the files."""
        content = [f"{name} {digest(self.folder / name)}" for name in self.names()]
        return hashlib.sha1("\n".join(content).encode(), usedforsecurity=False).hexdigest()

    def names(self) -> list[str]:
        return sorted(one.relative_to(self.folder).as_posix() for one in self.folder.rglob("*") if one.is_file())


@dataclass(frozen=True)
class Asked:
    """One request: method, path, and the byte range it asks for."""

    method: str
    path: str
    range: str | None


class Hub:
    """The server, on a free port of 127.0.0.1, in a thread.

    Attributes:
        requests: what was asked, in order.
        status: if set, every answer is this HTTP status.
    """

    def __init__(self) -> None:
        self.repositories: dict[tuple[str, str], Repository] = {}
        self.requests: list[Asked] = []
        self.status: int | None = None
        self.large: dict[str, tuple[Repository, str]] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": self}))
        port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{port}"
        self.large_url = f"http://localhost:{port}"  # another host, as the hub's store of large files is

    def add(self, kind: Kind, repository_id: str, folder: Path) -> Repository:
        """Serve a folder; files may change later."""
        repository = self.repositories[kind, repository_id] = Repository(folder)
        return repository

    def downloads(self, name: str) -> list[Asked]:
        """Return the requests for the content of files of this name."""
        return [one for one in self.requests if one.method == "GET" and one.path.endswith(name)]

    def __enter__(self) -> Hub:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None):
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = unquote(urlparse(self.path).path)
        self.hub.requests.append(Asked(self.command, path, self.headers.get("Range")))
        parts = path.strip("/").split("/")
        if self.hub.status is not None:
            self.send(self.hub.status)
        elif parts[0] == "large":
            self.send_bytes(*self.hub.large[path])
        elif parts[0] == "api":
            self.answer_api(parts[1], "/".join(parts[2:4]), parts[4:])
        else:
            kind = parts.pop(0) if parts[0] == "datasets" else "models"
            self.resolve(kind, "/".join(parts[:2]), parts[2:])

    def answer_api(self, kind: str, name: str, rest: list[str]) -> None:
        repository = self.repository(kind, name)
        if repository is None:
            return
        if rest[1:] and rest[1] not in ("main", repository.commit):
            self.send(404, {"X-Error-Code": "RevisionNotFound"})
        elif rest[:1] == ["tree"]:
            self.send_json(listing(repository, "/".join(rest[2:]), recursive="recursive=true" in self.path.lower()))
        else:
            siblings = [{"rfilename": one} for one in repository.names()]
            about = {"id": name, "sha": repository.commit, "private": False, "tags": [], "downloads": 0, "likes": 0}
            self.send_json({**about, "gated": "manual" if repository.gate else False, "siblings": siblings})

    def resolve(self, kind: str, name: str, rest: list[str]) -> None:
        repository = self.repository(kind, name)
        if repository is None:
            return
        revision, file = rest[1], "/".join(rest[2:])
        path = repository.folder / file
        commit = {"X-Repo-Commit": repository.commit}
        if repository.gate is not None:
            self.send(repository.gate, {"X-Error-Code": "GatedRepo", "X-Error-Message": "Access is restricted."})
        elif revision not in ("main", repository.commit):
            self.send(404, {"X-Error-Code": "RevisionNotFound"})
        elif not path.is_file():
            self.send(404, {**commit, "X-Error-Code": "EntryNotFound"})
        elif path.suffix in LARGE:
            place = f"/large/{digest(path)}/{path.name}"
            self.hub.large[place] = repository, file
            size = {"X-Linked-Size": str(path.stat().st_size), "X-Linked-ETag": f'"{digest(path)}"'}
            self.send(302, {**commit, **size, "Location": f"{self.hub.large_url}{place}"})
        else:
            self.send_bytes(repository, file, commit)

    def repository(self, kind: str, name: str) -> Repository | None:
        """Return the repository; answer as the hub does if there is none: to strangers it says 401."""
        found = self.hub.repositories.get((kind, name))
        if found is None:
            status = 404 if self.headers.get("Authorization") else 401
            self.send(status, {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"})
        return found

    def send_json(self, value: object) -> None:
        self.send(200, {"Content-Type": "application/json"}, json.dumps(value).encode())

    def send_bytes(self, repository: Repository, name: str, headers: dict[str, str] | None = None) -> None:
        """Send a file, or the part asked for; break off where the repository says so."""
        path = repository.folder / name
        content = path.read_bytes()
        headers = {**(headers or {}), "ETag": f'"{digest(path)}"', "Accept-Ranges": "bytes"}
        start, status = 0, 200
        wanted = self.headers.get("Range")
        if wanted:
            start, status = int(wanted.removeprefix("bytes=").split("-")[0]), 206
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        stops = repository.broken_off.get(name, [])
        stop = stops.pop(0) if stops and self.command == "GET" else None
        self.send(status, headers, content[start:], stop)

    def send(self, status: int, headers: dict[str, str] | None = None, body: bytes = b"", stop: int | None = None):
        self.send_response(status)
        for header, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
            self.send_header(header, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body[:stop])
        if stop is not None:
            self.close_connection = True

    def log_message(self, *_: object) -> None: ...


def listing(repository: Repository, below: str, *, recursive: bool) -> list[dict[str, object]]:
    """Return the lines of a listing, for the files of a folder or for all below it."""
    folder = repository.folder / below
    paths = sorted(folder.rglob("*") if recursive else folder.glob("*"))
    return [entry(path, path.relative_to(repository.folder).as_posix()) for path in paths]


def entry(path: Path, name: str) -> dict[str, object]:
    """Return one line of a listing."""
    if path.is_dir():
        return {"type": "directory", "size": 0, "oid": "0" * 40, "path": name}
    about = {"type": "file", "size": path.stat().st_size, "oid": "0" * 40, "path": name}
    large = {"lfs": {"oid": digest(path), "size": path.stat().st_size, "pointerSize": 130}}
    return {**about, **(large if path.suffix in LARGE else {})}


_digests: dict[tuple[Path, int, int], str] = {}


def digest(path: Path) -> str:
    """Return a file's SHA-256."""
    status = path.stat()
    key = (path, status.st_size, status.st_mtime_ns)
    if key not in _digests:
        _digests[key] = hashlib.sha256(path.read_bytes()).hexdigest()
    return _digests[key]
