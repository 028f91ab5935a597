"""Rows in the published schema and its variants become the same profile; what is something else is refused by name."""

from __future__ import annotations

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from umu_tasks.benchmarks import tables
from umu_tasks.benchmarks.errors import DataError
from umu_tasks.benchmarks.sources import FolderSource
from umu_tasks.tasks.mllmu import rows
from umu_tasks.tasks.mllmu.examples import draw_portrait


def png(red: int = 10) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (4, 4), (red, 0, 0)).save(buffer, format="PNG")
    return buffer.getvalue()


def make_row(**changes):
    options = {"A": "Pilot", "B": "Baker", "C": "Judge", "D": None}
    row = {
        "ID": "017",
        "image": {"bytes": png(), "path": None},
        "biography": "Ada Crane is a pilot.",
        "question": "Who is this?",
        "answer": "Ada Crane.",
        "Classification_Task": {
            "Image_Textual_Questions": [
                {"Question": "What is this person's occupation?", "Options": options, "Correct_Answer": "A"}
            ],
            "Pure_Text_Questions": [
                {"Question": "What is Ada Crane's occupation?", "Options": {"A": "Poet", "B": "Pilot"},
                 "Correct_Answer": "B. Pilot"}
            ],
        },
        "Mask_Task": [{"Type": "Pure_Text", "Question": "Ada Crane lives in __.", "Ground_Truth": "Oslo"}],
        "Generation_Task": [{"Type": "Image_Textual", "Question": "Describe this person.", "Ground_Truth": "A pilot."}],
    }  # fmt: skip
    return row | changes


def parse(**changes):
    return rows.parse_row(make_row(**changes), file="forget_5/train.parquet")


def test_nested_structs():
    profile = parse()
    uni, mul, cloze, gen = profile.asked
    assert (uni.key, uni.modality, uni.gold, uni.gold_letter) == ("occupation", "unimodal", "Pilot", "B")
    assert (mul.key, mul.modality, mul.gold, mul.gold_letter) == ("occupation", "multimodal", "Pilot", "A")
    assert list(mul.options) == ["A", "B", "C"]  # a struct column fills in letters that a question does not have
    assert (cloze.task, cloze.modality, cloze.gold, cloze.key) == ("cloze", "unimodal", "Oslo", "residence-uni0")
    assert (gen.task, gen.modality) == ("gen", "multimodal")
    assert [tuple(instance) for instance in profile.instances] == [(uni, mul)]
    assert profile.open_image().getpixel((0, 0)) == (10, 0, 0)


def test_json_text_in_place_of_structs_is_the_same():
    texts = {name: json.dumps(make_row()[name]) for name in rows.TASK_COLUMNS.values()}
    assert parse(**texts).asked == parse().asked


@pytest.mark.parametrize("cell", [17, 17.0, "17", "017"])
def test_both_id_types_are_one_person(cell):
    """Test_Set is filtered to the forget set's IDs: were 17 and "017" two people, it would be empty."""
    assert parse(ID=cell).profile_id == "017"


def test_names_as_ids_stay():
    assert parse(ID="celebrity_12").profile_id == "celebrity_12"


@pytest.mark.parametrize("wrap", [dict, "bytes", "decoded", "list", "function"])
def test_image_forms(wrap):
    cell = {"bytes": png(77), "path": None}
    forms = {
        dict: cell,
        "bytes": cell["bytes"],
        "decoded": Image.open(io.BytesIO(png(77))),
        "list": [cell, {"bytes": png(99), "path": None}],
        "function": lambda: cell,
    }
    assert parse(image=forms[wrap]).open_image().getpixel((0, 0)) == (77, 0, 0)


