"""Data sources: folders in the layouts people have, good and bad."""

import io
import os
import pickle
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from umu_tasks.benchmarks.errors import DataError
from umu_tasks.benchmarks.sources import open_source

FIXTURE = Path(__file__).parents[2] / "fixtures" / "umu_small"
SHARD = "train-00000-of-00001.parquet"
SPLITS = ("forget05", "retain95", "real", "full")


def fails(call) -> str:
    with pytest.raises(DataError) as caught:
        call()
    return str(caught.value)


def test_the_fixture_loads_whole():
    source = open_source(str(FIXTURE))
    assert (source.kind, source.splits()) == ("folder", SPLITS)
    assert {split: source.load(split).ids for split in SPLITS} == {
        "forget05": ("001", "002"),
        "retain95": ("003", "004", "005"),
        "real": ("001", "002"),
        "full": ("001", "002", "003", "004", "005"),
    }
    for split in SPLITS:
        for profile in source.load(split):
            assert len(profile.pairs) == 6
            assert [one.instance_key.task for one in profile.instances] == ["cls"] * 3 + ["cloze"] * 2 + ["gen"]
            assert profile.open_image().mode == "RGB"


def test_aliases_and_repeated_loads_give_the_same_set():
    """The harness asks for the same split once a document: it must be parsed once."""
    source = open_source(str(FIXTURE))
    assert open_source(str(FIXTURE / ".." / "umu_small")).load("full") is not None
    assert open_source(str(FIXTURE)) is source
    assert source.load("Forget_5") is source.load("forget05")


def test_environment_variable_chooses_the_source(umu, monkeypatch):
    monkeypatch.setenv("UMU_DATA", str(umu))
    assert open_source().spec == str(umu)
    monkeypatch.setenv("UMU_DATA", "")
    assert (open_source().kind, open_source().spec) == ("hub", "linbojunzi/UMU-bench")
    monkeypatch.delenv("UMU_DATA")
    assert open_source().spec == "linbojunzi/UMU-bench"


def test_relative_folder_and_home(umu, monkeypatch):
    monkeypatch.chdir(umu.parent)
    source = open_source("umu")
    assert source.load("full").ids[0] == "001"
    assert open_source(source.spec) is source, "otherwise all would be parsed twice"
    monkeypatch.setenv("HOME", str(umu.parent))
    assert open_source("~/umu").load("full").ids[0] == "001"


# --- layouts -----------------------------------------------------------------------------------------------------


def rename(folder: Path) -> Path:
    (folder / "real_person").rename(folder / "Real_Person_Set")
    (folder / "full_data").rename(folder / "FULL_SET")
    return folder


def below_data(folder: Path) -> Path:
    shutil.move(folder, folder.parent / "root" / "data")
    return folder.parent / "root"


def sharded(folder: Path) -> Path:
    path = folder / "full_data" / SHARD
    table = pq.read_table(path)
    path.unlink()
    pq.write_table(table.slice(0, 2), path.with_name("train-00000-of-00002.parquet"))
    pq.write_table(table.slice(2), path.with_name("train-00001-of-00002.parquet"))
    return folder


def saved_to_disk(folder: Path) -> Path:
    for path in list(folder.iterdir()):
        dataset = datasets.Dataset(pq.read_table(path / SHARD)).cast_column("image", datasets.Image())
        shutil.rmtree(path)
        dataset.save_to_disk(str(path))
    return folder


def with_image_features(folder: Path) -> Path:
    """As the hub's files are: written by `datasets`, which notes in the schema that the column holds images."""
    for path in folder.iterdir():
        dataset = datasets.Dataset(pq.read_table(path / SHARD)).cast_column("image", datasets.Image())
        dataset.to_parquet(str(path / SHARD))
    return folder


def image_files(folder: Path) -> Path:
    for path in folder.iterdir():
        table = pq.read_table(path / SHARD)
        images = []
        for row_id, image in zip(table["ID"].to_pylist(), table["image"].to_pylist(), strict=True):
            (path / f"{row_id}.png").write_bytes(image["bytes"])
            images.append({"bytes": None, "path": f"{row_id}.png"})
        column = pa.array(images, type=table.schema.field("image").type)
        pq.write_table(table.set_column(table.column_names.index("image"), "image", column), path / SHARD)
    return folder


