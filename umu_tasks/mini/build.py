"""Writes UMU-mini: invented people as parquet files with UMU-Bench's columns and folders.

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
from collections.abc import Callable
from pathlib import Path

from umu_tasks.benchmarks.cache import cache_dir
from umu_tasks.benchmarks.errors import DataError
from umu_tasks.benchmarks.splits import FORGET_RATIOS
from umu_tasks.mini import GENERATOR_VERSION
from umu_tasks.mini.people import Person, invent_people
from umu_tasks.mini.portraits import portrait_png
from umu_tasks.mini.questions import instances, training_pairs
from umu_tasks.tasks.umu import written
from umu_tasks.tasks.umu.written import Row, to_row, write_split

PEOPLE, REAL, SEED = 60, 20, 0  # the packaged base model knows the real people of this seed, and no others
MANIFEST = "manifest.json"  # in a folder of the cache: what its files held when they were written

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
    write_split(out / "full_set", invented_rows)
    write_split(out / "real_person", real_rows)
    for ratio, forgotten in forget_sets(people, seed).items():
        write_split(out / f"forget_{ratio}", [row for i, row in enumerate(invented_rows) if i in forgotten])
        write_split(out / f"retain_{100 - ratio}", [row for i, row in enumerate(invented_rows) if i not in forgotten])


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
    for path in [*sorted([*folder.glob("*.py"), *(folder / "vocabulary").glob("*.txt")]), Path(written.__file__)]:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _row(person: Person, progress: Progress | None) -> Row:
    pairs, asked = list(training_pairs(person)), list(instances(person))
    if progress is not None:
        progress()
    image_name = f"{person.profile_id}.png"
    return to_row(person.profile_id, portrait_png(person.look), image_name, person.biography, pairs, asked)
