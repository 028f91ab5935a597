"""Run a chain of commands, each once: a step whose result is there and still valid is skipped.

After a command succeeded, a stamp is written that says what it was made from: the command, the content of its input
files, our code, and the stamps of the steps before it. A step runs again when one of these changed, when a file of its
result is gone or changed, or when it never finished; and so do the steps that build on it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, TextIO

from umu_tasks import __version__

_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_POLL_SECONDS = 0.2
_PLAIN_SECONDS = 30.0
"""How often an unattended run (output to a file) says that it is still there."""
_TERMINATE_SECONDS = 15.0
_TAIL_LINES = 15


class StepFailed(RuntimeError):
    """A step's command failed or left no usable result; the message shows the log's end and where the log is."""


@dataclass(frozen=True)
class Step:
    """One command with what it reads and writes.

    Attributes:
        name: short name, also of its log and stamp.
        title: what it does, one line for the user.
        output: folder the command writes; removed before it runs, so that no half-made result is taken for a whole one.
        inputs: files and folders it reads, besides the results of earlier steps.
        after: names of the steps whose results it uses.
        code: our source folders or files it runs; a changed source makes its result stale.
        check: raises ValueError when the result is not usable although the command reported success.
        accepted: exit statuses that count as success.
    """

    name: str
    title: str
    command: tuple[str, ...]
    output: Path | None = None
    inputs: tuple[Path, ...] = ()
    after: tuple[str, ...] = ()
    code: tuple[Path, ...] = ()
    check: Callable[[], None] | None = None
    accepted: frozenset[int] = frozenset({0})


@dataclass
class Runner:
    """Runs steps in order below the folder `root`.

    Attributes:
        environment: variables set for the commands on top of our own environment; None removes one.
        screen: where progress is written.
        verbose: write there what the commands say too, as they say it.
    """

    root: Path
    environment: Mapping[str, str | None] = field(default_factory=dict)
    screen: TextIO = field(default_factory=lambda: sys.stdout)
    verbose: bool = False
    _lock: int = field(default=-1, init=False)

    def run(self, steps: Sequence[Step]) -> None:
        """Run all steps that need it.

        Raises:
            StepFailed: a step failed; later ones were not started.
            KeyboardInterrupt: interrupted; the running command was stopped, finished steps keep their results.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        with _only_one(self.root / ".lock") as self._lock:
            for number, step in enumerate(steps, start=1):
                self._step(step, f"[{number}/{len(steps)}]", number)

    def _step(self, step: Step, label: str, number: int) -> None:
        self._say(f"{label} {step.title}")
        made_from = self._made_from(step)
        reason = self._why_run(step, made_from)
        if reason is None:
            self._say(f"      {step.name}: skipped, the result is there and up to date\n")
            return
        log = self.root / "logs" / f"{number:02d}-{step.name}.log"
        self._say(f"      $ {readable(step.command)}" + (f"\n      ({reason})" if reason else ""))
        seconds = self._execute(step, log)
        stamp = {
            "id": uuid.uuid4().hex,
            "made_from": made_from,
            "result": _listing(step.output),
            "seconds": round(seconds, 1),
            "command": list(step.command),
        }
        _write_whole(self._stamp_path(step.name), json.dumps(stamp, indent=1))
        self._say(f"      {step.name}: done in {clock(seconds)}, log: {log}\n")

    # ---- is the result still valid? -----------------------------------------------------------------------------

    def _made_from(self, step: Step) -> dict[str, str]:
        """Return what the step's result depends on: description -> fingerprint."""
        parts = {"the command": _digest("\0".join(step.command)), "umu-bench's version": __version__}
        # Thread settings decide how fast a command runs, not what it makes.
        variables = {name: one for name, one in self.environment.items() if not name.startswith("OMP_")}
        parts["the environment"] = _digest(json.dumps(variables, sort_keys=True))
        parts |= {f"input {path}": fingerprint(path) for path in step.inputs}
        parts |= {f"umu-bench's code ({path.name})": fingerprint(path, ignored=(".md",)) for path in step.code}
        parts |= {f"the result of step {name}": self._stamp(name).get("id", "") for name in step.after}
        return parts

    def _why_run(self, step: Step, made_from: Mapping[str, str]) -> str | None:
        """Return None when the step's result can be used, else why not ("" for a first run)."""
        stamp = self._stamp(step.name)
        if not stamp:
            return ""
        before: dict[str, str] = stamp.get("made_from", {})
        changed = [part for part in {**made_from, **before} if made_from.get(part) != before.get(part)]
        if changed:
            return f"done again: {changed[0]} changed"
        if stamp.get("result") != _listing(step.output):
            return f"done again: files in {step.output} changed or are gone"
        return None

    def _stamp(self, name: str) -> dict[str, Any]:
        try:
            stamp = json.loads(self._stamp_path(name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return stamp if isinstance(stamp, dict) else {}

    def _stamp_path(self, name: str) -> Path:
        return self.root / ".steps" / f"{name}.json"

    # ---- run a command ------------------------------------------------------------------------------------------

    def _execute(self, step: Step, log: Path) -> float:
        """Run the step's command, output to `log`; returns the seconds it took."""
        self._make_room(step)
        log.parent.mkdir(parents=True, exist_ok=True)
        started = time.monotonic()
        with log.open("wb") as sink:
            sink.write(f"$ {shlex.join(step.command)}\n".encode())
            sink.flush()
            status = self._wait(self._start(step, sink), log, started)
        problem = "" if status in step.accepted else f"ended with status {status}"
        if not problem and step.check is not None:
            try:
                step.check()
            except ValueError as error:
                problem = f"reported success, but: {error}"
        if problem:
            raise StepFailed(f"step {step.name} {problem}. The end of its log {log}:\n\n{tail(log)}")
        return time.monotonic() - started

    def _make_room(self, step: Step) -> None:
        """Remove what an earlier run of the step left; refuse to remove what somebody else put there."""
        begun = self._stamp_path(step.name).with_suffix(".begun")
        if step.output is not None and step.output.exists():
            if not begun.exists():
                raise StepFailed(
                    f"step {step.name} writes to {step.output}, which is there already and was not made by it. "
                    "Move it away, or choose another --out."
                )
            shutil.rmtree(step.output)
        _write_whole(begun, "")
        self._stamp_path(step.name).unlink(missing_ok=True)
        if step.output is not None:
            step.output.parent.mkdir(parents=True, exist_ok=True)

    def _start(self, step: Step, sink: IO[bytes]) -> subprocess.Popen[bytes]:
        variables = {**os.environ, **self.environment}
        environment = {name: value for name, value in variables.items() if value is not None}
        # A session of its own: on Ctrl-C we stop the command and all it started, in one go and only once.
        try:
            return subprocess.Popen(
                step.command,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
                # The command holds the lock too: should we be killed, nobody else starts while it still writes.
                pass_fds=(self._lock,),
            )
        except OSError as error:
            raise StepFailed(f"step {step.name}: {step.command[0]} can't be started ({error}).") from error

    def _wait(self, process: subprocess.Popen[bytes], log: Path, started: float) -> int:
        """Show that the command is alive until it ends; stop it when we are interrupted."""
        with log.open(encoding="utf-8", errors="replace", newline="") as said:
            show = self._show(said) if self.verbose else self._watch(log, started)
            try:
                next(show)
                while (status := process.poll()) is None:
                    next(show)
                    time.sleep(_POLL_SECONDS)
            except BaseException:
                _stop(process)
                raise
            finally:
                show.close()
        return status

    def _show(self, said: TextIO) -> Generator[None, None, None]:
        """Copy to the screen what the log has new, at each step and at the end."""
        try:
            while True:
                self.screen.write(said.read())
                self.screen.flush()
                yield
        finally:
            self._say(said.read())

    def _watch(self, log: Path, started: float) -> Generator[None, None, None]:
        """Show the log's last line: on a terminal at each step, else now and then."""
        is_terminal = self.screen.isatty()
        frame, said = 0, started
        try:
            while True:
                now = time.monotonic()
                if is_terminal:
                    self._draw(f"{_SPINNER[frame % len(_SPINNER)]} {clock(now - started)}  {last_line(log)}")
                    frame += 1
                elif now - said >= _PLAIN_SECONDS:
                    self._say(f"      {clock(now - started)}  {last_line(log)}")
                    said = now
                yield
        finally:
            if is_terminal:
                self._draw("")

    def _draw(self, text: str) -> None:
        """Replace the terminal's current line."""
        width = shutil.get_terminal_size().columns - 7
        self.screen.write(f"\r\x1b[2K{'      ' + text[:width] if text else ''}")
        self.screen.flush()

    def _say(self, text: str) -> None:
        print(text, file=self.screen, flush=True)


# ---- text -------------------------------------------------------------------------------------------------------


def readable(command: Iterable[str]) -> str:
    """Return a command as one can type it in the current folder: paths below it are shown relative to it."""
    here = f"{Path.cwd()}{os.sep}"
    return shlex.join(part.replace(here, "") for part in command)


def clock(seconds: float) -> str:
    """Return a duration as minutes and seconds.

    >>> clock(83.4)
    '1:23'
    """
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def last_line(log: Path) -> str:
    """Return the last line a command wrote; a progress bar rewrites its line with carriage returns."""
    lines = _end_of(log, 4096)
    return lines[-1] if lines else ""


def tail(log: Path) -> str:
    """Return the last lines of a log, indented."""
    return "\n".join(f"    {line}" for line in _end_of(log, 16384)[-_TAIL_LINES:])


def _end_of(log: Path, size: int) -> list[str]:
    with log.open("rb") as stream:
        stream.seek(max(log.stat().st_size - size, 0))
        text = _ANSI.sub("", stream.read().decode("utf-8", errors="replace"))
    return [line.strip() for line in re.split(r"[\r\n]+", text) if line.strip()]


# ---- files ------------------------------------------------------------------------------------------------------


def fingerprint(path: Path, ignored: tuple[str, ...] = ()) -> str:
    """Return a hash of a file's content, or of all files in a folder, those with the ignored endings left out.

    A missing path has a fingerprint too, so that its arrival is a change.
    """
    if path.is_file():
        return _digest(path.read_bytes())
    files = sorted(file for file in path.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    files = [file for file in files if file.suffix not in ignored]
    return _digest("\0".join(f"{file.relative_to(path)} {_digest(file.read_bytes())}" for file in files))


def _listing(folder: Path | None) -> dict[str, list[int]]:
    """Return size and time of change of every file of a result; cheap, since results hold model weights."""
    if folder is None:
        return {}
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): [file.stat().st_size, file.stat().st_mtime_ns] for file in files}


def _digest(content: str | bytes) -> str:
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()[:24]


def _write_whole(path: Path, text: str) -> None:
    """Write a file so that it is there as a whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)


# ---- processes --------------------------------------------------------------------------------------------------


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Stop a command and everything it started: ask first, then kill what is left."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=_TERMINATE_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class _only_one:
    """Holds a lock file, so that two runs don't write into one folder; the system frees it when its holders end."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> int:
        import fcntl

        self.stream = self.path.open("w")
        try:
            fcntl.flock(self.stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.stream.close()
            problem = (
                "another run, or a command that one left behind, is at work in this folder. Wait for it, or end it."
            )
            raise StepFailed(f"{self.path.parent}: {problem}") from error
        return self.stream.fileno()

    def __exit__(self, *_: object) -> None:
        self.stream.close()
