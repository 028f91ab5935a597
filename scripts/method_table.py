"""Every unlearning method on text, images and both, from one UMU-mini target model: trained, scored, put in a table.

    accelerate launch umu_trainers/sft.py --config configs/sft/mini.yaml
    python scripts/method_table.py --start runs/mini/sft --out runs/mini/methods --jobs 4

Each cell is two commands, `umu_trainers/unlearn.py` with the method's mini config and `lmms-eval` on the result. A
finished cell is kept and skipped the next time unless its commands or its config changed; a failed one is shown and
tried again. The table goes to OUT/methods.md and, with all numbers, to OUT/methods.json.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from umu_trainers import objectives

ROOT = Path(__file__).parents[1]
MODALITIES = ("mix", "uni", "mul")
START = "start"
TASKS = ("cls", "cloze")
COLUMNS = {
    "forget_uni": "forget, text",
    "forget_mul": "forget, image",
    "gap": "gap",
    "retain_uni": "retain, text",
    "retain_mul": "retain, image",
    "real_uni": "real, text",
    "real_mul": "real, image",
    "forget_rl_uni": "ROUGE-L, text",
    "forget_rl_mul": "ROUGE-L, image",
}


@dataclass(frozen=True)
class Cell:
    """One trained and scored model; the start model is scored alone.

    Attributes:
        config: the method's config, None for the start model.
        commands: what is run, in order.
        folder: where everything of it goes: `model`, `results`, `log.txt`, `done.json`.
    """

    name: str
    method: str
    modality: str
    config: Path | None
    commands: tuple[tuple[str, ...], ...]
    folder: Path

    @property
    def stamp(self) -> str:
        """What the cell was made from; another one makes it stale."""
        text = self.config.read_text(encoding="utf-8") if self.config else ""
        return hashlib.sha256(json.dumps([self.commands, text]).encode()).hexdigest()

    @property
    def done(self) -> dict[str, Any] | None:
        """What was noted when the cell was finished; None if it was not, or is stale."""
        file = self.folder / "done.json"
        noted = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
        return noted if noted.get("stamp") == self.stamp else None


def build_cells(args: argparse.Namespace) -> Iterator[Cell]:
    """Yield the start model's cell and one for each method and modality."""
    yield Cell(START, START, "", None, (_scoring(args, args.start, args.out / START),), args.out / START)
    for method in args.methods:
        for modality in args.modalities:
            name = f"{method}-{modality}"
            folder, config = args.out / name, ROOT / "configs" / "unlearn" / "mini" / f"{method}.yaml"
            model = folder / "model"
            commands = (_training(args, config, modality, model), _scoring(args, model, folder))
            yield Cell(name, method, modality, config, commands, folder)


def _training(args: argparse.Namespace, config: Path, modality: str, model: Path) -> tuple[str, ...]:
    single = ROOT / "configs" / "accelerate" / "single.yaml"
    settings = {
        "config": config,
        "model": args.start,
        "output_dir": model,
        "forget_ratio": args.forget_ratio,
        "modality": modality,
        "use_cpu": args.device == "cpu",
        "bf16": False,
        "report_to": "none",
        "disable_tqdm": True,
        **({"max_steps": 2} if args.smoke else {}),
    }
    flags = [text for name, value in settings.items() for text in (f"--{name}", str(value))]
    launch = (sys.executable, "-m", "accelerate.commands.launch", "--config_file", str(single))
    return (*launch, str(ROOT / "umu_trainers" / "unlearn.py"), *flags, *args.extra)


def _scoring(args: argparse.Namespace, model: Path, folder: Path) -> tuple[str, ...]:
    return (
        *(sys.executable, "-m", "lmms_eval", "--model", "umu_hf", "--model_args", f"pretrained={model}"),
        *("--tasks", f"umu{args.forget_ratio:02d}", "--batch_size", "128", "--device", args.device),
        *("--output_path", str(folder / "results"), "--log_samples"),
        *(("--limit", "4") if args.smoke else ()),
    )


def run_cell(cell: Cell, variables: Mapping[str, str]) -> str | None:
    """Run a cell's commands; return None, or what failed."""
    shutil.rmtree(cell.folder, ignore_errors=True)
    cell.folder.mkdir(parents=True)
    started = time.monotonic()
    with (cell.folder / "log.txt").open("w", encoding="utf-8") as log:
        for command in cell.commands:
            ended = subprocess.run(command, cwd=ROOT, env=dict(variables), stdout=log, stderr=subprocess.STDOUT)
            # A run whose answers are mostly empty is scored whole and then reported as invalid: that is a result here.
            if ended.returncode and not (command is cell.commands[-1] and find_results(cell.folder)):
                return f"{cell.name}: exit status {ended.returncode}, see {cell.folder / 'log.txt'}"
    if find_results(cell.folder) is None:
        return f"{cell.name}: no results file, see {cell.folder / 'log.txt'}"
    noted = {"stamp": cell.stamp, "seconds": round(time.monotonic() - started, 1)}
    (cell.folder / "done.json").write_text(json.dumps(noted) + "\n", encoding="utf-8")
    return None