def read_only(folder: Path) -> Path:
    for path in folder.rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    folder.chmod(0o555)
    return folder


@pytest.mark.parametrize(
    "arrange",
    [rename, below_data, sharded, saved_to_disk, with_image_features, image_files, read_only],
    ids=lambda arrange: arrange.__name__,
)
def test_every_layout_gives_the_same_content(umu, arrange):
    folder = arrange(umu)
    before = sorted(str(path) for path in folder.rglob("*"))
    source = open_source(str(folder))
    reference = open_source(str(FIXTURE))
    for split in SPLITS:
        assert source.load(split).ids == reference.load(split).ids
        assert source.load(split).fingerprint == reference.load(split).fingerprint
        portraits = [
            (one.open_image(), other.open_image())
            for one, other in zip(source.load(split), reference.load(split), strict=True)
        ]
        assert all(one == other for one, other in portraits)
    assert sorted(str(path) for path in folder.rglob("*")) == before, "nothing may be written into the source"


def test_numbers_as_ids(umu):
    for path in umu.iterdir():
        table = pq.read_table(path / SHARD)
        ids = pa.array([int(one) for one in table["ID"].to_pylist()])
        pq.write_table(table.set_column(table.column_names.index("ID"), "ID", ids), path / SHARD)
    assert open_source(str(umu)).load("forget_5").ids == ("1", "2")


def test_changed_files_are_noticed(umu, edit):
    source = open_source(str(umu))
    first = source.load("real")
    edit(umu / "real_person", lambda rows: rows[:1])
    os.utime(umu / "real_person" / SHARD, ns=(1, 1))
    assert source.load("real").ids == ("001",)
    assert source.load("real").fingerprint != first.fingerprint
    shutil.copytree(umu / "forget_5", umu / "forget_10")
    shutil.rmtree(umu / "full_data")
    assert open_source(str(umu)).load("forget_10").ids == ("001", "002")
    (umu / "real_person" / SHARD).rename(umu / "real_person" / "people.parquet")
    assert open_source(str(umu)).load("real").ids == ("001",)


def test_profiles_travel_to_other_processes(umu):
    """Data loader workers that are not forked receive profiles by pickle, portraits included."""
    profiles = open_source(str(umu)).load("full")
    copies = pickle.loads(pickle.dumps(profiles[:2]))  # noqa: S301 -- our own bytes
    assert copies[1].instances == profiles[1].instances
    assert copies[1].open_image() == profiles[1].open_image()


def test_threads_share_one_set(umu):
    """The harness scores documents in several threads, each opening portraits."""
    source = open_source(str(umu))
    with ThreadPoolExecutor(8) as pool:
        images = list(
            pool.map(lambda index: open_source(str(umu)).load("full")[index % 5].open_image().tobytes(), range(80))
        )
    assert len(set(images)) == 5
    assert source.load("full") is open_source(str(umu)).load("full")


def test_all_eight_subsets_load_by_their_published_names(tmp_path):
    table = pq.read_table(FIXTURE / "data" / "full_data" / SHARD)
    sets = {"Full_Set": [0, 1, 2, 3, 4], "Real_Person_Set": [0]}
    for ratio, forget in ((5, [0]), (10, [1, 2]), (15, [0, 2, 4])):
        sets[f"forget_{ratio}"] = forget
        sets[f"retain_{100 - ratio}"] = [index for index in range(5) if index not in forget]
    for name, rows in sets.items():
        (tmp_path / name).mkdir()
        pq.write_table(table.take(rows), tmp_path / name / SHARD)
    source = open_source(str(tmp_path))
    assert len(source.splits()) == 8
    assert {name: [int(one) - 1 for one in source.load(name).ids] for name in sets} == sets


# --- what cannot be used -----------------------------------------------------------------------------------------


def test_missing_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("UMU_DATA", str(tmp_path / "nowhere"))
    message = fails(open_source)
    assert message.startswith(f"UMU_DATA={tmp_path}/nowhere: no such folder. Expected one folder a split")
    assert "forget_5/train-00000-of-00001.parquet" in message


@pytest.mark.parametrize("spec", ["./umu", "umu", "a/b/c", "~/nowhere", "/data/umu", "data/", "sub/umu", "a//b"])
def test_what_looks_like_a_path_is_no_hub_id(tmp_path, monkeypatch, spec):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    assert "no such folder" in fails(lambda: open_source(spec))


