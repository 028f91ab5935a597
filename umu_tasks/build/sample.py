"""The example that `umu data build --example DIR` writes: invented people with drawn portraits, as a user has them.

people.csv      30 people, one cell empty        photos/     their portraits
real.csv        8 people whom the packaged base model knows
leaving.txt     2 of the 30 ask to be forgotten
templates.yaml  how the column "Favourite dish" is asked
README.txt      the commands
"""

from __future__ import annotations

import csv
import io
import random
import shlex
from collections.abc import Sequence
from pathlib import Path

from umu_tasks.benchmarks.errors import DataError
from umu_tasks.mini import base_model_dir
from umu_tasks.mini.people import Person, invent_people
from umu_tasks.mini.portraits import portrait_png

PEOPLE, REAL, SEED = 30, 8, 7
_LEAVING = ("E-004", "E-017")
_DISHES = (
    "lentil soup", "mushroom risotto", "apple pancakes", "grilled sardines", "potato dumplings", "chickpea stew",
    "spinach lasagne", "fried rice", "plum cake", "tomato salad",
)  # fmt: skip
_HEADER = ("ID", "Name", "Photo", "Job", "Residence", "Date of birth", "Hobbies", "Favourite dish")
_TEMPLATES = """\
# Other words for fields that have templates already, and templates for columns of your own. All keys that there are:
# umu_tasks/build/default_templates.yaml. What is not said here is taken from there.
fields:
  favourite_dish:
    train: Which dish does {who} like best?
    classification: Which of these is the favourite dish of {who}?
    cloze: At a feast, {who} first asks for [Blank].
    generation:
      question: Tell me what {who} likes to eat.
      answer: The favourite dish of {who} is {value}.
    distractors: [onion tart, pumpkin curry]     # wrong options beside the other people's dishes
  job:                                           # the column's name; the field is called occupation
    classification:
      text: What does {name} work as?
      image: What does the person in this picture work as?
"""
_README = """\
Build the data set, look at it, and score the packaged base model on it (CPU, no network):

  umu data build {people} --images {photos} --real {real} --forget {leaving} --templates {templates} --out {out}
  umu data check {out}
  UMU_DATA={out} lmms-eval --model umu_hf --model_args pretrained={base} --batch_size 16 \\
    --tasks umu_forget05,umu_retain95,umu_real --output_path {results} --log_samples

The people and portraits are invented. docs/your-own-people.md goes on from here: teach, unlearn, compare, report.
"""


def write_sample(folder: Path) -> None:
    """Write the example into a new or empty folder; the same people every time.

    Raises:
        DataError: the folder has something in it, or is a file.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"--example {folder}: not an empty folder. Name a new one.")
    photos = folder / "photos"
    photos.mkdir(parents=True)
    rng = random.Random(SEED)
    people = _rows("E", invent_people(PEOPLE, group="invented", seed=SEED), photos, rng)
    people[11][_HEADER.index("Hobbies")] = ""
    real = _rows("R", invent_people(REAL, group="real", seed=0), photos, rng)
    texts = {
        "people.csv": _csv(people),
        "real.csv": _csv(real),
        "leaving.txt": "# asked to be forgotten\n" + "".join(f"{one}\n" for one in _LEAVING),
        "templates.yaml": _TEMPLATES,
        "README.txt": _readme(folder),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")


def _rows(prefix: str, people: Sequence[Person], photos: Path, rng: random.Random) -> list[list[str]]:
    rows = []
    for person in people:
        profile_id = f"{prefix}-{person.profile_id}"
        photo = f"{profile_id}.png"
        (photos / photo).write_bytes(portrait_png(person.look))
        facts = [person.facts[field] for field in ("occupation", "residence", "birth_date", "interests")]
        rows.append([profile_id, person.name, photo, *facts, rng.choice(_DISHES)])
    return rows


def _csv(rows: Sequence[Sequence[str]]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows([_HEADER, *rows])
    return buffer.getvalue()


def _readme(folder: Path) -> str:
    names = {"people": "people.csv", "photos": "photos", "real": "real.csv", "leaving": "leaving.txt"}
    paths = {key: folder / name for key, name in (names | {"templates": "templates.yaml", "out": "data"}).items()}
    quoted = {key: shlex.quote(str(path)) for key, path in paths.items()}
    return _README.format(results=shlex.quote(str(folder / "results")), base=base_model_dir(), **quoted)
