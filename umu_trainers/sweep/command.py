"""`umu sweep CONFIG`: many trials of unlearning, shared by processes and machines, and a report on what they found."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from umu_tasks.benchmarks.errors import DataError

if TYPE_CHECKING:
    from umu_trainers.sweep.config import SweepConfig
    from umu_trainers.sweep.studies import Study

_REQUESTS = (signal.SIGINT, signal.SIGTERM)


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `umu sweep`."""
    parser = commands.add_parser(
        "sweep",
        help="search unlearning's settings for little left, much kept, small gap",
        description="Train and score many settings of umu_trainers/unlearn.py, each method with the same number of "
        "trials and of training steps, and search for a low forget score, a high utility and a small modality gap at "
        "once. Finished trials are kept in a storage: the same command goes on where it was ended or killed, and the "
        "same command on another GPU or machine shares the trials. Ends in OUT/sweep.html, sweep.md, sweep.json, "
        "sweep.csv and a ready config a method.",
        epilog="The config file is explained in docs/sweep.md; configs/sweep/mini.yaml runs on a CPU in minutes. "
        "Exit status: 0; 1 when trials are left that did not run; 2 when the config can't be used; 130 when ended by "
        "Ctrl-C.",
    )
    parser.add_argument("config", type=Path, metavar="CONFIG", help="YAML file that describes the sweep")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="folder for trials and report (default: the config's output_dir)"
    )
    parser.add_argument("--jobs", type=int, metavar="N", help="trials at a time (default: one a GPU of --gpus, else 1)")
    parser.add_argument(
        "--gpus", metavar="LIST", help="GPUs for trials, such as 0,1,3, or `all`; a trial sees one of them"
    )
    parser.add_argument("--dry_run", action="store_true", help="check the config, say what would run, and end")
    parser.add_argument("--report_only", action="store_true", help="run nothing, write the report of what is there")
    parser.set_defaults(run=run, keeps_logs=True)


def run(arguments: argparse.Namespace) -> int:
    """Run the sweep; returns the exit status."""
    from umu_trainers.early import find_config
    from umu_trainers.sweep.check import missing_start
    from umu_trainers.sweep.config import read_config

    config = read_config(find_config(str(arguments.config)), arguments.out)
    if arguments.report_only:
        from umu_trainers.sweep.studies import open_studies

        return _report(config, open_studies(config, create=False))
    gpus = workers(arguments.gpus, arguments.jobs)
    _check(config, len(gpus))
    missing = missing_start(config)
    if arguments.dry_run:
        from umu_trainers.sweep.studies import finished_before

        done = finished_before(config)
        print(plan(config, gpus))
        print("nothing is finished yet" if done is None else f"{done} of these trials are finished already")
        if missing:
            print(missing)
        return 0
    if missing:
        raise config.file.problem("model", missing)
    return _sweep(config, gpus)


def _sweep(config: SweepConfig, gpus: Sequence[str | None]) -> int:
    from optuna.exceptions import StorageInternalError

    from umu_trainers.sweep.studies import open_studies
    from umu_trainers.sweep.workers import SweepStopped, Workers

    studies = open_studies(config)
    print(plan(config, gpus), flush=True)
    working = Workers(config, studies, gpus, say=_say)
    try:
        with _ending_once():
            working.run()
    except KeyboardInterrupt:
        done = sum(len(study.finished()) for study in studies)
        print(
            f"umu sweep: ended; {done} of {working.total} trials are finished and kept. Run the same command to go "
            "on, or add --report_only for a report of what is there.",
            file=sys.stderr,
        )
        return 130
    except StorageInternalError as problem:
        reason = str(problem.__cause__ or problem).splitlines()[0]
        print(f"umu sweep: the storage does not answer ({reason}). Run the same command to go on.", file=sys.stderr)
        return 1
    except SweepStopped as problem:
        print(f"umu sweep: {problem}", file=sys.stderr)
        return 1
    return _report(config, studies)


def _check(config: SweepConfig, jobs: int) -> None:
    """Ask the trainer about the settings, unless it took these same ones before."""
    from umu_tasks import __version__
    from umu_trainers.sweep.check import check
    from umu_trainers.sweep.trial import environment

    stamp = config.output_dir / ".checked"
    made_from = f"{__version__} {config.fingerprints()}"
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == made_from:
        return
    print("checking every setting that may be tried …", flush=True)
    check(config, environment(config, jobs))
    config.output_dir.mkdir(parents=True, exist_ok=True)
    stamp.write_text(made_from, encoding="utf-8")


def plan(config: SweepConfig, gpus: Sequence[str | None]) -> str:
    """Return what runs, in a few lines."""
    from umu_trainers.sweep.storages import shown_storage

    total = config.trials * len(config.methods)
    searched = [f"  {method}: {', '.join(own)}" for method, own in config.spaces.items()]
    on = f", GPUs {', '.join(one for one in gpus if one)}" if any(gpus) else ""
    return "\n".join(
        [
            f"sweep {config.name}: {len(config.methods)} method(s) with {config.trials} trial(s) each, {total} in all, "
            f"and the start model; {len(gpus)} at a time{on}; sampler {config.sampler}; "
            f"storage {shown_storage(config.storage)}",
            *searched,
        ]
    )


def _report(config: SweepConfig, studies: Sequence[Study]) -> int:
    from umu_trainers.sweep.records import read_records
    from umu_trainers.sweep.report import write_report

    config.output_dir.mkdir(parents=True, exist_ok=True)
    written = write_report(config, read_records(studies))
    print(f"\n{written.summary}\n\nreport: {written.html}\n        {written.markdown}")
    for file in (*written.configs.values(), *([written.comparison] if written.comparison else [])):
        print(f"        {file}")
    left = sum(study.slots - len(study.finished()) for study in studies)
    if left:
        print(f"{left} trials are not finished; run the same command to go on.", file=sys.stderr)
    return 1 if left else 0


def workers(gpus: str | None, jobs: int | None) -> list[str | None]:
    """Return the GPU of each worker, None for one that makes no choice.

    Raises:
        DataError: no GPU, or a number of jobs below 1.
    """
    if jobs is not None and jobs < 1:
        raise DataError(f"--jobs {jobs}: 1 or more is expected.")
    if gpus is None:
        return [None] * (jobs or 1)
    names = visible_gpus() if gpus == "all" else [one.strip() for one in gpus.split(",") if one.strip()]
    if not names:
        raise DataError(f"--gpus {gpus}: no GPU found. Name them (0,1), or leave it out to run on the CPU.")
    return [names[index % len(names)] for index in range(jobs or len(names))]


def visible_gpus() -> list[str]:
    """Return the GPUs that this process may use."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return [one for one in chosen.split(",") if one]
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    command = [program, "--query-gpu=index", "--format=csv,noheader"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()


def _say(text: str) -> None:
    print(text, flush=True)


@contextmanager
def _ending_once() -> Iterator[None]:
    """Take the first Ctrl-C or request to end; more of them change nothing, for what is left to do takes seconds.

    A second Ctrl-C that ended the process at once would leave its trainers behind, which go on for hours.
    """
    before = {number: signal.signal(number, _interrupt) for number in _REQUESTS}
    yield  # after a KeyboardInterrupt the program ends, and goes on taking no other one
    for number, handler in before.items():
        signal.signal(number, handler)


def _interrupt(*_: object) -> None:
    for number in _REQUESTS:
        signal.signal(number, _ignore)  # not SIG_IGN, which programs inherit
    print("\numu sweep: ending the running trials …", file=sys.stderr, flush=True)
    raise KeyboardInterrupt


def _ignore(*_: object) -> None:
    """Do nothing."""
