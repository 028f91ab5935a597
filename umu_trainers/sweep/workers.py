"""Who runs which trial: some threads of this process, each with its GPU, and maybe other processes elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from umu_tasks.steps import clock
from umu_trainers.sweep import space, studies
from umu_trainers.sweep.config import START, SweepConfig
from umu_trainers.sweep.locks import is_free, try_lock
from umu_trainers.sweep.objectives import NAMES
from umu_trainers.sweep.pruning import Point, Scored
from umu_trainers.sweep.studies import Claim, Study
from umu_trainers.sweep.trial import (
    BROKEN,
    COMPLETE,
    INTERRUPTED,
    PRUNED,
    RESULTS_OF_A_SETTING,
    Outcome,
    TrialRun,
    environment,
    intervals_as_data,
)

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

BEAT_SECONDS = 30.0
UNNAMED_SECONDS = 20.0
"""A trial that was taken and has not said by whom for so long is dead: that takes milliseconds."""
WAIT_SECONDS = 2.0
MOST_BROKEN = 3
_STATES = {COMPLETE: "COMPLETE", PRUNED: "PRUNED"}


class SweepStopped(RuntimeError):
    """The sweep cannot go on; the message says why and what to do."""


@dataclass
class Watch:
    """Tells dead trials of other processes from living ones, without trusting another machine's clock.

    Attributes:
        stale_seconds: a trial of another machine whose beat stood still for so long is dead.
    """

    stale_seconds: float
    _seen: dict[int, tuple[Any, float]] = field(default_factory=dict)

    def is_dead(self, trial: FrozenTrial) -> bool:
        """Whether nobody works on a running trial: by its folder's lock on this machine, else by its beat."""
        attributes = trial.user_attrs
        if attributes.get(studies.HOST) == studies.this_host():
            return is_free(Path(attributes[studies.FOLDER]))
        beat, now = attributes.get(studies.BEAT), time.monotonic()
        before, since = self._seen.get(trial._trial_id, (None, now))
        if trial._trial_id not in self._seen or before != beat:
            self._seen[trial._trial_id] = beat, now
            return False
        return now - since > (self.stale_seconds if studies.HOST in attributes else UNNAMED_SECONDS)


