"""A sweep's trials in Optuna's storage, shared by all processes that work on it, on whatever machines.

Each method has a study of its own with a fixed number of slots, so that all get the same number of trials. A slot is a
trial that waits in the study from the start; taking one is a single change of state, which the storage lets only one
process make. A trial whose process died gets the mark `VOID` and its slot is filled again, with the same values.
"""

from __future__ import annotations

import functools
import socket
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from umu_tasks.benchmarks.errors import DataError
from umu_trainers.sweep import space
from umu_trainers.sweep.config import START, SweepConfig
from umu_trainers.sweep.locks import locked
from umu_trainers.sweep.objectives import DIRECTIONS
from umu_trainers.sweep.samplers import make_sampler
from umu_trainers.sweep.storages import is_database, open_storage, patiently, shown_storage, sqlite_file

if TYPE_CHECKING:
    from optuna.storages import BaseStorage
    from optuna.trial import FrozenTrial, Trial

SLOT, VOID, BEAT, HOST, FOLDER = "slot", "void", "beat", "host", "folder"
REASON, KIND, SCORED, INTERVALS, SECONDS, SETTINGS = "reason", "kind", "scored", "intervals", "seconds", "values"
FINGERPRINTS = "fingerprints"
NAME_FILE = ".sweep"  # of the output folder: whose trials it holds


@dataclass(frozen=True)
class Claim:
    """A trial that this process has taken.

    Attributes:
        values: searched option -> its value.
    """

    study: Study
    trial: Trial
    slot: int
    values: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The trial's name and folder: ``gd-003``."""
        return self.study.trial_name(self.slot)

    def note(self, **attributes: Any) -> None:
        """Write attributes of the trial into the storage; too late for a trial that was taken from us."""
        from optuna.exceptions import UpdateFinishedTrialError

        try:
            for name, value in attributes.items():
                patiently(functools.partial(self.trial.set_user_attr, name, value))
        except UpdateFinishedTrialError:
            return

    def finish(self, state: str, values: Sequence[float] | None = None, **attributes: Any) -> bool:
        """End the trial; returns False if another process has meanwhile taken it for dead."""
        from optuna.exceptions import UpdateFinishedTrialError
        from optuna.trial import TrialState

        self.note(**attributes)
        try:
            patiently(lambda: self.study.load(self.slot).tell(self.trial, values, state=TrialState[state]))
        except (UpdateFinishedTrialError, ValueError):
            # ValueError is what `tell` raises for a trial that has ended; values were checked before.
            return False
        return True


