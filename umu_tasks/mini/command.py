"""`umu data build-mini`: writes UMU-mini, or a larger set of invented people, to a folder."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from umu_tasks.benchmarks.errors import DataError

if TYPE_CHECKING:
    # argparse has no public name for what add_subparsers returns
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def register(commands: Commands) -> None:
    """Add `build-mini` to the `umu data` commands."""
    parser = commands.add_parser(
        "build-mini",
        help="write invented people in UMU-Bench's layout",
        description="Write invented people with drawn portraits as parquet files in UMU-Bench's layout. The same "
        "numbers and seed give the same files. The packaged base model knows the first 20 real people of seed 0.",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to write, new or empty")
    parser.add_argument("--people", type=int, default=60, help="invented people, at least 7 (default: 60)")
    parser.add_argument("--real", type=int, default=20, help='"real" people, at least 1 (default: 20)')
    parser.add_argument("--seed", type=int, default=0, help="other people for another seed (default: 0)")
    parser.add_argument("--overwrite", action="store_true", help="write into a folder that is not empty")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Build the data and say what was written; the exit status is 0."""
    from tqdm import tqdm

    from umu_tasks.mini.build import build_mini, forget_sets

    out: Path = arguments.out
    _require_usable(out, overwrite=arguments.overwrite)
    total = arguments.people + arguments.real
    with tqdm(total=total, desc="people", unit="person", file=sys.stderr, disable=None) as bar:
        build_mini(out, arguments.people, arguments.real, arguments.seed, progress=bar.update)
    sizes = ", ".join(str(len(people)) for people in forget_sets(arguments.people, arguments.seed).values())
    print(f"{out}: {arguments.people} invented people (forget sets of {sizes}) and {arguments.real} real people.")
    print(f"Use it with UMU_DATA={out}; look at it with: umu data check {out}")
    return 0


def _require_usable(out: Path, *, overwrite: bool) -> None:
    if out.exists() and not out.is_dir():
        raise DataError(f"--out {out}: this is a file. Name a folder.")
    if out.is_dir() and any(out.iterdir()) and not overwrite:
        raise DataError(f"--out {out}: the folder is not empty. Name another one, or add --overwrite to write into it.")