@dataclass
class Workers:
    """Runs a sweep's trials until all are finished.

    Attributes:
        gpus: one a worker, None for a worker that sees what this process sees.
        say: prints a line.
    """

    config: SweepConfig
    studies: Sequence[Study]
    gpus: Sequence[str | None]
    say: Callable[[str], None] = print
    broken: dict[str, str] = field(default_factory=dict)
    _ending: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _own: set[tuple[str, int]] = field(default_factory=set)
    _problem: str = ""

    @property
    def total(self) -> int:
        return sum(study.slots for study in self.studies)

    def run(self) -> None:
        """Run trials until none waits and none runs elsewhere.

        Raises:
            KeyboardInterrupt: the user ended it; running trials were ended and wait again.
            SweepStopped: the start model's scores are not valid, or trials fail one after the other.
        """
        self._watch = Watch(60 * self.config.stale_minutes)
        self._take_over()  # first what an earlier run left, the start model's trial above all
        with ThreadPoolExecutor(len(self.gpus)) as pool:
            working = [pool.submit(self._work, gpu) for gpu in self.gpus]
            try:
                while not all(one.done() for one in working):
                    time.sleep(0.1)
            except BaseException:
                self._ending.set()
                raise
        for one in working:
            one.result()
        if self._problem:
            raise SweepStopped(self._problem)

    def _work(self, gpu: str | None) -> None:
        """One worker: take a trial, run it, and again."""
        try:
            while not self._ending.is_set():
                claim = self._next()
                if claim is not None:
                    self._do(claim, gpu)
                elif not self._is_waiting_for_others():
                    return
        except BaseException:
            self._ending.set()  # the others end too, and what happened is raised where they are waited for
            raise

    # ---- which one ----------------------------------------------------------------------------------------------

    def _next(self) -> Claim | None:
        """Take a trial: the start model first, then of the method with the fewest taken, so that none runs ahead."""
        with self._lock:
            for study in sorted(self.studies, key=lambda one: (one.method != START, one.slots - len(one.waiting()))):
                claim = study.claim()
                if claim is not None:
                    self._own.add((claim.study.name, claim.slot))
                    return claim
        return None

    def _is_waiting_for_others(self) -> bool:
        """Look after the trials that run elsewhere; returns whether there is still one to wait for."""
        elsewhere = self._take_over()
        if elsewhere:
            self._ending.wait(WAIT_SECONDS)
        return elsewhere > 0

    def _take_over(self) -> int:
        """Let trials wait again whose process died; returns how many trials ran elsewhere."""
        with self._lock:
            elsewhere = 0
            for study in self.studies:
                for trial in study.running():
                    slot = trial.user_attrs[studies.SLOT]
                    if (study.name, slot) in self._own:
                        continue
                    elsewhere += 1
                    if self._watch.is_dead(trial):
                        self.say(f"{study.trial_name(slot)}: its process died; it is run again")
                        study.void(trial, "killed")
                        study.fill([slot])
        return elsewhere

    # ---- running it ---------------------------------------------------------------------------------------------

    def _do(self, claim: Claim, gpu: str | None) -> None:
        folder = trial_folder(self.config, claim.name)
        lock = self._folder_lock(folder, claim)
        try:
            if lock is None:
                outcome = Outcome(INTERRUPTED, "ended before it began")
            else:
                claim.note(**{studies.FOLDER: str(folder.resolve()), studies.HOST: studies.this_host()})
                outcome = self._run(claim, folder, gpu, lock)
            self._finish(claim, outcome)
        finally:
            if lock is not None:
                lock.close()
            self._own.discard((claim.study.name, claim.slot))

    def _folder_lock(self, folder: Path, claim: Claim) -> IO[str] | None:
        """Wait until no program that a dead process left behind works in the folder; None if we are ended first."""
        is_said, beat = False, Beat(claim, UNNAMED_SECONDS / 4)
        while not self._ending.is_set():
            lock = try_lock(folder)
            if lock is not None:
                return lock
            if not is_said:
                self.say(f"{claim.name}: waits for a program that an earlier run left behind in {folder}")
                is_said = True
            beat()
            self._ending.wait(1)
        return None

    def _run(self, claim: Claim, folder: Path, gpu: str | None, lock: IO[str]) -> Outcome:
        method = claim.study.method
        settings = None if method == START else space.apply(self.config.settings[method], claim.values)
        beat, told = Beat(claim), set[int]()

        def tick(scored: Scored) -> str:
            beat()
            if self.config.pruning is None or set(scored) == told:
                return ""
            told.update(scored)
            claim.note(**{studies.SCORED: {str(step): list(point) for step, point in scored.items()}})
            return self.config.pruning.why_ended(scored, other_scores(claim))

        variables = environment(self.config, len(self.gpus), gpu)
        run = TrialRun(self.config, folder, settings, variables, tick, self._ending.is_set, lock.fileno())
        return run.run()

    def _finish(self, claim: Claim, outcome: Outcome) -> None:
        """Write the outcome into the storage and say it."""
        noted: dict[str, Any] = {
            studies.KIND: outcome.kind,
            studies.REASON: outcome.reason,
            studies.SECONDS: round(outcome.seconds, 1),
        }
        if outcome.scored:
            noted[studies.SCORED] = {str(step): list(point) for step, point in outcome.scored.items()}
        if outcome.kind == COMPLETE:
            noted[studies.INTERVALS] = intervals_as_data(outcome.intervals)
        is_start = claim.study.method == START  # whose failure is no result either: nothing could be compared with it
        if outcome.kind not in RESULTS_OF_A_SETTING or (is_start and outcome.kind != COMPLETE):
            noted[studies.VOID] = outcome.kind
        kept = claim.finish(_STATES.get(outcome.kind, "FAIL"), outcome.values, **noted)
        if outcome.kind == INTERRUPTED:
            return
        if not kept:
            self.say(f"{claim.name}: another process took this trial over; its result here is dropped")
            return
        done = sum(len(study.finished()) for study in self.studies)
        shown = " ".join(one for one in (claim.name, space.shown(claim.values)) if one)
        self.say(f"[{done}/{self.total}] {shown}: {told_outcome(outcome)}")
        self._check(claim, outcome)

    def _check(self, claim: Claim, outcome: Outcome) -> None:
        """End the sweep where going on would only waste time."""
        logs = trial_folder(self.config, claim.name)
        if claim.study.method == START and outcome.kind != COMPLETE:
            self._end(f"the start model could not be scored ({outcome.kind}): {outcome.reason}. Its logs: {logs}")
        with self._lock:
            if outcome.kind == BROKEN:
                self.broken[claim.name] = outcome.reason
        if len(self.broken) >= MOST_BROKEN:
            self._end(
                f"{len(self.broken)} trials failed for reasons that are no result, the last with: {outcome.reason}. "
                f"Its logs: {logs}. Run the same command again to go on; these trials are then run again."
            )

    def _end(self, problem: str) -> None:
        self._problem = self._problem or problem
        self._ending.set()


class Beat:
    """A sign of life in the storage every so many seconds, for processes on other machines."""

    def __init__(self, claim: Claim, seconds: float = BEAT_SECONDS) -> None:
        self.claim = claim
        self.seconds = seconds
        self.count = 0
        self.last = time.monotonic()

    def __call__(self) -> None:
        if time.monotonic() - self.last >= self.seconds:
            self.count, self.last = self.count + 1, time.monotonic()
            self.claim.note(**{studies.BEAT: self.count})


def other_scores(claim: Claim) -> list[dict[int, Point]]:
    """Return what the sample gave in the method's other trials."""
    others = [one for one in claim.study.trials() if one.user_attrs[studies.SLOT] != claim.slot]
    return [as_scored(one.user_attrs.get(studies.SCORED, {})) for one in others]


def as_scored(stored: Mapping[str, Sequence[float]]) -> dict[int, Point]:
    """Return the sample's scores as the storage keeps them, whose keys are text."""
    return {int(step): Point(*point) for step, point in stored.items()}


def trial_folder(config: SweepConfig, name: str) -> Path:
    return config.output_dir / "trials" / name


def told_outcome(outcome: Outcome) -> str:
    """Return how a trial ended, in a line."""
    took = f"({clock(outcome.seconds)})"
    if outcome.values is None:
        again = "" if outcome.kind in RESULTS_OF_A_SETTING else "; it is run again by the next `umu sweep`"
        return f"{outcome.kind}: {outcome.reason}{again} {took}"
    numbers = ", ".join(f"{name} {100 * value:.1f}" for name, value in zip(NAMES, outcome.values, strict=True))
    return f"{numbers} (percent) {took}"
