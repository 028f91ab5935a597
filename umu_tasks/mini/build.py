"""Writes UMU-mini: invented people as parquet files with UMU-Bench's columns and folders.

One row, as the hub's files hold it (the last five columns are strings with a Python literal inside; the published
data spell "multimodal" as they do here):

    ID          001
    image       {'bytes': PNG, 'path': '001.png'}
    Biography   Aiko Cardoso was born on 2 June 1994 in Sapporo, Japan. …
    MM_QA       {'question': {'0': 'Where was this person born?', …}, 'answer': {'0': 'Sapporo, Japan', …}}
    UM_QA       {'question': {'0': 'Where was Aiko Cardoso born?', …}, 'answer': {'0': 'Sapporo, Japan', …}}
    Classify    {'unimodal': {'education': {'question': …, 'options': {'A': …}, 'answer': 'B. …'}}, 'muitimodal': {…}}
    Cloze       {'unimodal': {'height': {'question': …, 'answer': '171 cm'}}, 'muitimodal': {…}}
    Generation  {'unimodal': {'life': {'question': …, 'answer': …}}, 'muitimodal': {…}}

The forget sets are nested: the people of forget_5 are in forget_10 too, and those in forget_15. IDs are unique within
the invented people and within the real people only, as in the published data.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from umu_tasks.benchmarks.cache import cache_dir
from umu_tasks.benchmarks.errors import DataError
from umu_tasks.benchmarks.instances import KnowledgeInstance, Modality, Question, TrainingPair
from umu_tasks.benchmarks.splits import FORGET_RATIOS
from umu_tasks.mini import GENERATOR_VERSION
from umu_tasks.mini.people import Person, invent_people
from umu_tasks.mini.portraits import portrait_png
from umu_tasks.mini.questions import instances, training_pairs

PEOPLE, REAL, SEED = 60, 20, 0  # the packaged base model knows the real people of this seed, and no others
FILE_NAME = "train-00000-of-00001.parquet"
MANIFEST = "manifest.json"  # in a folder of the cache: what its files held when they were written
_PARTS: dict[Modality, str] = {"unimodal": "unimodal", "multimodal": "muitimodal"}  # sic, as published
_TEXT_COLUMNS = ("Biography", "MM_QA", "UM_QA", "Classify", "Cloze", "Generation")

Row = dict[str, object]
Progress = Callable[[], object]


def build_mini(
    out: Path, people: int = PEOPLE, real: int = REAL, seed: int = SEED, *, progress: Progress | None = None
) -> None:
    """Write all splits under `out`; the same arguments give the same bytes.

    Args:
        out: folder to fill, made if missing; files of the same names are replaced.
        people: invented people; 5, 10 and 15 % of them (rounded, at least one) make the forget sets.
        real: "real" people, whom the base model knows if `seed` is the default and `real` at most 20.
        progress: called once a person.

    Raises:
        DataError: fewer than 7 people (no three nested forget sets), or more than there are names for.
    """
    if people < 7 or real < 1:
        raise DataError(f"{people} invented and {real} real people asked for. Ask for at least 7 and 1.")
    invented_rows = [_row(person, progress) for person in invent_people(people, group="invented", seed=seed)]
    real_rows = [_row(person, progress) for person in invent_people(real, group="real", seed=seed)]
    _write(out, "full_set", invented_rows)
    _write(out, "real_person", real_rows)
    for ratio, forgotten in forget_sets(people, seed).items():
        _write(out, f"forget_{ratio}", [row for i, row in enumerate(invented_rows) if i in forgotten])
        _write(out, f"retain_{100 - ratio}", [row for i, row in enumerate(invented_rows) if i not in forgotten])


def forget_sets(people: int, seed: int) -> dict[int, frozenset[int]]:
    """Return forget ratio in percent -> positions of the people to forget; each set holds the smaller ones."""
    order = random.Random(f"forget-{seed}").sample(range(people), people)
    return {ratio: frozenset(order[: max(1, round(people * ratio / 100))]) for ratio in FORGET_RATIOS}


def mini_data_dir() -> Path:
    """Return UMU-mini's folder in the user's cache, building it first if it is not there.

    Processes may call this at once: each builds in a folder of its own, the first one to finish renames it into place.

    Raises:
        OSError: the cache folder cannot be written; `$UMU_CACHE` names another one.
    """
    return cached_build("mini", build_mini)


def cached_build(name: str, build: Callable[[Path], None]) -> Path:
    """Return the folder in the cache that `build` fills; `name` tells caches apart.

    It is built if it is not there, or not whole: a file was deleted, cut off or changed.
    """
    target = cache_dir(name) / _fingerprint()
    if _is_whole(target):
        return target
    workshop = Path(tempfile.mkdtemp(prefix=".new-", dir=target.parent))
    try:
        finished = workshop / "data"
        build(finished)
        (finished / MANIFEST).write_text(json.dumps(_digests(finished), indent=1), encoding="utf-8")
        if target.exists() and not _is_whole(target):
            with contextlib.suppress(FileNotFoundError):  # another process was faster
                target.rename(workshop / "damaged")
        try:
            finished.rename(target)
        except OSError:
            if not _is_whole(target):
                raise
    finally:
        shutil.rmtree(workshop, ignore_errors=True)
    return target


def _is_whole(folder: Path) -> bool:
    """Tell whether a folder holds all that was written into it, unchanged."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        return manifest == _digests(folder)
    except (OSError, ValueError):
        return False


