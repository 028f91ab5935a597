"""The parser of the `umu` command: what argparse does, and kind to a misspelled option."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Sequence
from typing import Any


class Parser(argparse.ArgumentParser):
    """Takes `--dry-run` for `--dry_run` and the other way round; a wrong option is an error of its own command.

    argparse passes what a command does not know up to `umu`, whose message then shows neither the command nor its
    options. Commands added below have this class too.
    """

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> tuple[Any, list[str]]:  # type: ignore[override]
        words = list(sys.argv[1:] if args is None else args)
        end = words.index("--") if "--" in words else len(words)
        known, rest = super().parse_known_args([*map(self._as_known, words[:end]), *words[end:]], namespace)
        if unknown := [word.partition("=")[0] for word in rest if word.startswith("-") and word != "--"]:
            self.error(f"no such option: {unknown[0]}.{self._nearest(unknown[0])} `{self.prog} --help` lists all.")
        return known, rest

    def _as_known(self, word: str) -> str:
        """Return an option as this command spells it; any other word as it is."""
        name, has_value, value = word.partition("=")
        if not name.startswith("--") or name in self._option_string_actions:
            return word
        same = [one for one in self._option_string_actions if _plain(one) == _plain(name)]
        return f"{same[0]}{has_value}{value}" if same else word

    def _nearest(self, name: str) -> str:
        near = difflib.get_close_matches(name, list(self._option_string_actions), 1, 0.7)
        if near:
            return f" Did you mean {near[0]}?"
        return " Options stand after their command." if self._subparsers is not None else ""


def _plain(name: str) -> str:
    return name[2:].replace("_", "-").lower()
