"""Finding splits in folders."""

from pathlib import Path

import pytest

from umu_tasks.benchmarks.errors import DataError
from umu_tasks.benchmarks.layout import find_layout
from umu_tasks.benchmarks.splits import resolve_split


def touch(root: Path, *names: str) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return root


def found(root: Path) -> dict[str, list[str]]:
    splits = find_layout(root, resolve_split).splits
    return {split: [str(path.relative_to(root)) for path in files.files] for split, files in splits.items()}


SHARD = "train-00000-of-00001.parquet"


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (
            [f"forget_5/{SHARD}", f"retain_95/{SHARD}", f"real_person/{SHARD}", f"full_data/{SHARD}"],
            {
                "forget05": [f"forget_5/{SHARD}"],
                "retain95": [f"retain_95/{SHARD}"],
                "real": [f"real_person/{SHARD}"],
                "full": [f"full_data/{SHARD}"],
            },
        ),
        ([f"Full_Set/{SHARD}", "notes/a.txt", ".git/x"], {"full": [f"Full_Set/{SHARD}"]}),
        ([f"data/REAL_PERSON_SET/{SHARD}"], {"real": [f"data/REAL_PERSON_SET/{SHARD}"]}),
        (["forget_5.parquet", "full.parquet"], {"forget05": ["forget_5.parquet"], "full": ["full.parquet"]}),
        (
            ["data/forget_5-00001-of-00002.parquet", "data/forget_5-00000-of-00002.parquet"],
            {"forget05": ["data/forget_5-00000-of-00002.parquet", "data/forget_5-00001-of-00002.parquet"]},
        ),
        (["full/b.parquet", "full/a.parquet"], {"full": ["full/a.parquet", "full/b.parquet"]}),
        ([f"full/{SHARD}", "full/test-00000-of-00001.parquet"], {"full": [f"full/{SHARD}"]}),
        (["full/train/0000.parquet"], {"full": ["full/train/0000.parquet"]}),
        (["full/state.json", "full/data-00000-of-00001.arrow"], {"full": ["full"]}),
        (["full/dataset_dict.json", "full/train/state.json"], {"full": ["full/train"]}),
        ([f"snapshots/0123abc/full_data/{SHARD}"], {"full": [f"snapshots/0123abc/full_data/{SHARD}"]}),
        (["full/train-00000-of-00001-0123abcdef.parquet"], {"full": ["full/train-00000-of-00001-0123abcdef.parquet"]}),
    ],
)
def test_layouts(tmp_path, names, expected):
    assert found(touch(tmp_path, *names)) == expected


CARD = """---
configs:
- config_name: Real_Person_Set
  data_files:
  - split: train
    path: people/train-*
- config_name: forget_5
  data_files: f5.parquet
- config_name: Full_Set
  data_files:
  - split: test
    path: other/*
  - split: train
    path: [full_data/train-*]
- config_name: retain_95
  data_files: gone/train-*
dataset_info:
- config_name: Real_Person_Set
  splits:
  - name: train
    num_examples: 153
- config_name: forget_5
  splits:
  - {name: train, num_examples: 25}
---
# UMU-Bench
"""


def test_dataset_card_names_files_and_row_counts(tmp_path):
    names = [f"people/{SHARD}", "f5.parquet", f"full_data/{SHARD}", f"retain_95/{SHARD}", f"full_set/{SHARD}"]
    touch(tmp_path, *names)
    (tmp_path / "README.md").write_text(CARD)
    assert found(tmp_path) == {
        "real": [f"people/{SHARD}"],
        "forget05": ["f5.parquet"],
        "full": [f"full_data/{SHARD}"],
        "retain95": [f"retain_95/{SHARD}"],
    }
    declared = {name: one.declared_rows for name, one in find_layout(tmp_path, resolve_split).splits.items()}
    assert declared == {"real": 153, "forget05": 25, "full": None, "retain95": None}


def test_dataset_card_above_the_data_folder(tmp_path):
    touch(tmp_path, f"data/real_person/{SHARD}")
    (tmp_path / "README.md").write_text(CARD)
    assert find_layout(tmp_path, resolve_split).splits["real"].declared_rows == 153


@pytest.mark.parametrize(
    "card",
    [
        "# no front matter",
        "---\n: [\n---\n",
        "---\n- a list\n---\n",
        "---\nconfigs: 3\n---\n",
        "text\n---\na: 1\n---\n",
        "---\nconfigs:\n- config_name: full\n  data_files: ../../*.parquet\n---\n",
    ],
)
def test_other_readme_files_do_not_matter(tmp_path, card):
    touch(tmp_path, f"full/{SHARD}")
    (tmp_path / "README.md").write_text(card)
    assert found(tmp_path) == {"full": [f"full/{SHARD}"]}


def test_two_folders_for_one_split(tmp_path):
    touch(tmp_path, f"full_data/{SHARD}", f"full_set/{SHARD}")
    with pytest.raises(DataError, match="two copies of split full: full_data and full_set"):
        find_layout(tmp_path, resolve_split)


def test_missing_shard(tmp_path):
    """A copy that stopped half-way must not be scored as if it were whole."""
    touch(tmp_path, "full/train-00000-of-00003.parquet", "full/train-00002-of-00003.parquet")
    with pytest.raises(DataError, match=r"full: 2 of 3 parquet files found; number 1 missing\. The copy is incomplete"):
        find_layout(tmp_path, resolve_split)


def test_folder_without_splits_says_what_is_there_and_what_is_expected(tmp_path):
    touch(tmp_path, "images/a.png", "notes.txt")
    with pytest.raises(
        DataError, match=r"no split .* found images, notes\.txt\. Expected one folder a split.*forget_5/"
    ):
        find_layout(tmp_path, resolve_split)


def test_empty_folder(tmp_path):
    with pytest.raises(DataError, match="found an empty folder"):
        find_layout(tmp_path, resolve_split)


def test_folder_of_one_split_points_to_the_folder_above(tmp_path):
    touch(tmp_path, f"forget_5/{SHARD}")
    with pytest.raises(DataError, match=f"Give the folder above it: {tmp_path}"):
        find_layout(tmp_path / "forget_5", resolve_split)
