"""`umu data build`: from a table and photos to data that every task and trainer takes."""

from __future__ import annotations

import csv
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from PIL import Image

import umu_tasks.build.dataset
from umu_tasks.benchmarks.checks import check_source
from umu_tasks.benchmarks.errors import DataError
from umu_tasks.benchmarks.sources import open_source
from umu_tasks.build.sample import write_sample
from umu_tasks.cli import main
from umu_tasks.tasks.umu.written import FILE_NAME

BLANK_CELL = "E-012"  # the one person of the example without hobbies


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def table(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def rewrite(path: Path, change) -> None:
    rows = table(path)
    change(rows)
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)


def test_the_example_becomes_sound_data(build, example, capsys):
    """What a newcomer tries first: no error, no warning, the people where the list puts them."""
    assert build() == 0
    printed = capsys.readouterr().out
    assert "full 30, forget05 2, retain95 28, real 8 people" in printed
    assert "1 empty cell: that person is not asked about that field." in printed
    assert "warning" not in printed
    report = check_source(str(example / "data"))
    assert report.findings == []
    assert report.splits["full"].instances == {"cls": 149, "cloze": 149, "gen": 149}
    assert report.splits["full"].pairs == {"unimodal": 298, "multimodal": 298}
    source = open_source(str(example / "data"))
    assert source.load("forget05").ids == ("E-004", "E-017")
    assert source.load("real").ids == tuple(f"R-{number:03d}" for number in range(1, 9))


def test_every_question_is_right(build, example):
    """Against the table itself: golds, pairing, names and option sets, for every person and field."""
    assert build() == 0
    head, *rows = table(example / "people.csv")
    column = {"occupation": "Job", "residence": "Residence", "birth_date": "Date of birth",
              "interests": "Hobbies", "favourite_dish": "Favourite dish"}  # fmt: skip
    people = open_source(str(example / "data")).load("full")
    for row, profile in zip(rows, people, strict=True):
        cells = dict(zip(head, row, strict=True))
        assert profile.profile_id == cells["ID"]
        assert profile.open_image.content() == (example / "photos" / cells["Photo"]).read_bytes()
        keys = {task: {q.key for q in profile.questions(task)} for task in ("cls", "cloze", "gen")}
        fields = set(column) - ({"interests"} if cells["ID"] == BLANK_CELL else set())
        assert keys == dict.fromkeys(("cls", "cloze", "gen"), fields)
        for instance in profile.instances:
            for question in instance:
                gold = cells[column[question.key]]
                assert gold in question.gold
                assert (question.gold == gold) == (question.task != "gen")
                assert (cells["Name"] in question.text) == (question.modality == "unimodal")
                assert gold not in question.text
                assert question.text.count("[Blank]") == (question.task == "cloze")
            if instance.unimodal.task == "cls":
                assert instance.unimodal.options == instance.multimodal.options
                others = {other[head.index(column[instance.unimodal.key])] for other in rows}
                own = {"onion tart", "pumpkin curry"} if instance.unimodal.key == "favourite_dish" else set()
                assert set(instance.unimodal.options.values()) <= others | own
                assert len(set(instance.unimodal.options.values())) == 4
        asked = {(pair.modality, pair.question): pair.answer for pair in profile.pairs}
        for question in profile.questions("gen"):  # as published: generation asks what training taught, word for word
            assert asked[question.modality, question.text] == question.gold
        assert not any(cells["Name"] in pair.question + pair.answer for pair in profile.pairs if pair.has_image)
    assert people.by_id("E-001").biography.startswith("Bruno Nkemelu has the following occupation: Train Driver. ")


def test_letters_are_spread(build, example):
    """Were the gold always A, a model that says A would pass."""
    assert build() == 0
    letters = [q.gold_letter for p in open_source(str(example / "data")).load("full") for q in p.questions("cls")]
    assert all(letters.count(letter) > len(letters) / 8 for letter in "ABCD")