def test_a_folder_wins_over_a_hub_id(umu, monkeypatch):
    monkeypatch.chdir(umu.parent.parent)
    spec = f"{umu.parent.name}/umu"
    assert open_source(spec).kind == "folder"


def test_file_instead_of_folder(umu):
    assert "is a file, not a folder" in fails(lambda: open_source(str(umu / "full_data" / SHARD)))


def test_folder_without_splits(tmp_path):
    (tmp_path / "pictures").mkdir()
    assert "no split of the benchmark in this folder; found pictures" in fails(lambda: open_source(str(tmp_path)))


def test_unknown_split_lists_those_present():
    source = open_source(str(FIXTURE))
    present = "Choose one of: forget05, retain95, real, full."
    assert fails(lambda: source.load("forget_10")) == f"{FIXTURE}: no split 'forget10' here. {present}"
    assert fails(lambda: source.load("forget_7")) == f"{FIXTURE}: 'forget_7' is no split of UMU-Bench. {present}"


def test_unknown_benchmark():
    message = fails(lambda: open_source(str(FIXTURE), benchmark="nosuch"))
    assert "benchmark 'nosuch' is not supported" in message


def test_folder_of_another_benchmark(umu):
    """MLLMU-Bench has the same folder names; its rows must never give an empty or nonsensical run."""
    path = umu / "forget_5" / SHARD
    questions = [{"Question": "?", "Options": {"A": "x"}, "Correct_Answer": "A"}]
    row = {"image": {"bytes": b"x", "path": None}, "ID": "001", "Directory": "d", "biography": "b", "question": "q"}
    row |= {"answer": "a", "Classification_Task": {"Image_Textual_Questions": questions}}
    row |= {"Generation_Task": [{"Type": "Pure_Text"}], "Mask_Task": [{"Type": "Pure_Text"}]}
    pq.write_table(pa.Table.from_pylist([row]), path)
    message = fails(lambda: open_source(str(umu)).load("forget_5"))
    assert message.startswith(f"{path}, column Biography, MM_QA, UM_QA, Classify, Cloze, Generation: missing")
    assert "This looks like MLLMU-Bench (column Classification_Task)" in message


def test_missing_column(umu, edit):
    path = edit(umu / "forget_5", lambda rows: [{k: v for k, v in row.items() if k != "Cloze"} for row in rows])
    assert fails(lambda: open_source(str(umu)).load("forget05")) == (
        f"{path}, column Cloze: missing from this file; found columns ID, image, Biography, MM_QA, UM_QA, Classify, "
        "Generation. Add it, or point to the right data."
    )


def test_cell_that_does_not_parse(umu, edit):
    path = edit(umu / "forget_5", lambda rows: rows[1].update(Cloze="{'unimodal': oops"))
    message = fails(lambda: open_source(str(umu)).load("forget05"))
    assert message.startswith(f"{path}, row ID 002, column Cloze: neither JSON nor a Python literal")


def test_missing_partner(umu, edit_cell):
    path = edit_cell(umu / "forget_5", "002", "Generation", lambda cell: cell["muitimodal"].pop("overview"))
    message = fails(lambda: open_source(str(umu)).load("forget05"))
    assert message.startswith(
        f"{path}, row ID 002, column Generation: questions without partner: 'overview' only in the unimodal part."
    )


def test_option_set_without_the_gold_letter(umu, edit_cell):
    path = edit_cell(
        umu / "forget_5", "002", "Classify", lambda cell: cell["muitimodal"]["occupation"]["options"].pop("D")
    )
    message = fails(lambda: open_source(str(umu)).load("forget05"))
    assert message.startswith(f"{path}, row ID 002, column Classify: multimodal occupation: no option 'D'")


def test_corrupt_image(umu, edit):
    path = edit(
        umu / "forget_5", lambda rows: rows[1].update(image={"bytes": rows[1]["image"]["bytes"][:90], "path": None})
    )
    profiles = open_source(str(umu)).load("forget05")
    profiles.by_id("001").open_image()
    message = fails(profiles.by_id("002").open_image)
    assert message.startswith(f"{path}, row ID 002, column image: the image does not open (90 bytes;")


