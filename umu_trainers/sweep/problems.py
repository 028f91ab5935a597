"""A sweep's config file, as far as messages go: every error names the file and the key."""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from umu_tasks.benchmarks.cells import RepeatedKey
from umu_tasks.benchmarks.errors import DataError
from umu_tasks.unique_yaml import load_yaml
from umu_trainers.early import what_is_there


@dataclass(frozen=True)
class ConfigFile:
    """The file whose keys are read."""

    path: Path

    def problem(self, key: str, text: str) -> DataError:
        """Return the error of a key."""
        return DataError(f"{self.path}, {key}: {text}")

    def load(self) -> dict[str, Any]:
        """Return what the file holds.

        Raises:
            DataError: there is no such file, it is not YAML, or no mapping.
        """
        if not self.path.is_file():
            raise DataError(f"{self.path}: no such file. {what_is_there(self.path)}")
        try:
            found = load_yaml(self.path.read_text(encoding="utf-8"))
        except RepeatedKey as error:
            raise DataError(f"{self.path}: {error}") from error
        except UnicodeDecodeError as error:
            raise DataError(f"{self.path}: not UTF-8 text ({error}). Save it as UTF-8.") from error
        except yaml.YAMLError as error:
            raise DataError(f"{self.path}: not valid YAML. {' '.join(str(error).split())}") from error
        if not isinstance(found, dict):
            raise DataError(f"{self.path}: keys with values are expected, found {found!r}.")
        return found

    def known_keys(self, key: str, found: Any, known: Collection[str]) -> Mapping[str, Any]:
        """Return a mapping whose keys are all known.

        Raises:
            DataError: it is no mapping, or has a key that is not known; names the nearest one.
        """
        for one in self.mapping(key, found):
            if one not in known:
                where = f"{key}.{one}" if key else str(one)
                raise self.problem(where, f"no such key.{nearest(str(one), known)} Known: {', '.join(known)}.")
        return found

    def mapping(self, key: str, found: Any) -> Mapping[Any, Any]:
        if not isinstance(found, Mapping):
            raise self.problem(key, f"keys with values are expected, found {found!r}.")
        return found

    def text(self, key: str, value: Any) -> str:
        """Return a text, a number as it stands."""
        if isinstance(value, bool) or not isinstance(value, str | int | float) or not str(value).strip():
            raise self.problem(key, f"a text is expected, found {value!r}.")
        return str(value)

    def number(self, key: str, value: Any) -> float:
        """Return a number, whole ones as int; YAML reads ``5e-5`` as text, since it has no dot."""
        if isinstance(value, str):
            try:
                value = float(value)
            except ValueError:
                value = None
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise self.problem(key, "a number is expected.")
        return value

    def share(self, key: str, value: Any) -> float:
        number = self.number(key, value)
        if not 0 <= number <= 1:
            raise self.problem(key, f"a fraction from 0 to 1 is expected, found {number}.")
        return number

    def whole(self, key: str, value: Any, *, at_least: int = 1) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < at_least:
            raise self.problem(key, f"a whole number of at least {at_least} is expected, found {value!r}.")
        return value

    def truth(self, key: str, value: Any) -> bool:
        if not isinstance(value, bool):
            raise self.problem(key, f"true or false is expected, found {value!r}.")
        return value

    def choice(self, key: str, value: Any, choices: Collection[str]) -> str:
        if value not in choices:
            raise self.problem(key, f"found {value!r}. Choose one of {', '.join(choices)}.")
        return str(value)

    def texts(self, key: str, value: Any) -> tuple[str, ...]:
        """Return a list of texts; a single one may stand without brackets."""
        listed = [value] if isinstance(value, str) else value
        if not isinstance(listed, list) or not listed or not all(isinstance(one, str) for one in listed):
            raise self.problem(key, f"a list of names is expected, found {value!r}.")
        if len(set(listed)) < len(listed):
            raise self.problem(key, f"a name stands there twice: {', '.join(listed)}.")
        return tuple(listed)


def nearest(name: str, known: Collection[str]) -> str:
    """Return a sentence that names the known name most like `name`, empty where none is."""
    close = difflib.get_close_matches(name, known, n=1)
    return f" Did you mean {close[0]}?" if close else ""