@dataclass(frozen=True)
class Study:
    """One method's trials, or the start model's single one.

    Attributes:
        method: or `START`.
        points: for a grid, the values of each slot.
    """

    config: SweepConfig
    storage: BaseStorage
    method: str
    slots: int
    dimensions: space.Space
    points: Sequence[Mapping[str, Any]] | None = None

    @property
    def name(self) -> str:
        return f"{self.config.name}/{self.method}"

    def trial_name(self, slot: int) -> str:
        return self.method if self.method == START else f"{self.method}-{slot:03d}"

    def load(self, slot: int) -> Any:
        """Return Optuna's study with the sampler of a slot."""
        import optuna

        sampler = make_sampler(self.config.sampler, self.slots, self.config.seed, self.method, slot)
        return optuna.load_study(study_name=self.name, storage=self.storage, sampler=sampler)

    def create(self) -> None:
        """Make the study if it is new, and let its missing slots wait.

        Raises:
            DataError: a study of this name was begun with other settings.
        """
        import optuna

        study = optuna.create_study(
            storage=self.storage, study_name=self.name, directions=[*DIRECTIONS], load_if_exists=True
        )
        before = study.user_attrs.get(FINGERPRINTS)
        if before is None:
            study.set_user_attr(FINGERPRINTS, self.config.fingerprints())
        else:
            self._require_same(before)
        self.fill(range(self.slots))

    def check(self) -> None:
        """Require that the study, which is there, was begun with the same settings.

        Raises:
            DataError: it was begun with others.
        """
        attributes = self.storage.get_study_user_attrs(self.storage.get_study_id_from_name(self.name))
        if FINGERPRINTS in attributes:
            self._require_same(attributes[FINGERPRINTS])

    def _require_same(self, before: Mapping[str, str]) -> None:
        now = self.config.fingerprints()
        if changed := [part for part in now if now[part] != before.get(part)]:
            raise DataError(
                f"{self.config.file.path}: {shown_storage(self.config.storage)} holds a sweep {self.config.name} that "
                f"was begun with another {', '.join(changed)}. Give this one another output_dir (in a database another "
                "name too), or restore the file."
            )

    # ---- which trials there are -------------------------------------------------------------------------------

    def all_trials(self) -> list[FrozenTrial]:
        return self.storage.get_all_trials(self.storage.get_study_id_from_name(self.name), deepcopy=False)

    def trials(self) -> list[FrozenTrial]:
        """Return the trials that count: one a slot."""
        counted: dict[int, FrozenTrial] = {}
        for one in self.all_trials():
            if VOID not in one.user_attrs and SLOT in one.user_attrs:
                counted.setdefault(one.user_attrs[SLOT], one)
        return [counted[slot] for slot in sorted(counted) if slot < self.slots]

    def finished(self) -> list[FrozenTrial]:
        return [one for one in self.trials() if one.state.is_finished()]

    def running(self) -> list[FrozenTrial]:
        return [one for one in self.trials() if one.state.name == "RUNNING"]

    def waiting(self) -> list[FrozenTrial]:
        return [one for one in self.trials() if one.state.name == "WAITING"]

    def values(self, trial: FrozenTrial) -> dict[str, Any]:
        """Return searched option -> value of a trial, as the trainer takes it."""
        return dict(trial.user_attrs.get(SETTINGS, {}))

    # ---- taking and giving back -------------------------------------------------------------------------------

    def fill(self, slots: Iterable[int]) -> None:
        """Let a trial wait for each of these slots that has none; a slot tried before keeps its values.

        Two processes that do so at once may let two wait: the later one is dropped when it is taken (`claim`).
        """
        study = self.load(0)
        everything = self.all_trials()
        held = {one.user_attrs.get(SLOT) for one in everything if VOID not in one.user_attrs}
        tried = {one.user_attrs.get(SLOT): one.params for one in everything if one.params}
        for slot in slots:
            if slot not in held:
                values = self._point(slot) if self.points is not None else tried.get(slot, {})
                study.enqueue_trial(dict(values), user_attrs={SLOT: slot})

    def _point(self, slot: int) -> dict[str, Any]:
        """Return a grid's values of a slot as Optuna takes them."""
        point = self.points[slot] if self.points is not None else {}
        grid = space.as_grid(self.dimensions)
        return {name: grid[name].labels[grid[name].values.index(value)] for name, value in point.items()}

    def claim(self) -> Claim | None:
        """Take the next waiting trial, None if there is none."""
        from optuna.exceptions import UpdateFinishedTrialError
        from optuna.trial import TrialState

        for one in [trial for trial in self.all_trials() if trial.state == TrialState.WAITING]:
            try:
                with self._alone():
                    is_ours = self.storage.set_trial_state_values(one._trial_id, TrialState.RUNNING)
                if not is_ours:
                    continue
            except UpdateFinishedTrialError:
                continue
            slot = one.user_attrs[SLOT]
            if self._is_double(one, slot):
                self.void(one, "double")
                continue
            try:
                return self._start(one._trial_id, slot)
            except UpdateFinishedTrialError:  # taken for dead by another process, so long did it take us
                continue
        return None

    def _alone(self) -> AbstractContextManager[None]:
        """Keep this machine's other processes from taking a trial meanwhile, where the storage itself does not.

        Optuna asks for the trial's row before it changes it. A server's database then locks the row, the journal is
        one list of changes; but SQLite locks no rows, and two processes would take one trial.
        """
        file = sqlite_file(self.config.storage)
        return nullcontext() if file is None else locked(file.parent, f".{file.name}.lock")

    def _is_double(self, trial: FrozenTrial, slot: int) -> bool:
        """Whether an earlier trial has the slot. Numbers are given in the order of creation, so all agree on it."""
        return slot >= self.slots or any(
            other.user_attrs.get(SLOT) == slot and VOID not in other.user_attrs and other.number < trial.number
            for other in self.all_trials()
        )

    def _start(self, trial_id: int, slot: int) -> Claim:
        from optuna.trial import Trial

        trial = Trial(self.load(slot), trial_id)
        dimensions = self.dimensions if self.points is None else space.as_grid(self.dimensions)
        claim = Claim(self, trial, slot, space.suggest(trial, dimensions))
        claim.note(**{BEAT: 0, SETTINGS: claim.values})
        return claim

    def void(self, trial: FrozenTrial, why: str) -> None:
        """Mark a trial as one that does not count and end it; its slot is free again."""
        from optuna.exceptions import UpdateFinishedTrialError
        from optuna.trial import TrialState

        try:
            self.storage.set_trial_user_attr(trial._trial_id, VOID, why)
            self.storage.set_trial_state_values(trial._trial_id, TrialState.FAIL)
        except UpdateFinishedTrialError:
            return