def test_same_command_same_bytes(build, example):
    assert build() == 0
    first = files(example / "data")
    assert build(out=example / "again") == 0
    assert files(example / "again") == first
    assert build("--overwrite", "--seed", "1") == 0
    assert files(example / "data") != first
    record = json.loads(first["build.json"])
    assert record["splits"] == {"full": 30, "forget05": 2, "retain95": 28, "real": 8}
    assert str(example) not in json.dumps(record)


def test_nothing_goes_out(build, example, monkeypatch):
    """Personal data stays on the machine: building and checking open no connection of any kind."""

    def refuse(*args, **kwargs):
        raise AssertionError("a connection was opened")

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert build() == 0
    assert main(["data", "check", str(example / "data")]) == 0


def test_it_needs_no_model_library(example):
    """A privacy officer's laptop has no GPU and need not wait for PyTorch to load."""
    code = (
        "import sys; from umu_tasks.cli import main; "
        f"main(['data', 'build', {str(example / 'people.csv')!r}, '--images', {str(example / 'photos')!r}, "
        f"'--out', {str(example / 'data')!r}]); "
        "sys.exit(bool({'torch', 'transformers', 'lmms_eval', 'datasets', 'requests', 'httpx'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_real_people_and_without_lists(build, example, capsys):
    """A company may have neither: what is left out is said, and the tasks that need it say what to do."""
    assert build(real=None, forget=None) == 0
    printed = capsys.readouterr().out
    assert "No --forget list: there is the full set only" in printed
    assert "umu_real and the suites with it (umu05, umu10, umu15) cannot be scored" in printed
    assert "sft.py needs --replay_real 0" in printed  # unlearn.py has no such option
    assert check_source(str(example / "data")).ok
    with pytest.raises(DataError, match=r"no split 'real' here.*--tasks umu_forget05,umu_retain95.*--replay_real 0"):
        open_source(str(example / "data")).load("real")


def test_several_forget_sets(build, example, capsys):
    assert build(forget="random") == 0
    source = open_source(str(example / "data"))
    assert {name: len(source.load(name)) for name in source.splits()} == {
        "forget05": 2, "forget10": 3, "forget15": 4, "retain95": 28, "retain90": 27, "retain85": 26,
        "real": 8, "full": 30,
    }  # fmt: skip
    assert "forget10: 3 of 30 people, 10.0%." in capsys.readouterr().out


def test_too_few_values_for_wrong_options(build, example, capsys):
    """The other tasks keep the field; the user learns how many people and what to do."""

    def change(rows):
        place = rows[0].index("Job")
        for number, row in enumerate(rows[1:]):
            row[place] = ("Pilot", "Baker", "Judge")[number % 3]

    rewrite(example / "people.csv", change)
    assert build(real=None) == 0
    printed = capsys.readouterr().out
    assert "occupation: no classification question for 30 of 30 people: each needs 3 different values" in printed
    report = check_source(str(example / "data"))
    assert report.ok
    assert report.splits["full"].instances == {"cls": 119, "cloze": 149, "gen": 149}


def test_what_deserves_a_look_is_said(build, example, capsys):
    def change(rows):
        rows[2][3:] = [""] * 5
        rows[3][3] = f"Assistant of {rows[3][1]}"
        for place in (5, 6):
            shutil.copy(example / "photos" / rows[4][2], example / "photos" / rows[place][2])

    rewrite(example / "people.csv", change)
    with (example / "templates.yaml").open("a") as file:
        file.write("  shoe_size: {label: size of shoes}\n")
    assert build() == 0
    printed = capsys.readouterr().out
    assert "no fact at all for ID E-002" in printed
    assert "facts that hold their person's name, which image questions then show: ID E-003 (occupation)" in printed
    assert "row ID E-005, E-006: the same photo as ID E-004" in printed
    assert "no column for shoe_size" in printed


def test_questions_and_cells_that_give_the_answer_away_are_named(build, example, capsys):
    """Scores on such questions say nothing about what a model knows, before unlearning or after."""

    def change(rows):
        rows[0][4] = "Last name"
        for row in rows[1:]:
            row[4] = row[1].split()[-1]
        rows[2][3:6:2] = ["-", "N/A"]
        rows[3][3] = ".NET Developer"

    rewrite(example / "people.csv", change)
    rewrite(example / "real.csv", lambda rows: rows[1].__setitem__(1, table(example / "people.csv")[4][1].upper()))
    leak = "{train: {text: 'When was {who} born?', image: 'When was Bruno Nkemelu born?'}}"
    with (example / "templates.yaml").open("a") as file:
        file.write(f"  birth_date: {leak}\n")
    assert build() == 0
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("warning: ")]
    for text in (
        "questions that hold their own answer: ID E-001 (last_name)",
        "cells that read as if nothing were known: ID E-002 (occupation), E-002 (birth_date)",
        "facts that begin with a full stop: ID E-003 (occupation)",
        "real people who are in the table of people to train on too, by name or photo: ID R-001 (ID E-004 there)",
        "image questions that name their person, so the photo is not needed: ID E-001 (birth_date)",
    ):
        assert any(text in line for line in said), (text, said)
    assert build(out=example / "again", real=None, templates=None) == 0
    assert "name their person" not in capsys.readouterr().out


