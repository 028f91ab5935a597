"""What went wrong in a run of several processes, read from what it wrote to stderr.

The lines of interest stand between others: each process's traceback (marked `[rank1]:` by torch), the complaints of
the processes that lost their partner, the launcher's own traceback and its table of exit codes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

LONGEST = 2000  # characters of a fault: the message of a failed recomputation lists tensors
_RANK = re.compile(r"^\[rank(\d+)\]:\s?")
_START = "Traceback (most recent call last):"
_RAISED = re.compile(
    r"^(\w+\.)*[A-Z_]\w*(:|$)"
)  # the line after the frames: `torch.utils.checkpoint.CheckpointError: …`
_LOG = re.compile(r"^[A-Z]\d{4} |^={5,}|^-{5,}|^\[\d{4}-\d\d-\d\d")  # lines of torch's launcher and of DeepSpeed
_LINKS = ("The above exception was", "During handling of the above")
_LAUNCHER = ("ChildFailedError", "CalledProcessError")
# What a process says when another one is gone: a consequence, not a cause.
_LOST_PARTNER = ("DistBackendError", "DistNetworkError", "Connection closed by peer", "Connection reset by peer")
_SIGNAL = re.compile(r"traceback : (Signal \d+ \((?!SIGTERM)\w+\))")


@dataclass
class Raised:
    """An exception in a process's traceback; `rank` is empty where the process did not say which it is."""

    rank: str
    lines: list[str] = field(default_factory=list)

    @property
    def is_launchers(self) -> bool:
        return any(name in self.lines[0].partition(":")[0] for name in _LAUNCHER)

    @property
    def is_consequence(self) -> bool:
        return any(name in "\n".join(self.lines) for name in _LOST_PARTNER)

    def __str__(self) -> str:
        text = "\n".join(self.lines).strip()[:LONGEST]
        return f"[rank {self.rank}] {text}" if self.rank else text


def fault(stderr: str) -> str:
    """Return the exception or message that ended a run: those of the process that failed on its own, in order.

    An exception that another one followed in the same process stands before it.
    """
    lines = [line for line in stderr.splitlines() if line.strip()]
    if own := [line for line in lines if line.startswith(("error:", "stopped:"))]:
        return own[0]
    found = [one for one in exceptions(lines) if not one.is_launchers]
    causes = [one for one in found if not one.is_consequence] or found
    if causes:
        first = [one for one in causes if one.rank == causes[0].rank]
        return "\n".join(dict.fromkeys(map(str, first)))
    if signal := _SIGNAL.search(stderr):
        return f"a process was ended by {signal[1]}"
    said = [line for line in lines if not _LOG.match(line)]
    return said[-1] if said else "nothing was written to stderr"


def exceptions(lines: Iterable[str]) -> list[Raised]:
    """Return the exceptions of all tracebacks, in the order of their last lines."""
    found: list[Raised] = []
    inside: set[str] = set()  # processes whose traceback has begun and not yet named its exception
    current: Raised | None = None
    for line in lines:
        mark = _RANK.match(line)
        rank, text = (mark[1], line[mark.end() :]) if mark else ("", line)
        if text.startswith(_START):
            inside.add(rank)
            current = None
        elif rank in inside and _RAISED.match(text):
            inside.remove(rank)
            current = Raised(rank, [text])
            found.append(current)
        elif current is not None and rank == current.rank and not _LOG.match(text) and not text.startswith(_LINKS):
            current.lines.append(text)
        else:
            current = None
    return found
