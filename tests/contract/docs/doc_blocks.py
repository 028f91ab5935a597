"""The pages of the documentation, their fenced blocks and the markers before these.

<!-- test: run -->                      executed here, on a CPU and without network, in seconds
<!-- test: run slow -->                 the same in the tests marked slow
<!-- test: needs gpu -->                makes sense on a GPU only (a 7B model, several GPUs)
<!-- test: needs hub -->                needs the hub or another server
<!-- test: covered by tests/FILE.py --> that test runs these commands
<!-- file: PATH -->                     the block is the whole content of that file
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "umu_tasks").rglob("README.md"),
    ]
)
SHELL = ("bash", "sh", "shell", "console")
_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^(?P=indent)```\s*$", re.M | re.S)
_MARKER = re.compile(r"<!-- (?P<kind>test|file): (?P<value>[^>]*?) -->\s*\Z")


@dataclass(frozen=True)
class Block:
    """A fenced block."""

    page: Path
    line: int
    language: str
    text: str
    marker: str | None
    file: str | None

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def is_shell(self) -> bool:
        return self.language in SHELL


@cache
def blocks_of(page: Path) -> tuple[Block, ...]:
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _FENCE.finditer(text):
        before = _MARKER.search(text[: match.start()].rstrip() + "\n")
        values = {before["kind"]: before["value"]} if before else {}
        line = text.count("\n", 0, match.start()) + 1
        found.append(Block(page, line, match["language"], match["text"], values.get("test"), values.get("file")))
    return tuple(found)


def all_blocks() -> list[Block]:
    return [block for page in PAGES for block in blocks_of(page)]


def shell_blocks() -> list[Block]:
    return [block for block in all_blocks() if block.is_shell]


def files_of(page: Path) -> dict[str, str]:
    """Return path -> content of the files a page writes out."""
    return {block.file: block.text for block in blocks_of(page) if block.file}


def prose(page: Path) -> str:
    """Return a page without its fenced blocks."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))