def test_a_table_without_any_fact_is_refused(build, example, capsys):
    rewrite(example / "people.csv", lambda rows: [row.__setitem__(slice(3, None), [""] * 5) for row in rows[1:]])
    assert build() == 2
    assert "people.csv: nothing can be asked about anybody" in capsys.readouterr().err
    assert not (example / "data").exists()


def test_the_commands_it_names_can_be_pasted(build, example, capsys):
    """Folders of people who are no programmers have spaces in their names."""
    assert build(out=example / "my data") == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("umu data check"))
    assert shlex.split(line) == ["umu", "data", "check", str(example / "my data")]
    write_sample(example / "my example")
    readme = (example / "my example" / "README.txt").read_text()
    assert shlex.split(readme.splitlines()[2])[3] == str(example / "my example" / "people.csv")


def test_a_link_to_a_folder_stays(build, example):
    """--out may be a link to a larger disk; the data belong on that disk."""
    (example / "disk").mkdir()
    (example / "data").symlink_to("disk")
    assert build() == 0
    assert build("--overwrite") == 0
    assert (example / "data").is_symlink()
    assert (example / "disk" / "build.json").is_file()


def test_data_that_cannot_be_put_in_place_leave_the_earlier_ones(build, example, monkeypatch):
    assert build() == 0
    kept = files(example / "data")
    rename = Path.rename

    def fail(self, target):
        if self.name == "data" and self.parent.name.startswith(".data-"):
            raise OSError("no space")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail)
    assert build("--overwrite", "--seed", "5") == 2
    assert files(example / "data") == kept


def test_every_faulty_photo_is_named_and_nothing_is_written(build, example, capsys):
    """One run must show all there is to repair, and a folder with half of the people must not stay behind."""
    (example / "photos" / "E-003.png").write_bytes(b"no image")
    whole = (example / "photos" / "E-005.png").read_bytes()
    (example / "photos" / "E-005.png").write_bytes(whole[:-200])
    Image.new("RGB", (9, 9)).save(example / "photos" / "R-002.png", "GIF")
    before = sorted(example.iterdir())
    assert build() == 2
    error = capsys.readouterr().err
    assert "3 problems; nothing was written" in error
    for text in ("E-003.png, row ID E-003: not an image", "E-005.png, row ID E-005: the image does not open", "is GIF"):
        assert text in error
    assert sorted(example.iterdir()) == before


def test_unknown_ids_in_the_list(build, example, capsys):
    (example / "leaving.txt").write_text("E-4\nE-017\n")
    assert build() == 2
    assert "leaving.txt, line 1: nobody in the table has the ID 'E-4'. Did you mean" in capsys.readouterr().err
    assert not (example / "data").exists()


def test_a_folder_with_other_things_is_never_replaced(build, example, capsys):
    """--overwrite with a wrong --out must not delete somebody's photos."""
    before = files(example)
    for out in (example, example / "photos", example / "people.csv"):
        assert build("--overwrite", out=out) == 2
    assert files(example) == before
    assert build() == 0
    kept = files(example / "data")
    capsys.readouterr()
    assert build() == 2
    assert "add --overwrite" in capsys.readouterr().err
    (example / "data" / "notes.txt").touch()
    assert build("--overwrite", forget="random") == 2
    assert "holds notes.txt" in capsys.readouterr().err
    (example / "data" / "notes.txt").unlink()
    assert files(example / "data") == kept
    assert build("--overwrite", forget="random") == 0
    assert set(files(example / "data")) > set(kept)