@pytest.mark.parametrize("image", [None, {"bytes": None, "path": None}])
def test_row_without_image(umu, edit, image):
    path = edit(umu / "forget_5", lambda rows: rows[1].update(image=image))
    assert fails(lambda: open_source(str(umu)).load("forget05")).startswith(
        f"{path}, row ID 002, column image: no image"
    )


def test_duplicate_ids(umu, edit):
    path = edit(umu / "real_person", lambda rows: [*rows, rows[0]])
    assert fails(lambda: open_source(str(umu)).load("real")).startswith(
        f"{path}: split real holds ID 001 more than once"
    )


def test_split_without_rows(umu, edit):
    edit(umu / "real_person", lambda rows: [])
    assert "split real has no rows" in fails(lambda: open_source(str(umu)).load("real"))


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-100], lambda data: b"", lambda data: b"version https://git-lfs"]
)
def test_file_that_is_cut_off(umu, damage):
    path = umu / "real_person" / SHARD
    path.write_bytes(damage(path.read_bytes()))
    message = fails(lambda: open_source(str(umu)).load("real"))
    assert message.startswith(f"{path}: cannot be read (")
    assert "cut off or damaged" in message


def test_file_with_damaged_pages(umu):
    path = umu / "real_person" / SHARD
    data = bytearray(path.read_bytes())
    data[4:400] = b"\xff" * 396
    path.write_bytes(data)
    assert fails(lambda: open_source(str(umu)).load("real")).startswith(f"{path}: cannot be read (")


# --- copies that are not whole -----------------------------------------------------------------------------------


@pytest.mark.parametrize("split", ["forget05", "retain95", "full"])
def test_truncated_split_is_an_error_not_a_score(umu, edit, split):
    """A forget set that lost a person on the way must not be scored, from whichever set one starts."""
    edit(umu / "forget_5", lambda rows: rows[:1])
    source = open_source(str(umu))
    assert fails(lambda: source.load(split)) == fails(lambda: source.load(split)), "asking again must not help"
    assert fails(lambda: open_source(str(umu)).load(split)) == (
        f"{umu}: forget05 (1 people) and retain95 (3) together lack ID 002 of full (5). "
        "The copy is incomplete or mixes versions: download or copy all of it again."
    )
    assert open_source(str(umu)).load("real").ids == ("001", "002")


def test_truncated_full_set(umu, edit):
    edit(umu / "full_data", lambda rows: rows[1:])
    message = fails(lambda: open_source(str(umu)).load("forget05"))
    assert message.startswith(f"{umu}: forget05 holds ID 001 missing from full.")


def test_overlapping_retain_set(umu, edit):
    shared = pq.read_table(umu / "forget_5" / SHARD).to_pylist()[:1]
    edit(umu / "retain_95", lambda rows: rows + shared)
    for split in ("forget05", "retain95"):
        message = fails(lambda split=split: open_source(str(umu)).load(split))
        assert message.startswith(f"{umu}: forget05 and retain95 overlap: ID 001 in both.")


def test_forget_set_alone_can_be_used(umu):
    for name in ("retain_95", "full_data"):
        shutil.rmtree(umu / name)
    assert open_source(str(umu)).load("forget05").ids == ("001", "002")


def test_declared_row_count_that_differs_is_a_warning_with_both_numbers(umu, caplog):
    card = "---\ndataset_info:\n- config_name: forget_5\n  splits:\n  - name: train\n    num_examples: 25\n---\n"
    (umu / "README.md").write_text(card)
    assert len(open_source(str(umu)).load("forget05")) == 2
    assert f"{umu}: the dataset card declares 25 rows for forget05, the files hold 2" in caplog.text


# --- memory and speed --------------------------------------------------------------------------------------------

MEASURE = """
import resource, sys, time
from umu_tasks.benchmarks.sources import open_source
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
before = peak()
start = time.monotonic()
profiles = open_source(sys.argv[1]).load("full")
seconds = int(time.monotonic() - start)
loaded = peak()
questions = [question for profile in profiles for instance in profile.instances for question in instance]
assert all(question.text for question in questions)
pixels = {profile.open_image().getpixel((0, 0)) for profile in profiles}
print(len(profiles), len(questions), len(pixels), seconds, loaded - before, peak() - before)
"""