def open_studies(config: SweepConfig, *, create: bool = True) -> list[Study]:
    """Return the start model's study and one a method.

    Args:
        create: false: only read what is there.

    Raises:
        DataError: the storage cannot be opened, is not there, or holds another sweep of this name.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = open_storage(config, create=create)
    studies = _studies(config, storage)
    known = {one.study_name for one in optuna.get_all_study_summaries(storage, include_best_trial=False)}
    if create:
        _take_folder(config)
    for study in studies:
        if create:
            study.create()
        elif study.name not in known:
            place = shown_storage(config.storage)
            raise DataError(f"{place}: holds no sweep {config.name} yet. Run it without --report_only first.")
        else:
            study.check()
    return studies


def _take_folder(config: SweepConfig) -> None:
    """Write the sweep's name into its output folder."""
    _require_own_folder(config)
    config.output_dir.mkdir(parents=True, exist_ok=True)
    (config.output_dir / NAME_FILE).write_text(config.name, encoding="utf-8")


def _require_own_folder(config: SweepConfig) -> None:
    """Raise a DataError where another sweep has its trials: those of two sweeps would replace one another."""
    file = config.output_dir / NAME_FILE
    before = file.read_text(encoding="utf-8") if file.is_file() else ""
    if before not in ("", config.name):
        raise config.file.problem(
            "output_dir", f"{config.output_dir} holds the trials of sweep {before}. Name another folder for this one."
        )


def _studies(config: SweepConfig, storage: BaseStorage) -> list[Study]:
    studies = [Study(config, storage, START, 1, {})]
    for method, own in config.spaces.items():
        points = space.grid_points(config.file, own) if config.sampler == "grid" else None
        studies.append(Study(config, storage, method, config.trials, own, points))
    return studies


def finished_before(config: SweepConfig) -> int | None:
    """Return how many trials of a sweep are finished already, None if it was not begun; changes nothing.

    Raises:
        DataError: the storage cannot be opened, or holds another sweep of this name.
    """
    _require_own_folder(config)
    file = Path(config.storage) if not is_database(config.storage) else sqlite_file(config.storage)
    if file is not None and not file.exists():
        return None
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = open_storage(config, create=False)
    known = {one.study_name for one in optuna.get_all_study_summaries(storage, include_best_trial=False)}
    begun = [one for one in _studies(config, storage) if one.name in known]
    for study in begun:
        study.check()
    return sum(len(study.finished()) for study in begun) if begun else None


def this_host() -> str:
    """Return what tells this machine, since its last start, from others: only its own locks can be asked about."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    return f"{socket.gethostname()} {boot.read_text().strip() if boot.is_file() else ''}".strip()
