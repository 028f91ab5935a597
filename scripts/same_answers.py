"""Are the answers those of one question at a time? Asks a trained model every way through `lmms-eval` and compares.

    python scripts/same_answers.py runs/mini/sft                    # configs/sft/mini.yaml makes it
    python scripts/same_answers.py DIR_OR_ID --device cuda --tasks umu05

In float32 every answer must be the same text. In bfloat16 a sum's rounding depends on the batch, so an answer on the
edge may turn: at most `--tolerance` of the answers to classification and cloze, where the parsed answer is what is
scored, may be parsed as another one. Ends with 1 where that does not hold.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from measuring import machine

ALONE = "batch_size=1,share_images=False"
AS_USED = "batch_size=auto,share_images=True"
Records = Mapping[tuple[str, ...], Mapping[str, Any]]


@dataclass(frozen=True)
class Compared:
    """How two ways to ask the same questions differ.

    Attributes:
        questions: how many were asked.
        texts: how many outputs differ in any character.
        short: how many questions are of classification and cloze.
        parsed: of those, how many were parsed as another answer.
        verdicts: of those, how many are right under the default rule in one way and wrong in the other.
    """

    questions: int
    texts: int
    short: int
    parsed: int
    verdicts: int


def compare(one: Records, other: Records) -> Compared:
    """Compare two runs, question by question.

    Raises:
        ValueError: no questions, or not the same ones.
    """
    if not one or one.keys() != other.keys():
        raise ValueError(f"{len(one)} and {len(other)} questions, {len(one.keys() & other.keys())} of them the same")
    pairs = [(one[key], other[key]) for key in one]
    short = [(mine, its) for mine, its in pairs if mine["task"] != "gen"]
    return Compared(
        questions=len(pairs),
        texts=sum(mine["output"] != its["output"] for mine, its in pairs),
        short=len(short),
        parsed=sum(mine["parsed"] != its["parsed"] for mine, its in short),
        verdicts=sum(mine["correct"]["default"] != its["correct"]["default"] for mine, its in short),
    )


def read(folder: Path) -> Records:
    """Return a run's records by split, task, person, fact and modality."""
    records = {}
    for file in sorted(folder.rglob("*_samples_*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)["record"]
            key = tuple(str(record[name]) for name in ("split", "task", "profile_id", "key", "modality"))
            records[key] = record
    return records


def ask(options: argparse.Namespace, dtype: str, how: str, folder: Path) -> Records:
    """Score the model in a program of its own.

    Raises:
        SystemExit: it failed; its messages have been printed.
    """
    arguments = f"pretrained={options.model},dtype={dtype},device={options.device},{how}"
    command = [
        sys.executable, "-m", "lmms_eval", "--model", "umu_hf", "--model_args", arguments, "--tasks", options.tasks,
        "--output_path", str(folder), "--log_samples",
    ]  # fmt: skip
    if options.limit:
        command += ["--limit", str(options.limit)]
    log = folder.with_suffix(".log")
    with log.open("w", encoding="utf-8") as file:
        status = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, check=False).returncode
    if status:
        raise SystemExit(f"{log.read_text(encoding='utf-8', errors='replace')[-3000:]}\n{arguments}: status {status}")
    return read(folder)


def main() -> int:
    """Ask every way, print a line for each; returns the exit status."""
    options = _options()
    os.environ.setdefault("UMU_DATA", "mini")
    failed = False
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for dtype in options.dtypes:
            started = time.perf_counter()
            alone = ask(options, dtype, ALONE, Path(folder) / f"{dtype}-alone")
            between = time.perf_counter()
            found = compare(alone, ask(options, dtype, AS_USED, Path(folder) / f"{dtype}-used"))
            allowed = 0.0 if dtype == "float32" else options.tolerance
            holds = found.parsed <= allowed * found.short and (dtype != "float32" or not found.texts)
            failed |= not holds
            lines.append({"dtype": dtype, **asdict(found), "holds": holds})
            print(
                f"{dtype}: {found.questions} questions, {found.texts} other texts; of {found.short} of classification "
                f"and cloze {found.parsed} parsed otherwise, {found.verdicts} judged otherwise: "
                f"{'holds' if holds else 'DOES NOT HOLD'} ({between - started:.0f} s one at a time, "
                f"{time.perf_counter() - between:.0f} s as used)",
                flush=True,
            )
    if options.json:
        result = {"model": options.model, "machine": machine(torch.device(options.device)), "lines": lines}
        options.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return int(failed)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "model", metavar="DIR_OR_ID", help="a model that was trained: answers of a random one say nothing"
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--tasks", default="umu05", help="default: umu05")
    parser.add_argument(
        "--dtypes", nargs="+", choices=("float32", "bfloat16", "float16"), default=("float32", "bfloat16")
    )
    parser.add_argument(
        "--tolerance", type=float, default=0.01, help="share that may be parsed otherwise (default: 0.01)"
    )
    parser.add_argument("--limit", type=int, help="questions a task, to try it out")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
