"""A sweep's YAML file: what is searched, from which settings, how long, how it is scored (docs/sweep.md).

Everything that can be told without loading the trainer is checked here; `check.py` asks the trainer about the rest.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import umu_tasks
from umu_tasks.tasks.files import leaves_of
from umu_trainers.early import CHOICES, FORGET_RATIOS, HERE, read_configs
from umu_trainers.sweep import space
from umu_trainers.sweep.objectives import Objective, read_objectives
from umu_trainers.sweep.problems import ConfigFile
from umu_trainers.sweep.pruning import Rule, read_rule

KEYS = (
    "name", "output_dir", "base", "fixed", "methods", "budget", "sampler", "seed", "space", "method_space", "scoring",
    "objectives", "pruning", "recommend", "storage", "stale_minutes",
)  # fmt: skip
REQUIRED = ("base", "methods", "budget", "space")
SAMPLERS = ("grid", "random", "tpe", "nsga2")
START = "start"
"""Name of the start model's own trial: scored, not trained."""
# What makes a step and how many there are: the same for all methods, or one of them gets more than the others.
_BUDGET = ("max_steps", "num_train_epochs", "per_device_train_batch_size", "gradient_accumulation_steps")
# Trials of one sweep have these in common, else their scores could not be compared.
_ONE_FOR_ALL = ("model", "data", "benchmark", "forget_ratio", "prompt")
_SET_BY_SWEEP = ("output_dir", "resume_from_checkpoint", "method", "score_every", "score_sample")
_QUIET = {"disable_tqdm": True, "report_to": "none"}


@dataclass(frozen=True)
class Scoring:
    """How lmms-eval is called on a trial's model.

    Attributes:
        tasks: groups, suites or leaf tasks.
        batch_size: questions asked at once, or ``auto``.
        limit: questions a task, to try a sweep out; None for all.
        model_args: more options of ``umu_hf``.
    """

    tasks: tuple[str, ...]
    batch_size: str = "auto"
    limit: int | None = None
    model_args: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class SweepConfig:
    """A sweep.

    Attributes:
        settings: method -> its settings of `unlearn.py` before any are searched.
        spaces: method -> what is searched of them.
        trials: how many each method gets.
        sampler: one of `SAMPLERS`.
        keep: share of the start model's utility that a recommended setting keeps.
        storage: URL of a database, or the path of a journal file.
        stale_minutes: a trial of another machine that gave no sign of life for so long is taken over.
    """

    file: ConfigFile
    name: str
    output_dir: Path
    settings: Mapping[str, Mapping[str, Any]]
    spaces: Mapping[str, space.Space]
    trials: int
    sampler: str
    seed: int
    scoring: Scoring
    objectives: Mapping[str, Objective]
    pruning: Rule | None
    keep: float
    storage: str
    stale_minutes: float

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(self.settings)

    @property
    def shared(self) -> Mapping[str, Any]:
        """Settings of the first method, for those that all methods have in common."""
        return self.settings[self.methods[0]]

    def fingerprints(self) -> dict[str, str]:
        """Return part -> hash of what a trial's scores depend on; a study that was begun with others is another."""
        parts: dict[str, Any] = {
            "settings": {name: dict(one) for name, one in self.settings.items()},
            "space": {name: {key: asdict(one) for key, one in own.items()} for name, own in self.spaces.items()},
            "sampler": [self.sampler, self.seed],
            "scoring": asdict(self.scoring),
            "objectives": {name: asdict(one) for name, one in self.objectives.items()},
            "pruning": self.pruning and asdict(self.pruning),
        }
        return {
            name: hashlib.sha256(json.dumps(one, sort_keys=True, default=str).encode()).hexdigest()[:16]
            for name, one in parts.items()
        }


