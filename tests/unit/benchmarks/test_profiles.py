"""Sets of profiles."""

import io

import pytest
from PIL import Image

from umu_tasks.benchmarks.errors import DataError
from umu_tasks.benchmarks.profiles import ProfileSet
from umu_tasks.tasks.umu.rows import parse_row


def png(color) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (4, 4), color).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.fixture
def make_set(make_row, parts):
    def make(ids=("1", "2", "3"), file="a.parquet", image=None, write=repr, **changes):
        rows = [make_row(parts, write, one) | changes for one in ids]
        rows = [row | ({"image": image} if image else {}) for row in rows]
        return ProfileSet("forget05", [parse_row(row, file=file) for row in rows], source=file)

    return make


def test_is_a_sequence_with_access_by_id(make_set):
    profiles = make_set()
    assert len(profiles) == 3
    assert profiles.ids == ("1", "2", "3")
    assert [profile.profile_id for profile in profiles] == ["1", "2", "3"]
    assert profiles[-1] is profiles.by_id("3")
    assert profiles[:2] == (profiles[0], profiles[1])


def test_unknown_id(make_set):
    with pytest.raises(DataError, match=r"a\.parquet: split forget05 has no person with ID '9'; it holds 3: 1, 2, 3"):
        make_set().by_id("9")


def test_duplicate_ids(make_set):
    with pytest.raises(DataError, match=r"a\.parquet: split forget05 holds ID 1 more than once"):
        make_set(ids=("1", "2", "1"))


def test_fingerprint_depends_on_content_alone(make_set):
    """A result file names its data by it: the same data must give the same value from any place and in any format."""
    reference = make_set().fingerprint
    assert make_set(file="elsewhere/b.parquet").fingerprint == reference
    assert make_set(write=lambda part: part).fingerprint == reference
    others = [
        make_set(ids=("1", "2")),
        make_set(ids=("1", "3", "2")),
        make_set(Biography="changed"),
        make_set(image={"bytes": png("red"), "path": None}),
        make_set(UM_QA="{'question': {'0': 'q'}, 'answer': {'0': 'a'}}"),
        make_set(Cloze="{'unimodal': {'k': {'question': 'q', 'answer': 'a'}}, 'muitimodal': {'k': {'question': 'q', "
                       "'answer': 'b'}}}"),
    ]  # fmt: skip
    assert len({reference, *(other.fingerprint for other in others)}) == 7


def test_fingerprint_sees_a_different_image_behind_the_same_path(make_set, tmp_path):
    file = tmp_path / "a.parquet"
    (tmp_path / "x.png").write_bytes(png("red"))
    first = make_set(file=str(file), image={"bytes": None, "path": "x.png"}).fingerprint
    (tmp_path / "x.png").write_bytes(png("blue"))
    assert make_set(file=str(file), image={"bytes": None, "path": "x.png"}).fingerprint != first