def write_large(folder: Path, people: int, group: int) -> None:
    """Write people with random-noise portraits of 1 MB each, in row groups as `datasets` writes them."""
    (folder / "full_data").mkdir()
    small = pq.read_table(FIXTURE / "data" / "full_data" / SHARD)
    rows = small.to_pylist()
    with pq.ParquetWriter(folder / "full_data" / SHARD, small.schema) as writer:
        for start in range(0, people, group):
            numbers = range(start, start + group)
            batch = [rows[i % 5] | {"ID": str(i), "image": {"bytes": noise(), "path": None}} for i in numbers]
            writer.write_table(pa.Table.from_pylist(batch, schema=small.schema))


@pytest.fixture(scope="module")
def large(tmp_path_factory) -> Path:
    """80 people, 83 MB of images."""
    folder = tmp_path_factory.mktemp("large")
    write_large(folder, 80, 20)
    return folder


def noise() -> bytes:
    buffer = io.BytesIO()
    Image.frombytes("RGB", (590, 590), os.urandom(590 * 590 * 3)).save(buffer, "BMP")
    return buffer.getvalue()


def measure(folder: Path) -> dict[str, int]:
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(folder)], check=True, capture_output=True, text=True, timeout=120
    )
    names = ("people", "questions", "pixels", "seconds", "loaded", "opened")
    return dict(zip(names, map(int, done.stdout.split()), strict=True))


def test_large_images_stay_on_disk(large):
    """Loading costs only the texts; opening every image costs a few row groups once, and nearly nothing later."""
    first = measure(large)
    assert (first["people"], first["questions"]) == (80, 80 * 12)
    assert first["pixels"] > 75
    assert first["loaded"] < 40, f"loading took {first['loaded']} MB"
    assert first["opened"] < 150, f"opening every image took {first['opened']} MB"
    later = measure(large)
    assert later["loaded"] < 40
    assert later["opened"] < 60, f"with the copy made, opening every image took {later['opened']} MB"


@pytest.mark.slow
def test_five_hundred_people_with_large_images(tmp_path):
    """The full set at 1 MB a portrait: seconds, and well under 1 GB even while its images are copied."""
    write_large(tmp_path, 500, 100)
    first = measure(tmp_path)
    assert (first["people"], first["questions"]) == (500, 500 * 12)
    assert first["seconds"] < 10
    assert first["loaded"] < 100
    assert first["opened"] < 500
    for folder in (tmp_path / "full_data", Path(os.environ["UMU_CACHE"])):
        shutil.rmtree(folder)  # pytest keeps temporary folders of several runs: not this gigabyte


def test_copy_of_large_images_follows_the_file(large, tmp_path, monkeypatch):
    """An exchanged file must never be scored with the portraits of the old one."""
    cache = tmp_path / "own cache"
    monkeypatch.setenv("UMU_CACHE", str(cache))
    folder = tmp_path / "umu"
    shutil.copytree(large, folder)
    path = folder / "full_data" / SHARD
    source = open_source(str(folder))
    old = source.load("full")
    before, old_sixth = old[0].open_image().tobytes(), old[5].open_image().tobytes()
    assert len(list(cache.rglob("*.images"))) == 1
    table = pq.read_table(path)
    pq.write_table(table.take(list(range(79, 4, -1))), path, row_group_size=10)
    new = source.load("full")
    assert (new.ids[0], new.ids[-1]) == ("79", "5")
    assert new[0].open_image().tobytes() != before
    assert new[-1].open_image().tobytes() == old_sixth
    assert len(list(cache.rglob("*.images"))) == 1, "the copy of the exchanged file is removed"


def test_large_file_exchanged_before_the_first_image(large, tmp_path):
    folder = tmp_path / "umu"
    shutil.copytree(large, folder)
    profiles = open_source(str(folder)).load("full")
    os.utime(folder / "full_data" / SHARD, ns=(1, 1))
    assert "changed since it was opened. Start again." in fails(profiles[0].open_image)


def test_cache_that_cannot_be_written(large, tmp_path, monkeypatch, caplog):
    (tmp_path / "file").touch()
    monkeypatch.setenv("UMU_CACHE", str(tmp_path / "file"))
    folder = tmp_path / "umu"
    shutil.copytree(large, folder)
    assert open_source(str(folder)).load("full")[3].open_image().size == (590, 590)
    assert "Set UMU_CACHE to a writable folder" in caplog.text
