"""`umu data check`."""

import argparse
import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from umu_tasks.benchmarks.checks import check_source
from umu_tasks.benchmarks.command import register
from umu_tasks.benchmarks.errors import DataError
from umu_tasks.benchmarks.sources import open_source

FIXTURE = Path(__file__).parents[2] / "fixtures" / "umu_small"
SHARD = "train-00000-of-00001.parquet"


def umu_data(*argv: str) -> int:
    parser = argparse.ArgumentParser()
    register(parser.add_subparsers(required=True))
    arguments = parser.parse_args(["check", *argv])
    return arguments.run(arguments)


def kinds(report, severity) -> dict[str, int]:
    counts: dict[str, int] = {}
    for finding in report.of(severity):
        counts[finding.kind] = counts.get(finding.kind, 0) + 1
    return counts


def test_sound_data(capsys):
    assert umu_data(str(FIXTURE)) == 0
    printed = capsys.readouterr().out
    assert f"{FIXTURE} (folder)" in printed
    table = [line.split() for line in printed.splitlines()[2:7]]
    assert table == [
        ["split", "people", "QA", "mul", "QA", "uni", "cls", "cloze", "gen"],
        ["forget05", "2", "6", "6", "6", "4", "2"],
        ["retain95", "3", "9", "9", "9", "6", "3"],
        ["real", "2", "6", "6", "6", "4", "2"],
        ["full", "5", "15", "15", "15", "10", "5"],
    ]
    assert "cloze golds with a full stop: 10 (forget05 2, retain95 2, real 2, full 4)" in printed
    assert "0 errors, 14 warnings" in printed


