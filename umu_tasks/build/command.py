"""`umu data build`: people in a table, photos in a folder -> a data set in UMU-Bench's layout."""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from umu_tasks.benchmarks.errors import DataError

if TYPE_CHECKING:
    from umu_tasks.build.dataset import Built
    from umu_tasks.build.plan import Options, Plan

    # argparse has no public name for what add_subparsers returns
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def register(commands: Commands) -> None:
    """Add `build` to the `umu data` commands."""
    parser = commands.add_parser(
        "build",
        help="turn your own people (a table and photos) into benchmark data",
        description="Turn a table of people and their photos into a data set in UMU-Bench's layout, which every task "
        "and trainer takes. Runs on this machine alone and opens no connection. Try it: umu data build --example DIR",
    )
    parser.add_argument("table", metavar="TABLE", type=Path, nargs="?", help=".csv, .tsv or .jsonl, one person a row")
    parser.add_argument("--out", type=Path, metavar="DIR", help="data set to write: a new or empty folder")
    parser.add_argument("--images", type=Path, metavar="DIR", help="folder of the photos (default: the table's)")
    parser.add_argument(
        "--forget",
        action="append",
        metavar="LIST",
        help="whom to forget: a file with one ID a line, which fills forget05 and retain95; forget10=FILE fills "
        "another set; `random` draws 5, 10 and 15 %%. May be given several times",
    )
    parser.add_argument("--real", type=Path, metavar="TABLE", help="people whom the model knows and nobody trains on")
    parser.add_argument("--real_images", type=Path, metavar="DIR", help="folder of their photos (default: --images)")
    parser.add_argument("--templates", type=Path, metavar="FILE", help="YAML file with your own question templates")
    parser.add_argument("--skip", action="append", metavar="COLUMN", help="a column that is no fact; may be repeated")
    for role in ("id", "name", "image"):
        parser.add_argument(f"--{role}_column", metavar="COLUMN", help=f"the column with the {role} (default: found)")
    parser.add_argument("--delimiter", metavar="C", help="what separates CSV cells (default: found: comma, ; or tab)")
    parser.add_argument("--max_side", type=int, metavar="PIXELS", help="scale down larger photos (default: kept as is)")
    parser.add_argument("--seed", type=int, default=0, help="draws wrong options and random forget sets (default: 0)")
    parser.add_argument("--overwrite", action="store_true", help="replace an earlier build in --out")
    parser.add_argument("--example", type=Path, metavar="DIR", help="write a small example to try this on, and stop")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Build, say what was written, and return 0; 130 after Ctrl-C, which leaves nothing behind."""
    if arguments.example is not None:
        return _example(arguments.example)
    from tqdm import tqdm

    from umu_tasks.build.dataset import require_usable, write_dataset
    from umu_tasks.build.plan import make_plan

    options = _options(arguments)
    require_usable(options.out, overwrite=options.overwrite)
    before = signal.signal(signal.SIGTERM, _interrupt)  # a request to end must not leave photos behind either
    try:
        plan = make_plan(options)
        total = len(plan.main.people.people) + (len(plan.real.people.people) if plan.real else 0)
        with tqdm(total=total, desc="people", unit="person", file=sys.stderr, disable=None) as bar:
            built = write_dataset(plan, bar.update)
    except KeyboardInterrupt:
        print("umu: interrupted; nothing was written", file=sys.stderr)
        return 130
    finally:
        signal.signal(signal.SIGTERM, before)
    print("\n".join(_summary(plan, built)))
    return 0


def _interrupt(*_: object) -> None:
    """Take a request to end like Ctrl-C."""
    raise KeyboardInterrupt


def _options(arguments: argparse.Namespace) -> Options:
    from umu_tasks.build.plan import Options

    if arguments.table is None:
        raise DataError("no table. Name a .csv or .jsonl file, or try: umu data build --example DIR")
    if arguments.out is None:
        raise DataError("no --out. Name the folder to write.")
    return Options(
        table=arguments.table,
        out=arguments.out,
        images=arguments.images,
        forget=tuple(arguments.forget or ()),
        real=arguments.real,
        real_images=arguments.real_images,
        templates=arguments.templates,
        skip=tuple(arguments.skip or ()),
        columns={role: getattr(arguments, f"{role}_column") for role in ("id", "name", "image")},
        delimiter=arguments.delimiter,
        max_side=arguments.max_side,
        seed=arguments.seed,
        overwrite=arguments.overwrite,
    )


def _example(folder: Path) -> int:
    from umu_tasks.build.sample import write_sample

    write_sample(folder)
    print(f"{folder}: 30 invented people, 8 more whom the packaged base model knows. Its README.txt has the commands.")
    return 0


def _summary(plan: Plan, built: Built) -> list[str]:
    out, total = plan.options.out, built.splits["full"]
    sets = [f"{split} {count}" for split, count in built.splits.items()]
    lines = [f"{out}: {', '.join(sets)} people", "", *_table(built)]
    empty = sum(built.empty.values())
    if empty:
        cells = "1 empty cell: that person is" if empty == 1 else f"{empty} empty cells: those people are"
        lines += ["", f"{cells} not asked about that field."]
    lines += [f"warning: {text}" for text in built.warnings]
    for split in plan.forget:
        share = built.splits[split] / total
        lines += ["", f"{split}: {built.splits[split]} of {total} people, {share:.1%}."]
    if not plan.forget:
        lines += ["", "No --forget list: there is the full set only, which is enough to teach a model (SFT)."]
    if plan.real is None:
        lines.append(
            "No --real people: umu_real and the suites with it (umu05, umu10, umu15) cannot be scored, and sft.py "
            "needs --replay_real 0 with a config that replays them, as configs/sft/mini.yaml does."
        )
    return [*lines, *_next_steps(plan)]


def _table(built: Built) -> list[str]:
    width = max(len(name) for name in ("field", *built.fields))
    head = f"{'field':<{width}}{'people':>8}{'cls':>8}{'cloze':>8}{'gen':>8}"
    return [
        head,
        *(
            f"{name:<{width}}{one.people:>8}" + "".join(f"{count:>8}" for count in one.instances.values())
            for name, one in built.fields.items()
        ),
    ]


def _next_steps(plan: Plan) -> list[str]:
    out = shlex.quote(str(plan.options.out))
    lines = ["", "What comes next:", f"umu data check {out}"]
    groups = ["umu_full"]
    if plan.forget:
        forget = next(iter(plan.forget))
        ratio = int(forget.removeprefix("forget"))
        groups = [f"umu_{forget}", f"umu_retain{100 - ratio}", *(["umu_real"] if plan.real else [])]
        lines.append(
            "accelerate launch umu_trainers/unlearn.py --config configs/unlearn/gd.yaml "
            f"--model TARGET_MODEL --data {out} --forget_ratio {ratio}"
        )
    lines.append(
        f"UMU_DATA={out} lmms-eval --model umu_hf --model_args pretrained=MODEL --tasks {','.join(groups)} "
        "--output_path RESULTS --log_samples"
    )
    return lines
