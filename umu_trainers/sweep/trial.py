"""One trial: train with `unlearn.py`, score with lmms-eval, both as programs of their own, and read the objectives.

A trial's folder holds `config.yaml` (all of its settings, ready for `unlearn.py --config`), `model`, `results`,
`train.log` and `score.log`. A trial that was killed goes on where its folder allows it: with scoring if its model is
whole, from its newest complete checkpoint, or from the start.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from umu_tasks.report.intervals import Interval
from umu_tasks.report.training import RECORD
from umu_trainers.sweep.config import SweepConfig
from umu_trainers.sweep.objectives import NAMES
from umu_trainers.sweep.pruning import Scored, read_scored
from umu_trainers.sweep.values import Invalid, Unreadable, measure

CONFIG, MODEL, RESULTS, TRAIN_LOG, SCORE_LOG = "config.yaml", "model", "results", "train.log", "score.log"
PYTHON = sys.executable
POLL_SECONDS = 0.3
_GUARD = "stopped: "  # how `umu_trainers.run` begins the message of a guard; a test holds the two together
_TERMINATE_SECONDS = 10.0
COMPLETE, PRUNED, INVALID, STOPPED, BROKEN, INTERRUPTED = (
    "complete", "pruned", "invalid", "stopped", "broken", "interrupted",
)  # fmt: skip
"""How a trial can end: scored; ended by the pruning rule; scored, but its outputs are no answers; training diverged; a
program failed for another reason; ended by the user. The last two are no results: the trial is run again."""
RESULTS_OF_A_SETTING = (COMPLETE, PRUNED, INVALID, STOPPED)


@dataclass(frozen=True)
class Outcome:
    """How a trial ended.

    Attributes:
        kind: see `COMPLETE`.
        reason: why it has no values, "" if it has.
        values: objectives in the order of `NAMES`, fractions.
        scored: what the sample gave while training.
    """

    kind: str
    reason: str = ""
    values: tuple[float, ...] | None = None
    intervals: Mapping[str, Interval | None] = field(default_factory=dict)
    scored: Scored = field(default_factory=dict)
    seconds: float = 0.0


class Ended(Exception):
    """A trial ends here, without values."""

    def __init__(self, kind: str, reason: str) -> None:
        self.kind, self.reason = kind, reason
        super().__init__(reason)


Tick = Callable[[Scored], str]
"""Called while a program runs, with what the sample gave so far; returns why the trial is to be pruned, or ""."""


@dataclass(frozen=True)
class TrialRun:
    """What a trial runs with.

    Attributes:
        settings: of `unlearn.py`; None for the start model, which is scored as it is.
        variables: environment of its programs.
        tick: see `Tick`.
        is_ending: whether the sweep is being ended.
        lock: file descriptor that its programs inherit: while one lives, nobody else works in the folder.
    """

    config: SweepConfig
    folder: Path
    settings: Mapping[str, Any] | None
    variables: Mapping[str, str]
    tick: Tick
    is_ending: Callable[[], bool]
    lock: int

    def run(self) -> Outcome:
        """Train and score; every way a trial can end is an outcome."""
        started = time.monotonic()
        try:
            if self.settings is not None:
                self._train()
            self._score()
            found = measure(self.folder / RESULTS, self.config.objectives)
        except Ended as ended:
            kind, reason = ended.kind, ended.reason
        except Invalid as problem:
            kind, reason = INVALID, str(problem)
        except (Unreadable, OSError) as problem:
            kind, reason = BROKEN, str(problem)
        else:
            return Outcome(COMPLETE, "", found.values, found.intervals, self._scored(), time.monotonic() - started)
        return Outcome(kind, reason, scored=self._scored(), seconds=time.monotonic() - started)

    def _scored(self) -> dict[int, Any]:
        return read_scored(self.folder / TRAIN_LOG)

    # ---- training -----------------------------------------------------------------------------------------------

    def _train(self) -> None:
        if self._make_room():
            return
        command = [PYTHON, "-m", "umu_trainers.unlearn", "--config", str(self.folder / CONFIG)]
        log = self.folder / TRAIN_LOG
        status = self._program([*command, "--resume_from_checkpoint", "last"], log)
        if status or not self._is_trained:
            # The trainer's guards: what the setting did to the model, and no fault of the machine.
            if status == 1 and (said := last_line(log, _GUARD)):
                raise Ended(STOPPED, said.removeprefix(_GUARD))
            raise Ended(BROKEN, f"training {told_status(status)}: {last_line(log)}")

    @property
    def _is_trained(self) -> bool:
        return (self.folder / MODEL / RECORD).is_file()

    def _make_room(self) -> bool:
        """Write the trial's config; returns True if its folder holds the trained model of the same settings."""
        text = yaml.safe_dump({**(self.settings or {}), "output_dir": str(self.folder / MODEL)}, sort_keys=False)
        file = self.folder / CONFIG
        if not file.is_file() or file.read_text(encoding="utf-8") != text:
            self._clear(MODEL)
        file.write_text(text, encoding="utf-8")
        if self._is_trained:
            return True
        if not any((self.folder / MODEL).glob("checkpoint-*/trainer_state.json")):
            self._clear(MODEL)
        return False

    def _clear(self, name: str) -> None:
        shutil.rmtree(self.folder / name, ignore_errors=True)

    # ---- scoring ------------------------------------------------------------------------------------------------

    def _score(self) -> None:
        self._clear(RESULTS)
        log = self.folder / SCORE_LOG
        status = self._program(self._scoring_command(), log)
        has_results = any((self.folder / RESULTS).rglob("*_results.json"))
        # Status 1 with results: a run that judged itself to be invalid, which its results file says.
        if status not in (0, 1) or not has_results:
            raise Ended(BROKEN, f"scoring {told_status(status)}: {last_line(log)}")

    def _scoring_command(self) -> list[str]:
        scoring, shared = self.config.scoring, self.config.shared
        start = start_path(str(shared["model"]))
        model = start if self.settings is None else str(self.folder / MODEL)
        arguments = {"pretrained": model, "batch_size": scoring.batch_size, **(scoring.model_args or {})}
        if shared.get("prompt"):
            arguments.setdefault("prompt", shared["prompt"])
        command = [PYTHON, "-m", "lmms_eval", "--model", "umu_hf"]
        command += ["--model_args", ",".join(f"{name}={value}" for name, value in arguments.items())]
        command += ["--tasks", ",".join(scoring.tasks), "--output_path", str(self.folder / RESULTS), "--log_samples"]
        command += ["--device", "cpu"] if str(shared.get("use_cpu")).lower() == "true" else []
        return command + (["--limit", str(scoring.limit)] if scoring.limit is not None else [])

    # ---- programs -----------------------------------------------------------------------------------------------

    def _program(self, command: list[str], log: Path) -> int:
        """Run a program, its output to `log`; returns its status.

        Raises:
            Ended: it was ended, by the user or by the pruning rule.
        """
        if self.is_ending():
            raise Ended(INTERRUPTED, "ended before it began")
        with log.open("wb") as sink:
            # Of our own process group, so that who kills the group kills all of it.
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env=dict(self.variables),
                pass_fds=(self.lock,),
            )
            try:
                return self._watch(process, log)
            finally:
                stop(process)

    def _watch(self, process: subprocess.Popen[bytes], log: Path) -> int:
        while (status := process.poll()) is None:
            if self.is_ending():
                raise Ended(INTERRUPTED, "ended by the user")
            if why := self.tick(read_scored(log) if log.name == TRAIN_LOG else {}):
                raise Ended(PRUNED, why)
            time.sleep(POLL_SECONDS)
        # Ctrl-C in a terminal reaches the program too, maybe before it reaches us.
        if status in (130, -signal.SIGINT):
            raise Ended(INTERRUPTED, "ended by the user")
        return status


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a program that still runs: ask first, then kill."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(timeout=_TERMINATE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def last_line(log: Path, start: str = "") -> str:
    """Return the last line of a log that says something and begins with `start`, shortened; "" if there is none."""
    lines = [one.strip() for one in log.read_text(encoding="utf-8", errors="replace").splitlines() if one.strip()]
    return next((one[:400] for one in reversed(lines) if one.startswith(start)), "")


