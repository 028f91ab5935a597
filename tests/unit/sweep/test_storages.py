"""The journal after crashes, and storages as messages name them."""

from __future__ import annotations

from pathlib import Path

import pytest
from optuna.exceptions import StorageInternalError

from umu_tasks.benchmarks.errors import DataError
from umu_trainers.sweep import storages
from umu_trainers.sweep.storages import mend_journal, shown_storage, sqlite_file

FIRST, SECOND = b'{"op_code":0,"study_name":"s"}\n', b'{"op_code":4,"user_attrs":{"slot":1}}\n'


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "journal.log"


@pytest.mark.parametrize(
    ("found", "kept"),
    [
        (FIRST + SECOND, FIRST + SECOND),
        (FIRST + SECOND[:9], FIRST),  # the machine died while it wrote
        (FIRST + SECOND[:-1], FIRST),  # all but the end of the line: nobody was told that it is written
        (FIRST + SECOND[:20] + SECOND, FIRST + SECOND),  # the disk was full, later another process wrote on
        (FIRST + b"\x00" * 40 + SECOND, FIRST + SECOND),  # some file systems leave zeros after a power cut
        (FIRST + b"\x00" * 40, FIRST),
        (b"", b""),
    ],
)
def test_half_a_line_is_taken_out(journal, found, kept) -> None:
    """A sweep of days must not be lost to half a line that nobody needs."""
    journal.write_bytes(found)
    mend_journal(journal)
    assert journal.read_bytes() == kept
    assert [one.name for one in journal.parent.iterdir()] == ["journal.log"]


@pytest.mark.parametrize("content", [b"hello\n", FIRST + b"\x00\n", b"{}\n", FIRST + SECOND[:20] + b"\n"])
def test_another_file_is_named_and_left_alone(journal, content) -> None:
    journal.write_bytes(content)
    with pytest.raises(DataError, match=r"journal\.log, line \d: no record of a sweep"):
        mend_journal(journal)
    assert journal.read_bytes() == content


def test_passwords_are_not_shown() -> None:
    """The storage is named in sweep.json, which people publish."""
    assert shown_storage("postgresql+psycopg2://ada:p:w@host:5432/s") == "postgresql+psycopg2://ada:***@host:5432/s"
    assert shown_storage("sqlite:////a/b.db") == "sqlite:////a/b.db"
    assert shown_storage("out/journal.log") == "out/journal.log"


def test_sqlite_files_are_found() -> None:
    assert sqlite_file("sqlite+pysqlite:///a b.db?timeout=9") == Path("a b.db")
    assert sqlite_file("sqlite://") is None
    assert sqlite_file("journal.log") is None


def test_a_database_that_comes_back_is_waited_for(monkeypatch) -> None:
    """A restart of the database, or a table somebody holds for some seconds, must not end a training of hours."""
    monkeypatch.setattr(storages.time, "sleep", lambda _: None)
    answers = [StorageInternalError("locked"), StorageInternalError("locked"), None]

    def write() -> str:
        if (answer := answers.pop(0)) is not None:
            raise answer
        return "written"

    assert storages.patiently(write) == "written"
    answers += [StorageInternalError("gone")] * 20
    with pytest.raises(StorageInternalError):
        storages.patiently(write)
