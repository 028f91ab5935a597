"""One line of `umu doctor`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

State = Literal["ok", "warning", "failed"]
_SIGNS = {"ok": "ok  ", "warning": "warn", "failed": "FAIL"}


@dataclass(frozen=True, slots=True)
class Finding:
    """What was looked at, how it is, and what to do about it.

    Attributes:
        state: `failed` is what keeps scoring or training from working.
        name: what was looked at.
        text: what was found.
        to_do: what to do; empty where nothing is.
    """

    state: State
    name: str
    text: str
    to_do: str = ""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        advice = f"\n{'':24}-> {self.to_do}" if self.to_do else ""
        return f"{_SIGNS[self.state]}  {self.name:17} {self.text}{advice}"