def read_config(path: Path, output_dir: Path | None = None) -> SweepConfig:
    """Return a sweep as its file describes it.

    Args:
        output_dir: in place of the file's.

    Raises:
        DataError: names file and key of what is missing, unknown or cannot work.
    """
    file = ConfigFile(path)
    # A key with nothing behind it (its value commented out) is one that is not there.
    found = {key: one for key, one in file.known_keys("", file.load(), KEYS).items() if one is not None}
    for key in REQUIRED:
        if key not in found:
            raise file.problem(key, "missing; docs/sweep.md explains every key.")
    methods = _methods(file, found["methods"])
    budget = _budget(file, found["budget"])
    rule = read_rule(file, found["pruning"]) if found.get("pruning") else None
    if rule and rule.every > budget.get("steps", rule.every):
        text = f"{rule.every} is above budget.steps {budget['steps']}: no trial would ever be scored on the way."
        raise file.problem("pruning.every", text)
    settings = {method: _settings(file, found, method, budget, rule) for method in methods}
    spaces = _spaces(file, found, methods, budget)
    _check_fixed(file, found.get("fixed") or {}, spaces)
    _check_equal(file, settings, spaces)
    sampler = file.choice("sampler", found.get("sampler", "tpe"), SAMPLERS)
    scoring = _scoring(file, found.get("scoring") or {}, settings[methods[0]])
    output = output_dir or Path(file.text("output_dir", found.get("output_dir", f"runs/sweep/{path.stem}")))
    _require_plain(file, output)
    recommend = file.known_keys("recommend", found.get("recommend") or {}, ("keep",))
    return SweepConfig(
        file=file,
        name=file.text("name", found.get("name", path.stem)),
        output_dir=output,
        settings=settings,
        spaces=spaces,
        trials=_trials(file, budget, sampler, spaces),
        sampler=sampler,
        seed=file.whole("seed", found.get("seed", 0), at_least=0),
        scoring=scoring,
        objectives=read_objectives(file, found.get("objectives") or {}, scoring.tasks),
        pruning=rule,
        keep=file.share("recommend.keep", recommend.get("keep", 0.95)),
        storage=file.text("storage", found.get("storage", str(output / "journal.log"))),
        stale_minutes=_stale_minutes(file, found.get("stale_minutes", 10)),
    )


def _stale_minutes(file: ConfigFile, found: Any) -> float:
    minutes = file.number("stale_minutes", found)
    if minutes < 1:  # a living trial gives a sign of life twice a minute
        raise file.problem("stale_minutes", f"{minutes}: at least 1 is expected, or living trials would be taken over.")
    return minutes


def _methods(file: ConfigFile, found: Any) -> tuple[str, ...]:
    methods = file.texts("methods", found)
    for one in methods:
        file.choice("methods", one, CHOICES["method"])
    return methods


def _budget(file: ConfigFile, found: Any) -> Mapping[str, Any]:
    budget = dict(file.known_keys("budget", found, ("trials", "steps", "epochs")))
    if ("steps" in budget) == ("epochs" in budget):
        raise file.problem(
            "budget", "give steps or epochs: how long a trial trains, the same for every method (optimizer steps)."
        )
    if "steps" in budget:
        file.whole("budget.steps", budget["steps"])
    else:
        budget["epochs"] = file.number("budget.epochs", budget["epochs"])
        if budget["epochs"] <= 0:
            raise file.problem("budget.epochs", f"a number above 0 is expected, found {budget['epochs']}.")
    return budget


def _trials(file: ConfigFile, budget: Mapping[str, Any], sampler: str, spaces: Mapping[str, space.Space]) -> int:
    given = file.whole("budget.trials", budget["trials"]) if "trials" in budget else None
    if sampler != "grid":
        if given is None:
            raise file.problem("budget.trials", f"missing: how many trials sampler {sampler} gives each method.")
        return given
    grids = {method: space.grid_points(file, own) for method, own in spaces.items()}
    counts = {len(points) for points in grids.values()}
    if len(counts) > 1:
        raise file.problem(
            "space",
            f"the methods' grids have different sizes ({space.sizes(grids)}), so the budget would not be equal. Give "
            "each method as many points, or use another sampler.",
        )
    size = counts.pop()
    if given not in (None, size):
        raise file.problem("budget.trials", f"{given}, but the grid has {size} points a method. Leave it out.")
    return size


# ---- settings ---------------------------------------------------------------------------------------------------


