"""Who is to be forgotten: lists of IDs, one a line, each for one forget set.

    --forget leaving.txt                           the people in it are forget05, everyone else retain95
    --forget forget05=a.txt --forget forget10=b.txt
    --forget random                                5, 10 and 15 % of the people, drawn from the seed, nested

The names 05, 10 and 15 say which task and setting a list is reached by. How many people are in it is up to the list.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

from umu_tasks.benchmarks.errors import DataError
from umu_tasks.benchmarks.splits import FORGET_RATIOS, is_forget, resolve_split
from umu_tasks.build.problems import Problems, listed
from umu_tasks.build.table import read_text
from umu_tasks.mini.build import forget_sets

RANDOM = "random"
_DEFAULT = f"forget{FORGET_RATIOS[0]:02d}"


def read_forget_lists(
    specs: Sequence[str], ids: Sequence[str], seed: int, problems: Problems
) -> dict[str, frozenset[str]]:
    """Return forget split -> the IDs in it.

    Args:
        specs: as typed: ``FILE``, ``forget10=FILE`` or ``random``.
        ids: all people's, in the table's order.

    Raises:
        DataError: two lists for one split, an unknown name, a file that cannot be read, lists that name nobody or
            everybody. IDs that are not in the table are noted in `problems`.
    """
    if tuple(specs) == (RANDOM,):
        drawn = forget_sets(len(ids), seed)
        lists = {f"forget{ratio:02d}": frozenset(ids[place] for place in chosen) for ratio, chosen in drawn.items()}
    else:
        lists = {}
        for spec in specs:
            split, path = parse_spec(spec)
            if split in lists:
                raise DataError(f"--forget {spec}: a second list for {split}. Give each list a name of its own.")
            lists[split] = _read(path, ids, problems)
    for split, chosen in lists.items():
        if not problems.errors:
            _require_both_sides(split, chosen, ids)
    _warn_of_order(lists, problems)
    return dict(sorted(lists.items()))


def parse_spec(spec: str) -> tuple[str, Path]:
    """Return the forget split and the file that ``FILE`` or ``forget10=FILE`` names."""
    name, equals, file = spec.partition("=")
    split = resolve_split(name)
    if equals and split and is_forget(split) and file:
        return split, Path(file).expanduser()
    path = Path(spec).expanduser()
    if equals and not path.exists():
        names = ", ".join(f"forget{ratio:02d}=FILE" for ratio in FORGET_RATIOS)
        raise DataError(f"--forget {spec}: {name!r} names no forget set. Write {names}, or FILE alone for {_DEFAULT}.")
    return _DEFAULT, path


def _read(path: Path, ids: Sequence[str], problems: Problems) -> frozenset[str]:
    known = set(ids)
    lines: dict[str, int] = {}
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        one = line.strip()
        if not one or (one.startswith("#") and one not in known):
            continue
        if one in lines:
            problems.warn(f"{path}, line {number}: ID {one} stands in line {lines[one]} already; it counts once.")
        lines.setdefault(one, number)
        if one not in known:
            problems.add(f"nobody in the table has the ID {one!r}. {_hint(one, ids)}", file=str(path), line=number)
    if not lines:
        raise DataError("no IDs. Expected one a line.", file=str(path))
    return frozenset(lines)


def _hint(one: str, ids: Sequence[str]) -> str:
    same = [known for known in ids if known.lstrip("0") == one.lstrip("0") or known.casefold() == one.casefold()]
    near = same or difflib.get_close_matches(one, ids, 1, 0.7)
    return f"Did you mean {near[0]!r}?" if near else "Correct it, or take it out."


def _require_both_sides(split: str, chosen: frozenset[str], ids: Sequence[str]) -> None:
    if len(chosen) == len(set(ids)):
        raise DataError(
            f"--forget: {split} holds all {len(chosen)} people, so nobody is left for the retain set, which shows what "
            "unlearning costs. Add people who stay."
        )


def _warn_of_order(lists: Mapping[str, frozenset[str]], problems: Problems) -> None:
    names = sorted(lists)
    for smaller, larger in itertools.pairwise(names):
        outside = lists[smaller] - lists[larger]
        if outside:
            problems.warn(
                f"{smaller} is not within {larger} (ID {listed(sorted(outside))}), as it is in UMU-Bench: their scores "
                "differ by who is in them too."
            )