def told_status(status: int) -> str:
    """Return how a program ended, in words.

    >>> told_status(1), told_status(-9)
    ('failed with status 1', 'was killed (signal 9, SIGKILL: maybe for want of memory)')
    """
    if status >= 0:
        return f"failed with status {status}"
    names = {one.value: one.name for one in signal.Signals}
    maybe = ": maybe for want of memory" if -status == signal.SIGKILL else ""
    return f"was killed (signal {-status}, {names.get(-status, 'unknown')}{maybe})"


def start_path(model: str) -> str:
    """Return where the start model lies, as the evaluator takes it."""
    if model != "mini":
        return model
    from umu_tasks.mini import base_model_dir

    return str(base_model_dir())


def environment(config: SweepConfig, jobs: int, gpu: str | None = None) -> dict[str, str]:
    """Return the variables of a trial's programs.

    Args:
        jobs: how many trials share this machine's cores.
        gpu: the one a trial may see; None: no choice is made.
    """
    from umu_tasks.benchmarks.sources import variable_of

    shared = config.shared
    own = {"TOKENIZERS_PARALLELISM": "false", "OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY", "PASSIVE")}
    if "OMP_NUM_THREADS" not in os.environ:
        own["OMP_NUM_THREADS"] = str(max(1, len(os.sched_getaffinity(0)) // jobs))
    if shared.get("data"):
        own[variable_of(str(shared.get("benchmark", "umu")))] = str(shared["data"])
    if gpu is not None:
        own["CUDA_VISIBLE_DEVICES"] = gpu
    return {**os.environ, **own}


def intervals_as_data(found: Mapping[str, Interval | None]) -> dict[str, list[float] | None]:
    """Return intervals as the storage keeps them."""
    return {name: list(one) if (one := found.get(name)) is not None else None for name in NAMES}