def _settings(
    file: ConfigFile, found: Mapping[str, Any], method: str, budget: Mapping[str, Any], rule: Rule | None
) -> dict[str, Any]:
    """Return a method's settings: the base configs, then `fixed`, then what the sweep itself sets."""
    names = [str(find_config(file, one, method)) for one in file.texts("base", found["base"])]
    try:
        base = read_configs(names)
    except ValueError as error:
        raise file.problem("base", str(error)) from error
    fixed = {str(name): one for name, one in file.mapping("fixed", found.get("fixed") or {}).items()}
    for name in fixed:
        if name in (*_SET_BY_SWEEP, "max_steps", "num_train_epochs"):
            raise file.problem(f"fixed.{name}", f"the sweep sets {name} itself. {_instead(name)}")
    if base.get("method", method) != method:
        raise file.problem(
            "base",
            f"{', '.join(names)} is for method {base['method']}, but {method} is to use it too. Write {{method}} into "
            "the path, or take method out of the file.",
        )
    settings = {**_QUIET, **base, **fixed, "method": method, **_length(budget)}
    if not settings.get("model"):
        raise file.problem("base", f"{', '.join(names)} names no model to start from. Set model there or under fixed.")
    settings.pop("output_dir", None)
    if "steps" in budget:
        settings.pop("num_train_epochs", None)  # max_steps wins over it
    return settings | (rule.settings if rule else {})


def _length(budget: Mapping[str, Any]) -> dict[str, Any]:
    if "steps" in budget:
        return {"max_steps": budget["steps"]}
    return {"max_steps": -1, "num_train_epochs": budget["epochs"]}


def _instead(name: str) -> str:
    if name in ("max_steps", "num_train_epochs"):
        return "Write it as budget.steps or budget.epochs."
    if name == "method":
        return "Name methods under methods."
    return "Write it under pruning." if name.startswith("score_") else "Leave it out."


def find_config(file: ConfigFile, name: str, method: str) -> Path:
    """Return the path of a base config: as it stands, beside the sweep's file, in the project's folder or package."""
    filled = name.replace("{method}", method)
    root = Path(umu_tasks.__file__).parents[1]
    places = (Path(filled), file.path.parent / filled, root / filled, HERE / filled)
    for place in places:
        if place.is_file():
            return place
    raise file.problem("base", f"no file {filled} (looked for {', '.join(str(one) for one in places)}).")


# ---- the search -------------------------------------------------------------------------------------------------


def _spaces(
    file: ConfigFile, found: Mapping[str, Any], methods: Sequence[str], budget: Mapping[str, Any]
) -> dict[str, dict[str, space.Dimension]]:
    shared = space.read_space(file, "space", found["space"] or {})
    own = file.known_keys("method_space", found.get("method_space") or {}, methods)
    spaces: dict[str, dict[str, space.Dimension]] = {}
    for method in methods:
        key = f"method_space.{method}"
        mine = space.read_space(file, key, own.get(method) or {})
        for name in mine:
            if name in _BUDGET:
                raise file.problem(f"{key}.{name}", "one method alone would get more steps or rows. Put it in space.")
        spaces[method] = {**shared, **mine}
        if not spaces[method]:
            raise file.problem("space", f"empty: nothing is searched of method {method}. Name an option to search.")
        _check_names(file, spaces[method])
    _check_length(file, shared, budget)
    return spaces


def _check_names(file: ConfigFile, own: space.Space) -> None:
    for name in own:
        if name in _ONE_FOR_ALL:
            raise file.problem(f"space.{name}", "trials with another one could not be compared. Put it under fixed.")
        if name in _SET_BY_SWEEP:
            raise file.problem(f"space.{name}", f"the sweep sets {name} itself. {_instead(name)}")
        if "." in name and name.partition(".")[0] != "method_kwargs":
            raise file.problem(f"space.{name}", "only method_kwargs has settings of its own (method_kwargs.NAME).")


