"""Cells that hold a whole structure as text: JSON in some copies of a data set, a Python literal in others."""

from __future__ import annotations

import ast
import json
from collections.abc import Hashable, Iterable, Mapping

from umu_tasks.benchmarks.errors import DataError

_LITERAL_ERRORS = (ValueError, SyntaxError, TypeError, MemoryError, RecursionError)


def parse_cell(cell: object, *, file: str, row_id: str, column: str) -> object:
    """Return the structure a text cell holds; a cell that is a structure already is returned as it is.

    JSON is tried first, then a Python literal (``ast.literal_eval``: it builds values and runs nothing).

    Raises:
        DataError: the cell is empty, or is text that is neither JSON nor a Python literal.
    """
    if isinstance(cell, Mapping | list):
        return cell
    where = {"file": file, "row_id": row_id, "column": column, "kind": "cell does not parse"}
    if not isinstance(cell, str) or not cell.strip():
        raise DataError(
            f"empty cell ({cell!r}); expected JSON or a Python literal. Fill it in, or drop the row.", **where
        )
    try:
        return json.loads(cell, object_pairs_hook=unique_keys)
    except (json.JSONDecodeError, RecursionError):
        pass
    except RepeatedKey as error:
        raise DataError(str(error), **where) from error
    try:
        tree = ast.parse(cell.strip(), mode="eval")
        _require_unique(tree)
        return ast.literal_eval(tree)
    except RepeatedKey as error:
        raise DataError(str(error), **where) from error
    except _LITERAL_ERRORS as error:
        raise DataError(
            f"neither JSON nor a Python literal ({_reason(error)}); the cell starts {_excerpt(cell)}. "
            "Repair the cell, or drop the row.",
            **where,
        ) from error


class RepeatedKey(Exception):
    """A mapping names one key twice; the first entry, a question perhaps, would be lost without a word."""

    def __init__(self, key: object) -> None:
        super().__init__(f"the key {key!r} stands twice in one mapping. Give the second entry a key of its own.")


def unique_keys(pairs: Iterable[tuple[Hashable, object]]) -> dict[Hashable, object]:
    """Return the pairs as a dictionary; serves as `object_pairs_hook` of `json.loads`.

    Raises:
        RepeatedKey: two pairs have one key.
    """
    found: dict[Hashable, object] = {}
    for key, value in pairs:
        if key in found:
            raise RepeatedKey(key)
        found[key] = value
    return found


def _require_unique(tree: ast.AST) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            unique_keys((key.value, None) for key in node.keys if isinstance(key, ast.Constant))


def _reason(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return f"{error.msg} at line {error.lineno}, character {error.offset}"
    # "malformed node or string on line 1: <ast.Call object at 0x7f…>": the address helps nobody.
    return str(error).split(": <ast")[0] or type(error).__name__


def _excerpt(text: str, length: int = 60) -> str:
    return repr(text) if len(text) <= length else f"{text[:length]!r}…"
