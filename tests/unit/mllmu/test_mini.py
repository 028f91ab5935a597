"""UMU-mini's people in MLLMU-Bench's schema."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from umu_tasks.benchmarks.sources import FolderSource
from umu_tasks.mini.mllmu import POSES_A_PERSON, build_mllmu_mini
from umu_tasks.tasks.mllmu import rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("mini")
    build_mllmu_mini(out, people=8, real=2)
    return out


@pytest.fixture(scope="module")
def mini(folder):
    return FolderSource(folder, rows)


def test_same_arguments_give_the_same_files(folder, tmp_path):
    """Cached data and results of different machines must be about the same people."""
    build_mllmu_mini(tmp_path, people=8, real=2)
    for file in folder.rglob("*.parquet"):
        assert file.read_bytes() == (tmp_path / file.relative_to(folder)).read_bytes()


def test_published_folders_and_columns(folder):
    names = {path.name for path in folder.iterdir()}
    assert names == {
        "Full_Set", "Retain_Set", "Test_Set", "ft_Data",
        "forget_5", "forget_10", "forget_15", "retain_95", "retain_90", "retain_85",
    }  # fmt: skip
    columns = pq.read_schema(folder / "Test_Set" / "train-00000-of-00001.parquet")
    assert "images" in columns.names
    assert "image" not in columns.names
    assert str(columns.field("Classification_Task").type).startswith("struct<Image_Textual_Questions: list<")


def test_test_set_has_other_poses_and_other_words(mini):
    """The same facts of the same people; no portrait and no question as in the full set."""
    for person in mini.load("test"):
        usual = mini.load("full").by_id(person.profile_id)
        shown = {image().tobytes() for image in person.images()}
        assert len(shown) == POSES_A_PERSON
        assert usual.open_image().tobytes() not in shown
        for one, other in zip(person.asked, usual.asked, strict=True):
            assert (one.task, one.modality, one.gold) == (other.task, other.modality, other.gold)
            assert one.text != other.text


def test_facts_asked_in_both_modalities_are_found(mini):
    """Two classification, two cloze, two generation pairs a person, and one classification question in text alone."""
    for person in mini.load("full"):
        assert len(person.instances) == 6
        alone = [one for one in person.asked if "-uni" in one.key or "-mul" in one.key]
        assert [(one.task, one.modality) for one in alone] == [("cls", "unimodal")]


def test_nobody_is_real_and_invented(mini):
    real, invented = ({person.biography for person in mini.load(split)} for split in ("real", "full"))
    assert real.isdisjoint(invented)
    assert set(mini.load("real").ids) <= set(mini.load("full").ids)  # IDs clash, as in the published data
