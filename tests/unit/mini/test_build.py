"""The files of UMU-mini: schema, counts, determinism, the cache, and the command that writes them."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from umu_tasks.benchmarks.errors import DataError
from umu_tasks.cli import main
from umu_tasks.mini import build
from umu_tasks.mini.build import build_mini, forget_sets, mini_data_dir
from umu_tasks.tasks.umu.written import FILE_NAME

SIZES = {
    "full_set": 60, "real_person": 20, "forget_5": 3, "forget_10": 6, "forget_15": 9,
    "retain_95": 57, "retain_90": 54, "retain_85": 51,
}  # fmt: skip
COLUMNS = ["ID", "image", "Biography", "MM_QA", "UM_QA", "Classify", "Cloze", "Generation"]


def _rows(folder: Path, split: str) -> list[dict[str, object]]:
    return pq.read_table(folder / split / FILE_NAME).to_pylist()


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.parquet"))}


def test_folders_sizes_and_columns(mini_folder: Path) -> None:
    """Readers of the published data set find their folders and columns."""
    assert {
        path.parent.name: len(_rows(mini_folder, path.parent.name)) for path in mini_folder.rglob("*.parquet")
    } == SIZES
    assert pq.read_schema(mini_folder / "full_set" / FILE_NAME).names == COLUMNS


def test_cells_are_python_literals_as_published(mini_folder: Path) -> None:
    for split, stories in (("full_set", 2), ("real_person", 1)):
        for row in _rows(mini_folder, split):
            for column, keys in (("Classify", 2), ("Cloze", 2), ("Generation", stories)):
                cell = ast.literal_eval(str(row[column]))
                assert list(cell) == ["unimodal", "muitimodal"]
                assert list(cell["unimodal"]) == list(cell["muitimodal"])
                assert len(cell["unimodal"]) == keys
            for column in ("MM_QA", "UM_QA"):
                cell = ast.literal_eval(str(row[column]))
                assert list(cell["question"]) == list(cell["answer"]) == list("012345")


def test_image_is_png_bytes_with_a_name(mini_folder: Path) -> None:
    image = _rows(mini_folder, "forget_5")[0]["image"]
    assert isinstance(image, dict)
    assert image["bytes"].startswith(b"\x89PNG")
    assert str(image["path"]).endswith(".png")


def test_forget_and_retain_part_the_full_set(mini_folder: Path) -> None:
    """A person in both would be forgotten and kept at once."""
    full = [row["ID"] for row in _rows(mini_folder, "full_set")]
    smaller: set[object] = set()
    for ratio in (5, 10, 15):
        forget = {row["ID"] for row in _rows(mini_folder, f"forget_{ratio}")}
        retain = {row["ID"] for row in _rows(mini_folder, f"retain_{100 - ratio}")}
        assert not forget & retain
        assert forget | retain == set(full)
        assert smaller < forget
        smaller = forget


def test_published_sizes_of_forget_sets() -> None:
    assert [len(people) for people in forget_sets(500, 0).values()] == [25, 50, 75]


def test_same_seed_same_bytes_other_seed_other_bytes(tmp_path: Path) -> None:
    for name, seed in (("one", 3), ("two", 3), ("three", 4)):
        build_mini(tmp_path / name, people=8, real=2, seed=seed)
    one, two, three = (_files(tmp_path / name) for name in ("one", "two", "three"))
    assert one == two
    assert len(one) == 8
    assert all(one[name] != three[name] for name in one)


def test_too_few_people() -> None:
    with pytest.raises(DataError, match=r"3 invented and 1 real people asked for\. Ask for at least 7 and 1"):
        build_mini(Path("unused"), people=3, real=1)


def test_cache_is_built_once_and_leaves_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several processes of one run may ask at once; a half-written folder must never be seen."""
    monkeypatch.setenv("UMU_CACHE", str(tmp_path))
    code = "from umu_tasks.mini.build import mini_data_dir; print(mini_data_dir())"
    running = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    folders = {process.communicate(timeout=240)[0].strip() for process in running}
    assert [process.returncode for process in running] == [0, 0]
    assert {str(path) for path in (tmp_path / "mini").iterdir()} == folders
    assert len(folders) == 1
    monkeypatch.setattr(build, "build_mini", None)  # a second build would fail
    assert str(mini_data_dir()) in folders


@pytest.mark.parametrize("damage", ["delete a split", "cut a file", "delete the manifest"])
def test_damaged_cache_is_built_again(damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache that a clean-up job went through must not give fewer people, or an error on every start."""
    monkeypatch.setenv("UMU_CACHE", str(tmp_path))
    monkeypatch.setattr(build, "build_mini", lambda out: build_mini(out, people=8, real=1))
    folder = mini_data_dir()
    before = _files(folder)
    if damage == "delete a split":
        (folder / "forget_5" / FILE_NAME).unlink()
    elif damage == "cut a file":
        path = folder / "full_set" / FILE_NAME
        path.write_bytes(path.read_bytes()[:-1])
    else:
        (folder / build.MANIFEST).unlink()
    assert mini_data_dir() == folder
    assert _files(folder) == before
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_failed_build_leaves_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(out: Path) -> None:
        out.mkdir()
        raise OSError("disk full")

    monkeypatch.setenv("UMU_CACHE", str(tmp_path))
    monkeypatch.setattr(build, "build_mini", broken)
    with pytest.raises(OSError, match="disk full"):
        mini_data_dir()
    assert list((tmp_path / "mini").iterdir()) == []


def test_command_writes_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "new"
    assert main(["data", "build-mini", "--people", "20", "--real", "3", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "20 invented people (forget sets of 1, 2, 3) and 3 real people" in said
    assert len(_rows(out, "full_set")) == 20


def test_command_keeps_a_folder_that_is_not_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.txt").write_text("precious")
    arguments = ["data", "build-mini", "--people", "8", "--real", "1", "--out", str(tmp_path)]
    assert main(arguments) == 2
    assert "the folder is not empty. Name another one, or add --overwrite" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    assert main([*arguments, "--overwrite"]) == 0
    assert (tmp_path / "mine.txt").read_text() == "precious"


def test_command_refuses_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "file"
    path.write_text("")
    assert main(["data", "build-mini", "--out", str(path)]) == 2
    assert "this is a file. Name a folder." in capsys.readouterr().err