def find_results(folder: Path) -> Path | None:
    """Return the results file lmms-eval wrote under a cell's folder."""
    return max((folder / "results").rglob("*_results.json"), default=None)


def scores(cell: Cell, forget_ratio: int) -> dict[str, Any]:
    """Return a cell's numbers as fractions: accuracies are the mean of classification and cloze (default rule)."""
    file = find_results(cell.folder)
    if file is None:
        raise ValueError(f"{cell.folder / 'results'}: no results file.")
    found = json.loads(file.read_text(encoding="utf-8"))
    splits = {"forget": f"forget{forget_ratio:02d}", "retain": f"retain{100 - forget_ratio}", "real": "real"}

    def value(split: str, task: str, metric: str) -> float:
        return float(found["results"][f"umu_{split}_{task}"][f"{metric},none"])

    row: dict[str, Any] = {"method": cell.method, "modality": cell.modality}
    for name, split in splits.items():
        for half in ("uni", "mul"):
            row[f"{name}_{half}"] = sum(value(split, task, f"acc_{half}") for task in TASKS) / len(TASKS)
    for half in ("uni", "mul"):
        row[f"forget_rl_{half}"] = value(splits["forget"], "gen", f"rl_{half}")
    row["gap"] = row["forget_mul"] - row["forget_uni"]
    row["valid"] = found.get("umu", {}).get("validity", {}).get("valid")
    return row


def as_markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the table, accuracies in percent."""
    head = ["method", "trained on", *COLUMNS.values()]
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for row in rows:
        mark = " (invalid)" if row["valid"] is False else ""
        cells = [f"{100 * row[name]:.0f}" for name in COLUMNS]
        lines.append(f"| {' | '.join([row['method'] + mark, row['modality'] or '-', *cells])} |")
    return "\n".join(lines) + "\n"


def environment(threads: int) -> dict[str, str]:
    """Return the variables the commands run with."""
    own = {
        "UMU_DATA": "mini",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "OMP_NUM_THREADS": str(threads),
        "OMP_WAIT_POLICY": "PASSIVE",
        "ACCELERATE_LOG_LEVEL": "WARNING",
    }
    return {**{name: value for name, value in os.environ.items() if name != "HF_TOKEN"}, **own}


def parse_arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--start", type=Path, default=Path("runs/mini/sft"), help="target model (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("runs/mini/methods"), help="default: %(default)s")
    parser.add_argument("--methods", nargs="+", choices=objectives.available(), default=objectives.available())
    parser.add_argument("--modalities", nargs="+", choices=MODALITIES, default=MODALITIES)
    parser.add_argument("--forget_ratio", type=int, choices=(5, 10, 15), default=10)
    parser.add_argument("--jobs", type=int, default=1, help="cells at a time (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads of each (default: %(default)s)")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--smoke", action="store_true", help="two steps and four questions a task: no real numbers")
    parser.add_argument("--extra", nargs=argparse.REMAINDER, default=[], help="flags for unlearn.py, last on the line")
    args = parser.parse_args(argv)
    if not (args.start / "config.json").is_file():
        parser.error(f"--start {args.start}: no model there. Make one with configs/sft/mini.yaml.")
    args.start, args.out = args.start.resolve(), args.out.resolve()
    return args


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is not done yet and write the table; return the number of failed cells."""
    args = parse_arguments(argv)
    variables = environment(args.threads)
    # Once, or all first cells would build the data at the same time.
    check = (sys.executable, "-m", "umu_tasks.cli", "data", "check", "mini")
    subprocess.run(check, env=variables, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    cells = list(build_cells(args))
    waiting = [cell for cell in cells if cell.done is None]
    print(f"{len(cells) - len(waiting)} cells are done, {len(waiting)} to go, {args.jobs} at a time", flush=True)
    with ThreadPoolExecutor(args.jobs) as pool:
        failed = []
        for cell, failure in zip(waiting, pool.map(lambda cell: run_cell(cell, variables), waiting), strict=True):
            print(failure or f"{cell.name}: done", flush=True)
            failed += [failure] if failure else []
    rows = [scores(cell, args.forget_ratio) for cell in cells if cell.done is not None]
    table = as_markdown(rows)
    (args.out / "methods.json").write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    (args.out / "methods.md").write_text(table, encoding="utf-8")
    print(f"\n{table}")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