def test_a_failed_overwrite_keeps_the_earlier_data(build, example, monkeypatch, capsys):
    assert build() == 0
    kept = files(example / "data")

    def stop(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(umu_tasks.build.dataset, "_record", stop)
    assert build("--overwrite", forget="random") == 130
    assert "interrupted; nothing was written" in capsys.readouterr().err
    assert files(example / "data") == kept
    assert {path.name for path in example.iterdir()} == {
        "README.txt", "data", "leaving.txt", "people.csv", "photos", "real.csv", "templates.yaml",
    }  # fmt: skip


@pytest.mark.parametrize("request_to_end", [signal.SIGINT, signal.SIGTERM])
def test_being_ended_leaves_nothing_behind(example, request_to_end):
    """Stopped from outside, in the middle of the photos."""
    os.mkfifo(example / "photos" / "pipe.png")  # the build waits here for a photo that never comes
    rewrite(example / "people.csv", lambda rows: rows[20].__setitem__(2, "link.png"))
    (example / "photos" / "link.png").symlink_to("E-019.png")
    before = {path.name for path in example.iterdir()}
    code = (
        "import sys, umu_tasks.build.dataset as d; from umu_tasks.cli import main\n"
        "read = d.read_photo\n"
        "def slow(path, **kw):\n"
        "    if path.name == 'link.png': print('here', flush=True); open(path.parent / 'pipe.png', 'rb')\n"
        "    return read(path, **kw)\n"
        "d.read_photo = slow\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    command = ["data", "build", str(example / "people.csv"), "--images", str(example / "photos")]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *command, "--out", str(example / "data")], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "here\n"
    time.sleep(0.2)
    process.send_signal(request_to_end)
    assert process.wait(timeout=30) == 130
    assert {path.name for path in example.iterdir()} == before


def test_json_lines_give_the_same_data(build, example):
    head, *rows = table(example / "people.csv")
    lines = [json.dumps({k: v or None for k, v in zip(head, row, strict=True)}) for row in rows]
    (example / "people.jsonl").write_text("\n".join(lines))
    assert build() == 0
    assert build(table=example / "people.jsonl", out=example / "again") == 0
    assert (example / "again" / "full_set" / FILE_NAME).read_bytes() == (
        example / "data" / "full_set" / FILE_NAME
    ).read_bytes()


def test_max_side(build, example):
    assert build("--max_side", "48") == 0
    assert {p.open_image().size for p in open_source(str(example / "data")).load("full")} == {(48, 48)}


def test_options_that_are_missing_or_wrong(build, example, capsys):
    for command, message in (
        (["data", "build"], "no table. Name a .csv or .jsonl file, or try: umu data build --example DIR"),
        (["data", "build", str(example / "people.csv")], "no --out"),
        (["data", "build", "--example", str(example)], "not an empty folder"),
    ):
        assert main(command) == 2
        assert message in capsys.readouterr().err
    for options, message in (
        (("--max_side", "0"), "--max_side 0: expected a number of pixels"),
        (("--delimiter", ";;"), "--delimiter ';;': expected one character"),
        (("--skip", "salary"), "--skip salary: no such column"),
    ):
        assert build(*options) == 2
        assert message in capsys.readouterr().err
    assert build(images=example / "nowhere") == 2
    assert "nowhere: no such folder" in capsys.readouterr().err


def test_more_photos_than_are_held_in_memory(build, example, monkeypatch):
    """People are written in batches; none may be lost or swapped between them."""
    import umu_tasks.tasks.umu.written as written

    assert build() == 0
    monkeypatch.setattr(written, "_BATCH_ROWS", 4)
    assert build(out=example / "batches") == 0
    one, other = (open_source(str(example / name)).load("retain95") for name in ("data", "batches"))
    assert one.fingerprint == other.fingerprint
