"""Tables as people have them: what is read, and what an error says about the rest."""

from pathlib import Path

import pytest

from umu_tasks.benchmarks.errors import DataError
from umu_tasks.build.problems import Problems
from umu_tasks.build.table import Table, column_key, read_table


def read(tmp_path: Path, content: bytes | str, name: str = "people.csv", **options) -> tuple[Table, list[str]]:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    problems = Problems()
    return read_table(path, problems, **options), [str(error) for error in problems.errors]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_what_spreadsheets_write(tmp_path, delimiter, mark):
    """A byte order mark must not become part of the first column's name; Excel writes ; in half of Europe."""
    lines = [["ID", "Full Name", "Job"], ["007", "Zoë Žák", '"Pilot, first\nclass"'], ["", "", ""], ["8", " Al ", ""]]
    table, errors = read(tmp_path, mark + "\r\n".join(delimiter.join(line) for line in lines).encode())
    assert errors == []
    assert table.columns == {"id": "ID", "full_name": "Full Name", "job": "Job"}
    assert [entry.cells for entry in table.entries] == [
        {"id": "007", "full_name": "Zoë Žák", "job": "Pilot, first class"},
        {"id": "8", "full_name": "Al", "job": ""},
    ]
    assert [entry.line for entry in table.entries] == [2, 5]  # a cell over two lines counts as two


def test_a_comma_in_a_semicolon_header_does_not_decide(tmp_path):
    table, _ = read(tmp_path, "id;name;city, country\n1;A;x\n")
    assert list(table.columns) == ["id", "name", "city_country"]


def test_empty_columns_at_the_end_are_left_out(tmp_path):
    table, errors = read(tmp_path, "id,name,,\n1,A,,\n2,B,,,,\n")
    assert (list(table.columns), len(table.entries), errors) == (["id", "name"], 2, [])


def test_json_lines(tmp_path):
    """Numbers keep the digits they were written with; null and NaN are nothing."""
    text = '{"id": 7, "name": "Zo\\u00eb", "height": 1.50}\n\n{"id": "8", "name": "A\\u2028B", "job": null, "age": NaN}'
    table, errors = read(tmp_path, text, "people.jsonl")
    assert errors == []
    assert [(entry.line, entry.cells) for entry in table.entries] == [
        (1, {"id": "7", "name": "Zoë", "height": "1.50", "job": "", "age": ""}),
        (3, {"id": "8", "name": "A B", "height": "", "job": "", "age": ""}),
    ]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("people.xlsx", b"PK", "not a table that can be read. Expected .csv, .tsv or .jsonl"),
        ("people.csv", "id,name\n1,Zoë\n".encode("latin-1"), r"people.csv, line 2: byte 0xeb is not UTF-8"),
        ("people.csv", "id,name\n1,Zoë\n".encode("utf-16"), "is UTF-16 text; expected UTF-8"),
        ("people.csv", "id,Job Title,job_title\n1,a,b\n", "two columns of one name: 'Job Title' and 'job_title'"),
        ("people.csv", "id|name\n1|A\n", r"line 1: one column, 'id\|name'. .* name it with --delimiter"),
        ("people.csv", "", "an empty file"),
        ("people.csv", "id,name,\n1,A,\n2,B,x\n", "column 3 has no name, but line 3 has a cell in it"),
        ("people.csv", "id,name,?\n1,A,x\n", "'\\?' is no column name"),
        ("people.csv", "id,name\n", "no rows"),
        ("people.jsonl", "\n", "no rows"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, name, content, message):
    with pytest.raises(DataError, match=message):
        read(tmp_path, content, name)


def test_a_missing_file(tmp_path):
    with pytest.raises(DataError, match=r"none.csv: cannot be read \(No such file"):
        read_table(tmp_path / "none.csv", Problems())


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("people.csv", "id,name\n1,A\n2,B,C\n", "people.csv, line 3: 3 cells, but 2 column names"),
        ("people.csv", "id,name\n1\n", "people.csv, line 2: 1 cells, but 2 column names"),
        ("people.csv", 'id,name\n1,"A\n2,B\n', "people.csv, line 2: not CSV from here on"),
        ("people.csv", 'id,name\n1,"A"x\n', "people.csv, line 2: not CSV from here on"),
        ("people.csv", "id,name\n1,A\x07\n", r"line 2, column name: a control character ('\x07')"),
        ("people.csv", "id,name\n1,<image>\n", "line 2, column name: holds '<image>'"),
        ("people.csv", "id,name\n1,A ASSISTANT: B\n", "holds 'ASSISTANT:'"),
        ("people.jsonl", '{"id": 1}\n{"id": \n', "people.jsonl, line 2: not JSON (Expecting value at character"),
        ("people.jsonl", '{"id": 1}\n[2]\n', "line 2: expected an object with the person's facts, found '[2]'"),
        ("people.jsonl", '{"id": 1, "id": 2}\n', "line 1: the key 'id' stands twice"),
        ("people.jsonl", '{"id": 1, "job": ["a", "b"]}\n', 'line 1, column job: expected text, a number or null'),
        ("people.jsonl", '{"id": 1, "ok": true}\n', "column ok: expected text, a number or null, found true"),
        ("people.jsonl", '{"id": 1, "job": "x\\ud83d"}\n', r"line 1, column job: half a character ('\ud83d')"),
    ],
)  # fmt: skip
def test_rows_that_cannot_be_used(tmp_path, name, content, message):
    """The user must find the row: file, line and column, and what was expected."""
    _, errors = read(tmp_path, content, name)
    assert len(errors) == 1
    assert message in errors[0]


def test_a_delimiter_of_the_users_own(tmp_path):
    table, _ = read(tmp_path, "id|name\n1|A\n", delimiter="|")
    assert list(table.columns) == ["id", "name"]


def test_column_keys():
    assert [column_key(name) for name in ("Date of Birth", " e-mail ", "Straße", "年齢", "#")] == [
        "date_of_birth", "e_mail", "strasse", "年齢", "",
    ]  # fmt: skip