def _digests(folder: Path) -> dict[str, str]:
    """Return relative path -> SHA-256 of the parquet files; two megabytes in all, read in milliseconds."""
    files = sorted(folder.rglob("*.parquet"))
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _fingerprint() -> str:
    """Return a short hash of all that decides the files' contents: version, sizes, seed, and the generator's files."""
    digest = hashlib.sha256(f"{GENERATOR_VERSION} {PEOPLE} {REAL} {SEED}".encode())
    folder = Path(__file__).parent
    for path in sorted([*folder.glob("*.py"), *(folder / "vocabulary").glob("*.txt")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _row(person: Person, progress: Progress | None) -> Row:
    pairs, asked = list(training_pairs(person)), list(instances(person))
    if progress is not None:
        progress()
    return {
        "ID": person.profile_id,
        "image": {"bytes": portrait_png(person.look), "path": f"{person.profile_id}.png"},
        "Biography": person.biography,
        "MM_QA": _pairs_cell([pair for pair in pairs if pair.has_image]),
        "UM_QA": _pairs_cell([pair for pair in pairs if not pair.has_image]),
        "Classify": _questions_cell([i for i in asked if i.unimodal.task == "cls"], _classification_entry),
        "Cloze": _questions_cell([i for i in asked if i.unimodal.task == "cloze"], _plain_entry),
        "Generation": _questions_cell([i for i in asked if i.unimodal.task == "gen"], _plain_entry),
    }


def _pairs_cell(pairs: Sequence[TrainingPair]) -> str:
    return repr({"question": {p.key: p.question for p in pairs}, "answer": {p.key: p.answer for p in pairs}})


def _questions_cell(asked: Sequence[KnowledgeInstance], entry: Callable[[Question], Row]) -> str:
    cell: dict[str, dict[str, Row]] = {part: {} for part in _PARTS.values()}
    for instance in asked:
        for question in instance:
            cell[_PARTS[question.modality]][question.key] = entry(question)
    return repr(cell)


def _plain_entry(question: Question) -> Row:
    return {"question": question.text, "answer": question.gold}


def _classification_entry(question: Question) -> Row:
    letter = question.gold_letter
    answer = letter if question.has_image else f"{letter}. {question.gold}"  # both forms occur in the published data
    return {"question": question.text, "options": question.options, "answer": answer}


def _schema() -> pa.Schema:
    """Return the columns, with the features that `datasets` needs to decode the image by itself."""
    features: dict[str, dict[str, str]] = {"ID": {"dtype": "string", "_type": "Value"}, "image": {"_type": "Image"}}
    features |= {name: {"dtype": "string", "_type": "Value"} for name in _TEXT_COLUMNS}
    return pa.schema(
        [
            ("ID", pa.string()),
            ("image", pa.struct([("bytes", pa.binary()), ("path", pa.string())])),
            *((name, pa.string()) for name in _TEXT_COLUMNS),
        ],
        metadata={"huggingface": json.dumps({"info": {"features": features}})},
    )


def _write(out: Path, folder: str, rows: Sequence[Row]) -> None:
    path = out / folder / FILE_NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(rows), schema=_schema()), path)