def test_images_column_holds_several():
    profile = parse(image=None, images=[{"bytes": png(red), "path": None} for red in (1, 2, 3)])
    assert [profile.portraits.image(number)().getpixel((0, 0))[0] for number in range(3)] == [1, 2, 3]
    assert len(profile.portraits) == 3
    with pytest.raises(DataError, match=r"row ID 017.*image 3 of 3 asked for"):
        profile.portraits.image(3)()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ID": None}, "column ID: a row without ID"),
        ({"image": None}, "row ID 017, column image: no image"),
        ({"Mask_Task": {}}, "column Mask_Task: expected a list, found dict"),
        ({"Mask_Task": [{"Type": "Text", "Question": "_", "Ground_Truth": "x"}]},
         "entry 0: Type 'Text'; expected 'Pure_Text' or 'Image_Textual'"),
        ({"Mask_Task": [{"Type": "Pure_Text", "Question": "__"}]}, "no 'Ground_Truth'; found 'Type', 'Question'"),
        ({"Classification_Task": []}, "expected a dictionary, found list"),
        ({"Classification_Task": {"Pure_Text_Questions": []}}, "no list 'Image_Textual_Questions'"),
        ({"Classification_Task": {"Image_Textual_Questions": [], "Pure_Text_Questions": [
            {"Question": "?", "Options": {"A": "x"}, "Correct_Answer": "E"}]}}, "'E' names none of the options 'A'"),
        ({"Classification_Task": "{not json"}, "neither JSON nor a Python literal"),
        ({"Generation_Task": [{"Type": "Pure_Text", "Question": ["?"], "Ground_Truth": "x"}]}, "expected text"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(changes, message):
    with pytest.raises(DataError) as caught:
        parse(**changes)
    assert message in str(caught.value)
    assert "forget_5/train.parquet" in str(caught.value)


@pytest.mark.parametrize("column", [*rows.TASK_COLUMNS.values(), "metadata"])
def test_half_a_character_is_named_by_row_and_column(column):
    """JSON may spell half of an emoji, which no tokenizer takes: it would end a task without saying which row."""
    row = make_row(metadata=[{"Question": "Who is Ada Crane?", "Answer": "Ada Crane."}])
    broken = json.dumps(row[column]).replace("Ada Crane", "Ada \\ud83d").replace("A pilot", "\\ude00")
    assert "\\ud" in broken
    with pytest.raises(DataError) as caught:
        rows.parse_row(row | {column: broken}, file="forget_5/train.parquet")
    message = str(caught.value)
    assert message.startswith(f"forget_5/train.parquet, row ID 017, column {column}: ")
    assert "holds half of a character" in message
    message.encode()


def test_half_a_character_is_left_out_when_reading_goes_on():
    """`umu data check` lists the problem, and prints the rest of the row."""
    found: list[DataError] = []
    text = json.dumps(make_row()["Mask_Task"]).replace("Oslo", "Os\\udc00lo")
    profile = rows.parse_row(make_row(Mask_Task=text), file="f", report=found.append)
    assert [problem.kind for problem in found] == ["half a character"]
    assert [one.gold for one in profile.asked if one.task == "cloze"] == ["Os�lo"]


def test_whole_emoji_are_text():
    text = json.dumps(make_row()["Mask_Task"]).replace("Oslo", "\\ud83d\\ude00 Zo\\u00eb")
    assert [one.gold for one in parse(Mask_Task=text).asked if one.task == "cloze"] == ["😀 Zoë"]


def write(folder, name, table_rows):
    path = folder / name / "train-00000-of-00001.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(table_rows), path)
    return folder


def test_umu_rows_are_a_schema_error(tmp_path):
    """Read with the wrong adapter they would make an empty run: no question, nothing scored."""
    umu = dict.fromkeys(("ID", "Biography", "MM_QA", "UM_QA", "Classify", "Cloze", "Generation"), "x")
    source = FolderSource(write(tmp_path, "forget_5", [umu | {"image": {"bytes": png()}}]), rows)
    with pytest.raises(DataError, match=r"This looks like UMU-Bench .*use the umu tasks and UMU_DATA"):
        source.load("forget05")


def test_mllmu_rows_are_a_schema_error_for_umu(tmp_path):
    from umu_tasks.tasks.umu import rows as umu_rows

    source = FolderSource(write(tmp_path, "forget_5", [make_row()]), umu_rows)
    with pytest.raises(DataError, match=r"This looks like MLLMU-Bench .*use the mllmu tasks and MLLMU_DATA"):
        source.load("forget05")


def test_text_in_another_encoding_is_named(tmp_path):
    """Parquet files are not checked when they are written: a tool that wrote Latin-1 must be told which row."""
    latin = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(b"\x00\x00\x00\x00\x03\x00\x00\x00"), pa.py_buffer(b"Zo\xeb")]
    )
    table = pa.Table.from_pylist([make_row()])
    place = table.column_names.index("biography")
    folder = tmp_path / "forget_5"
    folder.mkdir()
    pq.write_table(table.set_column(place, "biography", latin), folder / "train-00000-of-00001.parquet")
    with pytest.raises(DataError, match=r"parquet, column biography: row 0 .*is no UTF-8") as caught:
        FolderSource(tmp_path, rows).load("forget05")
    assert "train-00000" in str(caught.value)


