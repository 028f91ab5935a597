"""Which column is what, and which rows can be used."""

import pytest

from umu_tasks.benchmarks.errors import DataError
from umu_tasks.build.people import read_people
from umu_tasks.build.problems import Problems
from umu_tasks.build.table import read_table
from umu_tasks.build.templates import load_templates


@pytest.fixture
def people(tmp_path):
    photos = tmp_path / "photos"
    photos.mkdir()

    def read(text, files=("a.jpg", "b.jpg"), **options):
        for name in files:
            (photos / name).touch()
        path = tmp_path / "people.csv"
        path.write_text(text, encoding="utf-8")
        problems = Problems()
        found = read_people(read_table(path, problems), photos, load_templates(), problems, **options)
        return found, [str(error).removeprefix(f"{tmp_path}/") for error in problems.errors], problems.warnings

    return read


def test_columns_are_found(people):
    found, errors, _ = people("Person ID,Full name,Photo,Job,Bio\n1,Ada,a.jpg,Pilot,Flies.\n2,Bo,b.jpg,,\n")
    assert errors == []
    assert found.fields == ("occupation",)
    ada, bo = found.people
    assert (ada.profile_id, ada.name, ada.photo.name, ada.facts, ada.biography) == (
        "1", "Ada", "a.jpg", {"occupation": "Pilot"}, "Flies.",
    )  # fmt: skip
    assert bo.facts == {}


def test_columns_that_the_user_names(people):
    roles = {"id": "No", "name": "who", "image": "Pic"}
    found, _, _ = people("No,who,Pic,photo,job\n1,Ada,a.jpg,x,Pilot\n", roles=roles, skip=["Photo"])
    assert (found.people[0].photo.name, found.fields) == ("a.jpg", ("occupation",))


def test_without_an_image_column_photos_are_called_like_the_id(people):
    text = "id,name,job\na,Ada,Pilot\nb,Bo,Baker\nc,Cy,Judge\n"
    found, errors, _ = people(text, files=("a.JPG", "b.png", "b.webp", "c.txt"))
    assert [person.photo.name for person in found.people] == ["a.JPG"]
    assert errors[0].startswith("people.csv, line 3, row ID b: several files")
    assert errors[1].startswith("people.csv, line 4, row ID c: no file")


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("name,image,job\nA,a.jpg,x\n", {}, "no column for the id; found name, image, job. Call it 'id'"),
        ("id,image,job\n1,a.jpg,x\n", {}, "no column for the name; .* or name it with --name_column"),
        ("id,name,image,photo\n1,A,a.jpg,a.jpg\n", {}, "columns image and photo could both be the image"),
        ("id,name,image\n1,A,a.jpg\n", {}, "no column with facts"),
        ("id,name,image,job,profession\n1,A,a.jpg,x,y\n", {}, "columns job and profession both hold the field"),
        ("id,name,image,job\n1,A,a.jpg,x\n", {"skip": ["notes"]}, "--skip notes: no such column"),
        ("id,name,image,job\n1,A,a.jpg,x\n", {"roles": {"id": "no"}}, "--id_column no: no such column; found id, name"),
    ],
)  # fmt: skip
def test_tables_that_cannot_be_used(people, text, options, message):
    with pytest.raises(DataError, match=message):
        people(text, **options)


def test_every_faulty_row_is_named(people):
    text = "id,name,image,job\n,A,a.jpg,x\n1,,a.jpg,x\n2,B,,x\n3,C,A.jpg,x\n4,D,none.jpg,x\n5,E,a.jpg,x\n5,F,b.jpg,x\n"
    found, errors, _ = people(text)
    assert [person.profile_id for person in found.people] == ["5"]
    assert [error.split(":")[0] for error in errors] == [
        "people.csv, line 2, column id",
        "people.csv, line 3, row ID 1, column name",
        "people.csv, line 4, row ID 2, column image",
        "people.csv, line 5, row ID 3, column image",
        "people.csv, line 6, row ID 4, column image",
        "people.csv, line 8, row ID 5, column id",
    ]
    assert errors[3].endswith("Did you mean 'a.jpg'?")
    assert errors[5].endswith("this ID stands in line 7 already. Each person needs its own.")


def test_two_people_of_one_name(people):
    """A text question cannot tell them apart: forgetting one would mean forgetting the other."""
    _, errors, warnings = people("id,name,image,job\n1,Al Roe,a.jpg,x\n2,al  roe,b.jpg,y\n")
    assert errors == []
    assert "'Al Roe' is the name of ID 1, 2" in warnings[0]