def test_json(capsys):
    assert umu_data(str(FIXTURE), "--split", "Full_Set", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert list(report["splits"]) == ["full"]
    assert report["splits"]["full"]["instances"] == {"cls": 15, "cloze": 10, "gen": 5}
    assert (report["errors"], report["ok"]) == (0, True)
    assert {finding["row_id"] for finding in report["findings"]} == {"002", "004"}


def test_every_error_is_listed_in_one_pass(umu, edit, edit_cell, capsys):
    edit_cell(umu / "forget_5", "001", "Cloze", lambda cell: cell["muitimodal"].pop("height"))
    edit_cell(umu / "forget_5", "001", "Classify", lambda cell: cell["unimodal"]["residence"].update(answer="E"))
    edit(umu / "forget_5", lambda rows: rows[1].update(Generation="{oops"))
    edit(umu / "real_person", lambda rows: rows[1].update(image={"bytes": b"no image", "path": None}))
    edit(umu / "real_person", lambda rows: [*rows, rows[0]])
    (umu / "retain_95" / SHARD).write_bytes(b"cut off")
    edit(umu / "full_data", lambda rows: [{k: v for k, v in row.items() if k != "UM_QA"} for row in rows])
    report = check_source(str(umu))
    assert kinds(report, "error") == {
        "missing partner question": 1,
        "answer that names no option": 1,
        "cell does not parse": 1,
        "file cannot be read": 1,
        "missing column": 1,
        "image does not open": 1,
        "duplicate ID": 1,
    }
    assert report.splits["forget05"].people == 2
    assert report.splits["forget05"].instances == {"cls": 5, "cloze": 3, "gen": 1}
    assert umu_data(str(umu)) == 1
    printed = capsys.readouterr().out
    assert "forget_5/train-00000-of-00001.parquet, row ID 001, column Cloze: questions without partner" in printed
    assert "7 errors" in printed


def test_oddities_are_warnings(umu, edit_cell, edit):
    def classify(cell):
        occupation = cell["muitimodal"]["occupation"]  # gold: A. Sound Engineer
        occupation["options"] = {"A": "Electrician", "B": "Sound Engineer", "C": "Plumber", "D": "Engineer"}
        occupation["answer"] = "B"

    def cloze(cell):
        cell["unimodal"]["residence"]["answer"] = " "
        cell["muitimodal"]["residence"]["answer"] = ".NET Developer"

    edit_cell(umu / "real_person", "001", "Cloze", cloze)
    edit_cell(umu / "forget_5", "001", "Classify", classify)
    (umu / "README.md").write_text(
        "---\ndataset_info:\n- config_name: Real_Person_Set\n  splits:\n  - {name: train, num_examples: 153}\n---\n"
    )
    report = check_source(str(umu))
    assert report.ok
    found = kinds(report, "warning")
    assert found["letters differ between modalities"] == 1
    assert found["option sets differ between modalities"] == 1
    assert found["golds differ between the default and the official rule"] == 1
    assert found["empty text"] == 1
    assert found["cloze golds that any output matches"] == 1
    assert found["row count differs from the dataset card"] == 1
    (gold,) = [one for one in report.of("warning") if "official rule" in one.kind and "classification" in one.message]
    assert "multimodal gold 'Sound Engineer', under the official rule 'Electrician'" in gold.message
    assert (gold.split, gold.row_id) == ("forget05", "001")


def test_truncated_copy(umu, edit):
    edit(umu / "forget_5", lambda rows: rows[:1])
    for split in (None, "forget_5", "full_data"):
        (error,) = check_source(str(umu), split=split).of("error")
        assert "together lack ID 002 of full (5)" in error.message
    assert check_source(str(umu), split="real").ok


def test_overlapping_sets(umu, edit):
    shared = pq.read_table(umu / "forget_5" / SHARD).to_pylist()[:1]
    edit(umu / "retain_95", lambda rows: rows + shared)
    (error,) = check_source(str(umu)).of("error")
    assert "forget05 and retain95 overlap: ID 001 in both" in error.message


@pytest.mark.parametrize("make", [lambda path: None, lambda path: path.mkdir(), lambda path: path.touch()])
def test_no_data_is_an_error(tmp_path, make, capsys):
    """A check of nothing must not pass."""
    path = tmp_path / "empty"
    make(path)
    assert umu_data(str(path)) == 1
    printed = capsys.readouterr().out
    assert printed.startswith("error: ")  # no head of a table that is not there
    assert "1 error, 0 warnings" in printed
    assert umu_data(str(path), "--json") == 1
    assert json.loads(capsys.readouterr().out)["ok"] is False


def test_empty_split_is_an_error(umu, edit):
    edit(umu / "real_person", lambda rows: [])
    assert kinds(check_source(str(umu)), "error") == {"empty split": 1}


def test_people_without_questions_are_noticed(umu, edit):
    nothing = "{'unimodal': {}, 'muitimodal': {}}"
    edit(umu / "real_person", lambda rows: [row | {"Cloze": nothing} for row in rows])
    assert "no cloze instances" in check_source(str(umu), split="real").of("warning")[0].message


def test_unknown_split(capsys):
    assert umu_data(str(FIXTURE), "--split", "forget_7") == 1
    assert "'forget_7' is no split of UMU-Bench. Choose one of: forget05" in capsys.readouterr().out


def test_long_lists_are_shortened_in_print_only(umu, edit, capsys):
    edit(umu / "full_data", lambda rows: [row | {"Cloze": "oops"} for row in rows])
    for name in ("forget_5", "retain_95"):
        shutil.rmtree(umu / name)
    assert umu_data(str(umu), "--split", "full", "--examples", "2") == 1
    printed = capsys.readouterr().out
    assert "error: cell does not parse: 5 (full 5)" in printed
    assert "… and 3 more" in printed
    assert len(check_source(str(umu), split="full").of("error")) == 5


def test_the_umu_command_offers_the_check(umu, capsys):
    from umu_tasks.cli import main

    assert main(["data", "check", str(umu), "--split", "full"]) == 0
    assert main(["data", "check", str(umu / "full_data")]) == 1
    assert f"Give the folder above it: {umu}" in capsys.readouterr().out


def test_training_pairs_that_are_missing(umu, edit):
    """A retain set without QA trains on nothing: the counts show it, and so does a warning with the column."""
    empty = "{'question': {}, 'answer': {}}"
    edit(umu / "retain_95", lambda rows: [row | {"UM_QA": empty} for row in rows])
    edit(umu / "forget_5", lambda rows: rows[0].update(MM_QA=empty))
    report = check_source(str(umu))
    assert report.ok
    found = [one for one in report.of("warning") if one.kind == "no training pairs"]
    assert [(one.split, one.column) for one in found] == [("forget05", "MM_QA"), ("retain95", "UM_QA")]
    assert "no multimodal training pairs for 1 of 2 people (ID 001)" in found[0].message
    assert "no unimodal training pairs for all people (ID 003, 004, 005)" in found[1].message


def test_image_marker_in_a_question(umu, edit_cell):
    """A model would look for an image that is not there; in a multimodal question, for a second one."""

    def ask(cell):
        cell["unimodal"]["height"]["question"] = "<image>\nHow tall is Fionnuala McBride?"
        cell["muitimodal"]["height"]["question"] = "How tall is this person? <image>"

    edit_cell(umu / "forget_5", "001", "Cloze", ask)
    edit_cell(umu / "full_data", "001", "UM_QA", lambda cell: cell["question"].update({"0": "Who is <image>?"}))
    report = check_source(str(umu))
    errors = [(one.split, one.row_id, one.column) for one in report.of("error")]
    assert errors == [("forget05", "001", "Cloze"), ("full", "001", "UM_QA")]
    assert "unimodal height: the text holds '<image>', which models read as an image. Take it out." in (
        report.of("error")[0].message
    )
    assert kinds(report, "warning")["image marker in a multimodal question"] == 1
    with pytest.raises(DataError, match=r"row ID 001, column Cloze: unimodal height: the text holds '<image>'"):
        open_source(str(umu)).load("forget05")


def test_one_portrait_for_two_people(umu, edit):
    """Shown it, a model cannot know which of them is meant; the same pixels in another file are the same portrait."""
    import io

    from PIL import Image

    def change(rows):
        with Image.open(io.BytesIO(rows[0]["image"]["bytes"])) as image:
            buffer = io.BytesIO()
            image.convert("RGB").save(buffer, "PNG", compress_level=0)
        rows[1].update(image={"bytes": buffer.getvalue(), "path": None})

    edit(umu / "real_person", change)
    report = check_source(str(umu))
    assert report.ok
    (found,) = [one for one in report.of("warning") if one.kind == "same portrait for two people"]
    assert (found.split, found.row_id, found.column) == ("real", "002", "image")
    assert "the same portrait as ID 001" in found.message


def test_option_letters_that_differ_by_case(umu, edit_cell):
    """The strict rule takes a lone letter in either case: it could not tell which option is meant."""

    def change(cell):
        for half in cell.values():
            half["occupation"]["options"] = {"A": "Sound Engineer", "a": "Baker", "B": "Judge", "C": "Poet"}

    edit_cell(umu / "forget_5", "001", "Classify", change)
    found = [
        one for one in check_source(str(umu)).of("warning") if one.kind == "option letters that differ by case only"
    ]
    assert [(one.split, one.row_id) for one in found] == [("forget05", "001")] * 2
    assert "classification occupation: unimodal: A, a" in found[0].message


def test_answers_that_no_output_can_match(umu, edit_cell):
    """Outputs are cut at ASSISTANT:, so such a gold counts as forgotten whatever the model writes."""
    edit_cell(
        umu / "real_person",
        "001",
        "Cloze",
        lambda cell: cell["muitimodal"]["residence"].update(answer="x ASSISTANT: y"),
    )
    edit_cell(umu / "real_person", "001", "UM_QA", lambda cell: cell["answer"].update({"0": "ASSISTANT: Pilot"}))
    report = check_source(str(umu))
    assert report.ok
    found = [one for one in report.of("warning") if one.kind == "answers that no output can match"]
    assert [(one.row_id, one.column) for one in found] == [("001", "UM_QA"), ("001", None)]
    assert "unimodal pair 0: the answer 'ASSISTANT: Pilot'" in found[0].message
    assert "cloze residence, multimodal: the answer 'x ASSISTANT: y'" in found[1].message


def test_questions_that_hold_their_own_answer(umu, edit_cell):
    """They are answered right by whoever reads them, so nobody would ever be found to have forgotten them."""

    def change(cell):
        half = cell["unimodal"]["residence"]
        half["question"] = f"She lives in {half['answer'].upper()}, which is in __."

    edit_cell(umu / "real_person", "001", "Cloze", change)
    report = check_source(str(umu))
    (found,) = [one for one in report.of("warning") if one.kind == "questions that hold their own answer"]
    assert (report.ok, found.split, found.row_id) == (True, "real", "001")
    assert found.message.endswith("Word it in another way.")
    assert "cloze residence, unimodal: 'She lives in " in found.message


def test_a_question_that_lists_the_options_does_not_say_which(umu, edit_cell):
    def change(cell):
        half = cell["unimodal"]["occupation"]
        half["question"] = f"Is she a {' or a '.join(half['options'].values())}?"

    edit_cell(umu / "real_person", "001", "Classify", change)
    kinds = {one.kind for one in check_source(str(umu)).of("warning")}
    assert "questions that hold their own answer" not in kinds


def test_a_letter_is_in_other_questions_too(umu, edit_cell):
    """Blood type A is not told by "a"."""

    def change(cell):
        cell["unimodal"]["residence"].update(question="A person of blood type __.", answer="A")

    edit_cell(umu / "real_person", "001", "Cloze", change)
    kinds = {one.kind for one in check_source(str(umu)).of("warning")}
    assert "questions that hold their own answer" not in kinds


@pytest.mark.parametrize("column", ["Cloze", "UM_QA"])
def test_half_a_character_is_an_error_with_its_row(umu, edit_cell, column):
    """Half of an emoji, left where a text was cut, ends whatever writes or tokenizes it later, without a row ID."""

    def change(cell):
        if column == "Cloze":
            cell["unimodal"]["height"]["answer"] = "1 m \ud83d"
        else:
            cell["question"]["0"] = "Who is \ude00?"

    edit_cell(umu / "real_person", "002", column, change)
    (error,) = check_source(str(umu)).of("error")
    assert (error.split, error.row_id, error.column) == ("real", "002", column)
    with pytest.raises(DataError, match=rf"row ID 002, column {column}: .*half"):
        open_source(str(umu)).load("real")


def test_a_text_that_is_no_utf8(umu):
    """A file by a careless writer: the row is named, and the other splits are checked all the same."""
    import pyarrow as pa

    path = umu / "real_person" / SHARD
    content = pq.read_table(path)
    place = content.column_names.index("Biography")
    broken = pa.array([b"fine", b"half \xed\xa0\xbd"], pa.binary())
    text = pa.Array.from_buffers(pa.string(), 2, broken.buffers())
    pq.write_table(content.set_column(place, pa.field("Biography", pa.string()), text), path)
    report = check_source(str(umu))
    (error,) = report.of("error")
    assert (error.split, error.column) == ("real", "Biography")
    assert "row 1 " in error.message
    assert report.splits["real"].people == 1
    assert report.splits["full"].people == 5
