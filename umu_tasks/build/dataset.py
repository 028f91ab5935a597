"""Writes the data set: every split, whole or not at all.

DATA/full_set/train-00000-of-00001.parquet     everybody in the table
DATA/forget_5/…, retain_95/…                   a forget list's people, and everyone else
DATA/real_person/…                             the people of --real, if there are any
DATA/build.json                                what it was made of: files with SHA-256, seed, counts
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from umu_tasks import __version__
from umu_tasks.benchmarks.errors import DataError
from umu_tasks.benchmarks.instances import TASK_NAMES, TASKS, Task
from umu_tasks.benchmarks.splits import FORGET_RATIOS, retain_split
from umu_tasks.build.distractors import WRONG_OPTIONS
from umu_tasks.build.forget_lists import RANDOM, parse_spec
from umu_tasks.build.people import Person
from umu_tasks.build.photos import read_photo
from umu_tasks.build.plan import Group, Options, Plan, digest
from umu_tasks.build.problems import listed
from umu_tasks.tasks.umu.written import SplitWriter, to_row

RECORD = "build.json"
_MADE_BY = "umu data build"
_FOLDERS = {f"forget{ratio:02d}": f"forget_{ratio}" for ratio in FORGET_RATIOS} | {
    f"retain{100 - ratio}": f"retain_{100 - ratio}" for ratio in FORGET_RATIOS
} | {"full": "full_set", "real": "real_person"}  # fmt: skip


@dataclass
class FieldCounts:
    """What one field gave: people who have it, and instances by task."""

    people: int = 0
    instances: dict[Task, int] = field(default_factory=lambda: dict.fromkeys(TASKS, 0))


@dataclass
class Built:
    """What was written: people by split, what each field gave, what deserves a look."""

    splits: dict[str, int] = field(default_factory=dict)
    fields: dict[str, FieldCounts] = field(default_factory=dict)
    tasks: Counter[tuple[str, Task]] = field(default_factory=Counter)  # (split, task) -> instances
    empty: Counter[str] = field(default_factory=Counter)  # field -> empty cells
    warnings: list[str] = field(default_factory=list)


def require_usable(out: Path, *, overwrite: bool) -> None:
    """Raise unless the data set can be put at `out`: nothing there, or with `overwrite` an earlier build.

    Raises:
        DataError: a file, a folder with something else in it, or an earlier build without `overwrite`.
    """
    if out.exists() and not out.is_dir():
        raise DataError(f"--out {out}: this is a file. Name a folder.")
    names = {path.name for path in out.iterdir()} if out.is_dir() else set()
    if not names:
        return
    foreign = names - {RECORD, *_FOLDERS.values()}
    if foreign or not _is_ours(out):
        what = f"holds {listed(sorted(foreign))}" if foreign else "is no data set that this command wrote"
        raise DataError(f"--out {out}: the folder {what}, and would be lost. Name a new folder.")
    if not overwrite:
        raise DataError(f"--out {out}: the folder is not empty. Name another one, or add --overwrite to replace it.")


def _is_ours(out: Path) -> bool:
    try:
        return json.loads((out / RECORD).read_text(encoding="utf-8")).get("made_by") == _MADE_BY
    except (OSError, ValueError, AttributeError):
        return False


def write_dataset(plan: Plan, progress: Callable[[], object] = lambda: None) -> Built:
    """Write everything beside `out` and then move it there at once; the same plan gives the same bytes.

    Args:
        progress: called once a person.

    Raises:
        DataError: photos that cannot be used, all of them named; then nothing is left behind.
    """
    out = plan.options.out
    built = Built(warnings=plan.problems.warnings)
    with _workshop(out) as folder:
        _write_group(plan, plan.main, "full", plan.forget, folder, built, progress)
        if plan.real is not None:
            _write_group(plan, plan.real, "real", {}, folder, built, progress)
        plan.problems.raise_errors()
        _warn_of_gaps(plan, built)
        (folder / RECORD).write_text(json.dumps(_record(plan, built), indent=1, ensure_ascii=False), encoding="utf-8")
    return built


@contextmanager
def _workshop(out: Path) -> Iterator[Path]:
    """Give a folder to fill, and put it in place of `out` afterwards; after an error or Ctrl-C it is gone."""
    out = out.resolve()  # where a link leads to, so that the link stays and the data lie on the disk it names
    out.parent.mkdir(parents=True, exist_ok=True)
    workshop = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    try:
        folder = workshop / "data"
        folder.mkdir()
        yield folder
        _put(folder, out, workshop / "earlier")
    finally:
        shutil.rmtree(workshop, ignore_errors=True)


def _put(folder: Path, out: Path, earlier: Path) -> None:
    """Move a folder to `out`, what is there to `earlier`; if that fails or is interrupted, all is as it was."""
    if not out.exists():
        folder.rename(out)
        return
    out.rename(earlier)
    try:
        folder.rename(out)
    except BaseException:
        earlier.rename(out)
        raise


def _write_group(
    plan: Plan,
    group: Group,
    whole: str,
    forget: Mapping[str, frozenset[str]],
    folder: Path,
    built: Built,
    progress: Callable[[], object],
) -> None:
    """Write the split of all people of a group, and the forget and retain splits they fall into."""
    names = [whole, *forget, *map(retain_split, forget)]
    photos: dict[str, list[Person]] = {}  # digest -> the people who have the photo
    with ExitStack() as stack:
        writers = {name: stack.enter_context(SplitWriter(folder / _FOLDERS[name])) for name in names}
        for person in group.people.people:
            splits = [whole, *(s if person.profile_id in ids else retain_split(s) for s, ids in forget.items())]
            try:
                photo = read_photo(person.photo, row_id=person.profile_id, max_side=plan.options.max_side)
            except DataError as error:
                plan.problems.errors.append(error)
            else:
                photos.setdefault(hashlib.sha256(photo).hexdigest(), []).append(person)
                if not plan.problems.errors:
                    _add(group, person, photo, [(split, writers[split]) for split in splits], built)
            progress()
        built.splits |= {name: writer.rows for name, writer in writers.items()}
    _warn_of_same_photo(photos, built)


def _add(group: Group, person: Person, photo: bytes, writers: list[tuple[str, SplitWriter]], built: Built) -> None:
    asker = group.asker
    pairs, instances = asker.pairs(person), asker.instances(person)
    row = to_row(person.profile_id, photo, person.photo.name, asker.biography(person), pairs, instances)
    for split, writer in writers:
        writer.add(row, len(photo))
        built.tasks.update((split, one.unimodal.task) for one in instances)
    for name in group.people.fields:
        counts = built.fields.setdefault(name, FieldCounts())
        counts.people += name in person.facts
        built.empty[name] += name not in person.facts
    for one in instances:
        built.fields[one.unimodal.key].instances[one.unimodal.task] += 1


def _warn_of_same_photo(photos: Mapping[str, Sequence[Person]], built: Built) -> None:
    """One warning a photo: where a placeholder stands for missing ones, hundreds of people have it."""
    for first, *others in photos.values():
        if others:
            ids = listed([person.profile_id for person in others])
            built.warnings.append(
                f"{others[0].photo}, row ID {ids}: the same photo as ID {first.profile_id}. Image questions cannot "
                "tell them apart; give each person their own."
            )


def _warn_of_gaps(plan: Plan, built: Built) -> None:
    for name, counts in built.fields.items():
        lacking = counts.people - counts.instances["cls"]
        asks = any(g.asker.fields[name].classification for g in (plan.main, plan.real) if g and name in g.asker.fields)
        if asks and lacking:
            built.warnings.append(
                f"{name}: no classification question for {lacking} of {counts.people} people: each needs "
                f"{WRONG_OPTIONS} different values of other people that cannot be right too, and there are fewer. Add "
                "people, list more values under `distractors` in a templates file, or say `classification: false`."
            )
    for split in built.splits:
        for task in TASKS:
            if not built.tasks[split, task]:
                built.warnings.append(
                    f"{split}: no {TASK_NAMES[task]} question, so umu_{split}_{task} has nothing to ask: name the "
                    "other tasks one by one when scoring."
                )


def _record(plan: Plan, built: Built) -> dict[str, object]:
    options = plan.options
    return {
        "made_by": _MADE_BY,
        "umu_bench": __version__,
        "seed": options.seed,
        "max_side": options.max_side,
        "inputs": {name: {"file": path.name, "sha256": digest(path)} for name, path in _inputs(options)},
        "splits": built.splits,
        "fields": {name: {"people": one.people, **one.instances} for name, one in built.fields.items()},
    }


def _inputs(options: Options) -> Iterator[tuple[str, Path]]:
    for name, path in (("people", options.table), ("real", options.real), ("templates", options.templates)):
        if path is not None:
            yield name, path
    yield from () if options.forget == (RANDOM,) else map(parse_spec, options.forget)