def test_missing_task_column_is_named(tmp_path):
    row = make_row()
    del row["Mask_Task"]
    source = FolderSource(write(tmp_path, "forget_5", [row]), rows)
    with pytest.raises(DataError, match="column Mask_Task: missing from this file"):
        source.load("forget05")


@pytest.mark.parametrize("in_memory", [0, tables.IN_MEMORY_BYTES])
@pytest.mark.parametrize("images", [[], None])
def test_row_of_the_test_set_without_an_image_is_named(tmp_path, monkeypatch, images, in_memory):
    """A list that was filtered to nothing must not end in an error of the draw, which names neither file nor row."""
    monkeypatch.setenv("UMU_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(tables, "IN_MEMORY_BYTES", in_memory)
    whole = make_row(images=[{"bytes": png(1), "path": None}])
    del whole["image"]
    source = FolderSource(write(tmp_path / "data", "Test_Set", [whole, whole | {"ID": "018", "images": images}]), rows)

    def show_all():
        return [person.portraits.image(draw_portrait(person, with_seed=0))() for person in source.load("test")]

    with pytest.raises(DataError, match=r"train-00000-of-00001.parquet, row ID 018, column images?: .*[Ii]mage"):
        show_all()


def test_large_image_lists_are_read_one_by_one(tmp_path, monkeypatch):
    """Files too large for memory go through the image store, lists of images too."""
    monkeypatch.setenv("UMU_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(tables, "IN_MEMORY_BYTES", 0)
    row = make_row(images=[{"bytes": png(red), "path": None} for red in (1, 2)])
    del row["image"]
    (profile,) = FolderSource(write(tmp_path / "data", "Test_Set", [row]), rows).load("test")
    assert [image().getpixel((0, 0))[0] for image in profile.images()] == [1, 2]
    assert profile.open_image().getpixel((0, 0))[0] == 1


# ---- training data ----------------------------------------------------------------------------------------------


def test_metadata_text_holds_the_pairs(source):
    people = source.load("ft_Data")
    assert [pair.answer for pair in people.by_id("002").pairs] == ["Judge", "Bo Reed."]
    assert all(pair.has_image for person in people for pair in person.pairs)
    assert not any(person.asked for person in people)


def test_entry_that_says_so_has_no_image():
    entries = [{"Question": "a", "Answer": "b", "Type": "Pure_Text"}, {"Question": "c", "Answer": "d"}]
    assert [pair.modality for pair in parse(metadata=json.dumps(entries)).pairs] == ["unimodal", "multimodal"]


def test_baseline_train_split_without_ids():
    """The separate training layout: the content names the row, so that two reads agree."""
    row = {"image": {"bytes": png()}, "metadata": '[{"Question": "Who?", "Answer": "Ada."}]'}
    first, second = (rows.parse_row(row, file="f") for _ in range(2))
    assert first.profile_id == second.profile_id
    assert first.profile_id.startswith("row-")
    assert rows.missing_columns(["image", "metadata"]) == []


def test_one_row_a_pair_is_merged(tmp_path):
    """ft_Data in its flat form has a person's image again in each row."""
    flat = [{"ID": 1, "image": {"bytes": png()}, "question": q, "answer": a} for q, a in (("x", "1"), ("y", "2"))]
    (person,) = FolderSource(write(tmp_path, "ft_Data", flat), rows).load("ft")
    assert [(pair.key, pair.question, pair.answer) for pair in person.pairs] == [("0", "x", "1"), ("1", "y", "2")]


def test_repeated_people_in_a_scored_split_stay_an_error(tmp_path):
    source = FolderSource(write(tmp_path, "forget_5", [make_row(), make_row()]), rows)
    with pytest.raises(DataError, match="holds ID 017 more than once"):
        source.load("forget05")
