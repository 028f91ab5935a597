"""Writes UMU-mini's people in MLLMU-Bench's schema: nested structs, a Test_Set of paraphrases and poses, `ft_Data`.

    Full_Set, forget_5 … retain_85, Retain_Set   ID, image, Directory, biography, question, answer, three task columns
    Test_Set                                     the same people, `images` (several poses) in place of `image`
    ft_Data                                      ID, image, metadata

`Retain_Set` holds the "real" people, as in the published data; they have IDs of their own that the invented people have
too. The packaged base model knows them, and nobody else.
"""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from umu_tasks.mini.build import PEOPLE, REAL, SEED, cached_build, forget_sets
from umu_tasks.mini.mllmu_poses import POSES, pose_pngs
from umu_tasks.mini.mllmu_questions import description, task_cells, training_entries
from umu_tasks.mini.people import Person, invent_people
from umu_tasks.mini.portraits import portrait_png
from umu_tasks.tasks.umu.written import FILE_NAME, Row

POSES_A_PERSON = 3


def build_mllmu_mini(out: Path, people: int = PEOPLE, real: int = REAL, seed: int = SEED) -> None:
    """Write all splits under `out`; the same arguments give the same bytes. Arguments as for `build_mini`."""
    invented = invent_people(people, group="invented", seed=seed)
    rows = [_row(person) for person in invented]
    celebrities = [_row(person) for person in invent_people(real, group="real", seed=seed)]
    _write(out, "Full_Set", rows, _schema("image"))
    _write(out, "Retain_Set", celebrities, _schema("image"))
    _write(out, "Test_Set", [_test_row(person) for person in invented], _schema("images"))
    _write(out, "ft_Data", [_training_row(person, row) for person, row in zip(invented, rows, strict=True)], _FT_SCHEMA)
    for ratio, forgotten in forget_sets(people, seed).items():
        _write(out, f"forget_{ratio}", [row for i, row in enumerate(rows) if i in forgotten], _schema("image"))
        kept = [row for i, row in enumerate(rows) if i not in forgotten]
        _write(out, f"retain_{100 - ratio}", kept, _schema("image"))


def mllmu_data_dir() -> Path:
    """Return the folder in the user's cache, building it first if it is not there.

    Raises:
        OSError: the cache folder cannot be written; `$UMU_CACHE` names another one.
    """
    return cached_build("mini-mllmu", build_mllmu_mini)


def _row(person: Person) -> Row:
    question, answer = description(person)
    return {
        "ID": person.profile_id,
        "image": {"bytes": portrait_png(person.look), "path": f"{person.profile_id}.png"},
        "Directory": f"{person.profile_id}.png",
        "biography": person.biography,
        "question": question,
        "answer": answer,
        **task_cells(person),
    }


def _test_row(person: Person) -> Row:
    names = tuple(random.Random(f"poses-{person.name}").sample(sorted(POSES), POSES_A_PERSON))
    images = [
        {"bytes": png, "path": f"{person.profile_id}_pose{number}.png"}
        for number, png in enumerate(pose_pngs(person.look, names))
    ]
    row: Row = {"ID": person.profile_id, "images": images, "Directory": person.profile_id}
    question, answer = description(person)
    return {
        **row,
        "biography": person.biography,
        "question": question,
        "answer": answer,
        **task_cells(person, paraphrased=True),
    }


def _training_row(person: Person, row: Row) -> Row:
    entries = list(training_entries(person))
    return {"ID": person.profile_id, "image": row["image"], "metadata": json.dumps(entries, ensure_ascii=False)}


_TEXT = pa.string()
_IMAGE = pa.struct([("bytes", pa.binary()), ("path", _TEXT)])
_OPTIONS = pa.struct([(letter, _TEXT) for letter in "ABCD"])
_CHOICES = pa.list_(pa.struct([("Question", _TEXT), ("Options", _OPTIONS), ("Correct_Answer", _TEXT)]))
_OPEN = pa.list_(pa.struct([("Type", _TEXT), ("Question", _TEXT), ("Ground_Truth", _TEXT)]))
_FT_SCHEMA = pa.schema([("ID", _TEXT), ("image", _IMAGE), ("metadata", _TEXT)])


@functools.cache
def _schema(image_column: str) -> pa.Schema:
    return pa.schema(
        [
            ("ID", _TEXT),
            (image_column, _IMAGE if image_column == "image" else pa.list_(_IMAGE)),
            *((name, _TEXT) for name in ("Directory", "biography", "question", "answer")),
            (
                "Classification_Task",
                pa.struct([("Image_Textual_Questions", _CHOICES), ("Pure_Text_Questions", _CHOICES)]),
            ),
            ("Generation_Task", _OPEN),
            ("Mask_Task", _OPEN),
        ]
    )


def _write(out: Path, folder: str, rows: Sequence[Row], schema: pa.Schema) -> None:
    path = out / folder / FILE_NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), path)
