"""Data sources on disk: copies of the small fixture, whole or damaged."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

FIXTURE = Path(__file__).parents[2] / "fixtures" / "umu_small"
SHARD = "train-00000-of-00001.parquet"
Edit = Callable[[list[dict[str, Any]]], list[dict[str, Any]] | None]


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch) -> None:
    """Nothing is read from or left in the user's cache, and no variable of theirs chooses the data."""
    monkeypatch.setenv("UMU_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.delenv("UMU_DATA", raising=False)
    monkeypatch.delenv("MLLMU_DATA", raising=False)


@pytest.fixture
def umu(tmp_path) -> Path:
    """A copy of the fixture's data folder: forget_5 (2 people), retain_95 (3), real_person (2), full_data (5)."""
    folder = tmp_path / "umu"
    shutil.copytree(FIXTURE / "data", folder)
    return folder


@pytest.fixture
def edit() -> Callable[[Path, Edit], Path]:
    """Return a function that rewrites a split's rows: `edit(folder / "forget_5", lambda rows: rows[:1])`."""

    def apply(folder: Path, change: Edit) -> Path:
        path = folder / SHARD
        table = pq.read_table(path)
        rows = table.to_pylist()
        changed = change(rows)
        rows = rows if changed is None else changed
        names = list(dict.fromkeys(name for row in rows for name in row)) or table.column_names
        known = set(table.column_names)
        schema = pa.schema(
            [table.schema.field(name) if name in known else pa.field(name, pa.string()) for name in names]
        )
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
        return path

    return apply


@pytest.fixture
def edit_cell(edit) -> Callable[..., Path]:
    """Return a function that changes one structure of one row: `edit_cell(folder, "002", "Cloze", change)`."""

    def apply(folder: Path, row_id: str, column: str, change: Callable[[Any], Any]) -> Path:
        import ast

        def change_rows(rows: list[dict[str, Any]]) -> None:
            (row,) = [row for row in rows if row["ID"] == row_id]
            structure = ast.literal_eval(row[column])
            change(structure)
            row[column] = repr(structure)

        return edit(folder, change_rows)

    return apply