def _check_fixed(file: ConfigFile, fixed: Mapping[str, Any], spaces: Mapping[str, space.Space]) -> None:
    """What is searched has no fixed value: of the two, one would be ignored."""
    inside = fixed.get("method_kwargs")
    names = {*fixed, *(f"method_kwargs.{name}" for name in (inside if isinstance(inside, Mapping) else ()))}
    for own in spaces.values():
        for name in own:
            if name in names:
                raise file.problem(f"fixed.{name}", f"{name} is searched too (space). Leave one of the two out.")


def _check_length(file: ConfigFile, shared: space.Space, budget: Mapping[str, Any]) -> None:
    """A trial may be shorter than the budget, never longer."""
    for name, key in (("max_steps", "steps"), ("num_train_epochs", "epochs")):
        if name not in shared:
            continue
        if key not in budget:
            raise file.problem(f"space.{name}", f"give budget.{key}, the most that a trial may have.")
        longest = max(file.number(f"space.{name}", one) for one in shared[name].extremes)
        if longest > budget[key]:
            raise file.problem(f"space.{name}", f"{longest} is above budget.{key} {budget[key]}.")


def _check_equal(file: ConfigFile, settings: Mapping[str, Mapping[str, Any]], spaces: Mapping[str, Any]) -> None:
    """Require that no method gets more than another, and that all start from the same model and data."""
    for name in (*_BUDGET, *_ONE_FOR_ALL):
        if all(name in own for own in spaces.values()):
            continue
        values = {method: own.get(name) for method, own in settings.items()}
        if len({json.dumps(one, default=str) for one in values.values()}) > 1:
            listed = ", ".join(f"{method} {value}" for method, value in values.items())
            raise file.problem("base", f"the methods have different {name} ({listed}). Set it under fixed.")


# ---- scoring ----------------------------------------------------------------------------------------------------


def _scoring(file: ConfigFile, found: Any, settings: Mapping[str, Any]) -> Scoring:
    given = file.known_keys("scoring", found, ("tasks", "batch_size", "limit", "model_args"))
    benchmark, ratio = settings.get("benchmark", "umu"), settings.get("forget_ratio", FORGET_RATIOS[0])
    if str(ratio) not in map(str, FORGET_RATIOS):
        choices = ", ".join(map(str, FORGET_RATIOS))
        raise file.problem("fixed.forget_ratio", f"found {ratio!r} there or in base. Choose one of {choices}.")
    ratio = int(ratio)
    tasks = file.texts("scoring.tasks", given["tasks"]) if "tasks" in given else (f"{benchmark}{ratio:02d}",)
    for leaf in leaves_of(tasks):
        if leaf.split.startswith("forget") and leaf.split != f"forget{ratio:02d}":
            raise file.problem(
                "scoring.tasks", f"{leaf} is another forget set than forget_ratio {ratio}, which is trained on."
            )
    batch = given.get("batch_size", "auto")
    return Scoring(
        tasks,
        "auto" if batch == "auto" else str(file.whole("scoring.batch_size", batch)),
        file.whole("scoring.limit", given["limit"]) if given.get("limit") is not None else None,
        _model_args(file, given.get("model_args") or {}),
    )


def _model_args(file: ConfigFile, found: Any) -> dict[str, Any]:
    """Return more options of `umu_hf`; none that says which model is scored, for that is the trial's own."""
    given = {str(name): one for name, one in file.mapping("scoring.model_args", found).items()}
    for name, one in given.items():
        key = f"scoring.model_args.{name}"
        if name in ("pretrained", "peft"):
            raise file.problem(key, "every trial scores its own model. Leave it out.")
        if name == "batch_size":
            raise file.problem(key, "write it as scoring.batch_size.")
        if isinstance(one, Mapping | list) or re.search("[,=]", str(one)):
            raise file.problem(key, f"lmms-eval can't take the value {one!r}: no list, no ',' and no '='.")
    return given


def _require_plain(file: ConfigFile, output: Path) -> None:
    """lmms-eval takes its options as ``a=b,c=d``, so a path with a comma or an equals sign would be cut there."""
    if output.exists() and not output.is_dir():
        raise file.problem("output_dir", f"{output} is a file. Name a folder.")
    if sign := re.search("[,=]", str(output)):
        raise file.problem("output_dir", f"{output}: lmms-eval can't take a path with {sign[0]!r} in it.")
