"""`umu demo`: the whole way on invented people, on one small model: learn, be scored, forget twice, be scored, report.

Every step is a command that one can type oneself, with the same programs and the same configs that serve large models:
training by `accelerate launch`, scoring by `lmms-eval`, the report by `umu report`. This module only strings them
together and remembers which ones need not run again.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from umu_tasks.benchmarks.errors import DataError
from umu_tasks.benchmarks.splits import retain_split
from umu_tasks.report.training import RECORD
from umu_tasks.steps import Runner, Step, StepFailed, clock, readable

PYTHON = sys.executable
OUT, QUICK_OUT = Path("runs/demo"), Path("runs/demo-quick")
START = "sft"
"""Name of the start model's run: what the unlearned models are compared with."""
MODALITIES = {"text": "uni", "mix": "mix"}
"""Name of an unlearned model -> what the trainer calls its data."""
SMOKE_TRAINING = ("--max_steps", "2")
SMOKE_SCORING = ("--limit", "4")


@dataclass(frozen=True, slots=True)
class Settings:
    """What the demo's user chose.

    Attributes:
        forget_ratio: percent of the invented people to forget: 5, 10 or 15.
        batch_size: questions asked at once.
        smoke: two training steps and four questions a task, to see that everything works; the numbers mean nothing.
    """

    out: Path
    forget_ratio: int = 5
    batch_size: int = 64
    smoke: bool = False

    @property
    def suite(self) -> str:
        return f"umu{self.forget_ratio:02d}"


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `umu demo`."""
    parser = commands.add_parser(
        "demo",
        help="learn, forget and score 60 invented people on a CPU in about ten minutes",
        description="Teach a small multimodal model 60 invented people, make it forget some of them twice (with text "
        "alone, and with text and images), score it before and after with lmms-eval, and write a report. Runs without "
        "GPU and without network. Finished steps are not done again unless what they were made from changed.",
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help=f"default: {OUT}, with --quick {QUICK_OUT}: results are never mixed"
    )
    parser.add_argument(
        "--forget_ratio", type=int, choices=(5, 10, 15), default=5, help="percent of the people (default: %(default)s)"
    )
    parser.add_argument(
        "--batch_size", type=int, default=64, metavar="N", help="questions asked at once (default: %(default)s)"
    )
    parser.add_argument(
        "--quick",
        "--smoke",
        dest="smoke",
        action="store_true",
        help="train and ask only a little: shows that everything works, no more",
    )
    parser.add_argument("--list", action="store_true", help="only print the commands")
    parser.add_argument("-v", "--verbose", action="store_true", help="show what the commands say, too")
    parser.set_defaults(run=run, keeps_logs=True)


def run(arguments: argparse.Namespace) -> int:
    """Run the demo; returns 0, 1 when a step failed, 3 when the report holds an invalid run."""
    out = arguments.out or (QUICK_OUT if arguments.smoke else OUT)
    settings = Settings(out, arguments.forget_ratio, arguments.batch_size, arguments.smoke)
    _require_plain(settings.out)
    steps = build_steps(settings)
    variables = environment()
    print("The commands below run with:\n" + "".join(f"  {line}\n" for line in _exports(variables)))
    if arguments.list:
        print("\n".join(f"# {step.title}\n{readable(step.command)}\n" for step in steps))
        return 0
    signal.signal(signal.SIGTERM, _interrupt)
    started = time.monotonic()
    try:
        Runner(settings.out, variables, verbose=arguments.verbose).run(steps)
    except StepFailed as error:
        print(f"umu demo: {error}\n\nFinished steps are kept. Run the same command to go on.", file=sys.stderr)
        return 1
    return _close(settings, time.monotonic() - started)


# ---- the steps --------------------------------------------------------------------------------------------------


def build_steps(settings: Settings) -> list[Step]:
    """Return the demo's steps in order."""
    from umu_tasks.mini import base_model_dir

    base = base_model_dir()
    learn = _train(
        settings, START, "Teach the base model the 60 invented people", "sft/mini.yaml", base, after=("data",)
    )
    steps = [
        _data(),
        # The full set holds the forget and the retain set: one set of questions is enough to show that it knows nobody.
        _score(settings, "base", base, ("umu_full", "umu_real"), after=("data",)),
        learn,
        _score(settings, START, _model(settings, START), (settings.suite,), after=(START,)),
    ]
    for name, modality in MODALITIES.items():
        what = "text questions alone" if modality == "uni" else "text and image questions"
        options = ("--modality", modality, "--forget_ratio", str(settings.forget_ratio))
        title = f"Make it forget {settings.forget_ratio} % of the people with {what} (gradient difference)"
        model = _model(settings, START)
        steps.append(_train(settings, f"gd-{name}", title, "unlearn/mini/gd.yaml", model, options, after=(START,)))
        run_name = f"gd-{name}"
        steps.append(_score(settings, run_name, _model(settings, run_name), (settings.suite,), after=(run_name,)))
    return [*steps, _report(settings)]


def _data() -> Step:
    command = (PYTHON, "-m", "umu_tasks.cli", "data", "check", "mini")
    return Step("data", "Draw the invented people and check their data", command, code=_code("mini", "benchmarks"))


def _train(
    settings: Settings,
    name: str,
    title: str,
    config: str,
    model: Path,
    options: tuple[str, ...] = (),
    *,
    after: tuple[str, ...],
) -> Step:
    script = "sft" if config.startswith("sft/") else "unlearn"
    accelerate, own = config_path("accelerate/single.yaml"), config_path(config)
    out = _model(settings, name)
    command = (
        *(PYTHON, "-m", "accelerate.commands.launch", "--config_file", str(accelerate), "-m", f"umu_trainers.{script}"),
        *("--config", str(own), "--model", str(model), "--output_dir", str(out), *options),
        *(SMOKE_TRAINING if settings.smoke else ()),
    )
    # The packaged model is an input; one that an earlier step made counts by that step's stamp.
    inputs = (accelerate, own, *((model,) if name == START else ()))
    code = (*_code("mini", "benchmarks", "backend", "tasks"), _package("umu_trainers"))
    return Step(name, title, command, out, inputs, after, code, check=lambda: _require_model(out))


def _score(settings: Settings, name: str, model: Path, tasks: tuple[str, ...], *, after: tuple[str, ...]) -> Step:
    out = _results(settings, name)
    command = (
        *(PYTHON, "-m", "lmms_eval", "--model", "umu_hf", "--model_args", f"pretrained={model}"),
        *("--tasks", ",".join(tasks), "--batch_size", str(settings.batch_size)),
        *("--output_path", str(out), "--log_samples"),
        *(SMOKE_SCORING if settings.smoke else ()),
    )
    inputs = (model,) if name == "base" else ()
    code = _code("mini", "benchmarks", "backend", "tasks", "scoring", "results")
    title = f"Score the {'base' if name == 'base' else name} model with lmms-eval: {', '.join(tasks)}"
    return Step(
        name=f"score-{name}",
        title=title,
        command=command,
        output=out,
        inputs=inputs,
        after=after,
        code=code,
        check=lambda: _require_results(name, out, tasks),
        accepted=frozenset({0, 1}),  # 1: not valid, which the report says; or an error, which the check finds
    )


def _report(settings: Settings) -> Step:
    runs = ("base", START, *(f"gd-{name}" for name in MODALITIES))
    out = settings.out / "report"
    folders = tuple(f"{name}={_results(settings, name)}" for name in runs)
    command = (PYTHON, "-m", "umu_tasks.cli", "report", *folders, "--baseline", START, "--out", str(out))
    return Step(
        name="report",
        title="Write the report",
        command=command,
        output=out,
        after=tuple(f"score-{name}" for name in runs),
        code=_code("report", "scoring", "judge"),
        accepted=frozenset({0, 3}),  # 3: a run is invalid; the report says which and why
    )


def _model(settings: Settings, name: str) -> Path:
    return settings.out / "models" / name


def _results(settings: Settings, name: str) -> Path:
    return settings.out / "results" / name


def _code(*folders: str) -> tuple[Path, ...]:
    return tuple(_package("umu_tasks") / folder for folder in folders)


def _package(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise DataError(f"the package {name} is not installed. Install umu-bench: pip install -e .")
    return Path(spec.origin).parent


def config_path(name: str) -> Path:
    """Return the path of a config, such as ``sft/mini.yaml``, in the project's `configs` folder.

    It is looked for beside the package (a clone), in the trainers' package (an installed wheel), in the current folder.

    Raises:
        DataError: it is in neither; says where it was expected.
    """
    places = [_package("umu_tasks").parent / "configs", _package("umu_trainers") / "configs", Path("configs")]
    for place in places:
        if (place / name).is_file():
            return place / name
    expected = " or ".join(str(place / name) for place in places)
    raise DataError(f"config {name} not found; expected {expected}. Install umu-bench again.")


# ---- checks -----------------------------------------------------------------------------------------------------


def _require_model(folder: Path) -> None:
    for name in ("*.safetensors", RECORD):  # the record is written last: with it the run is whole
        if not any(folder.glob(name)):
            raise ValueError(f"there is no {name} in {folder}")


def _require_results(name: str, folder: Path, tasks: tuple[str, ...]) -> None:
    """lmms-eval can end with success after it reported an error, so look whether all is there."""
    from umu_tasks.report.read import read_run

    scored = read_run(folder, name)  # a DataError is a ValueError
    for group in tasks:
        splits = (group.removeprefix("umu_"),) if group.startswith("umu_") else _suite_splits(group)
        missing = [
            split for split in splits if (split, "cls") not in scored.tasks or (split, "gen") not in scored.tasks
        ]
        if missing:
            raise ValueError(f"{folder} has no scores for {', '.join(missing)}")
    if any(result.answers is None for result in scored.tasks.values()):
        raise ValueError(f"{folder} has no sample files")


def _suite_splits(suite: str) -> tuple[str, str, str]:
    forget = f"forget{suite.removeprefix('umu')}"
    return forget, retain_split(forget), "real"


def _require_plain(out: Path) -> None:
    """lmms-eval takes its options as ``a=b,c=d``, so a path with a comma or an equals sign would be cut there."""
    for sign in (",", "="):
        if sign in str(out):
            raise DataError(f"--out {out}: lmms-eval can't take a path with {sign!r} in it. Choose another one.")


# ---- around the steps -------------------------------------------------------------------------------------------


def environment() -> dict[str, str | None]:
    """Return the variables the commands run with; None: taken out."""
    threads = str(min(len(os.sched_getaffinity(0)), 4))  # a small model gets slower on more
    return {
        "UMU_DATA": "mini",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", threads),
        # Waiting threads sleep: where they spin, a busy machine gets ten times slower.
        "OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY", "PASSIVE"),
        "HF_TOKEN": None,  # with a token lmms-eval asks the hub who it belongs to
        "LMMS_EVAL_PLUGINS": None,
    }


def _exports(variables: dict[str, str | None]) -> list[str]:
    kept = " ".join(f"{name}={one}" for name, one in variables.items() if one is not None)
    removed = [name for name, one in variables.items() if one is None and name in os.environ]
    return [f"export {kept}", *([f"unset {' '.join(removed)}"] if removed else [])]


def _interrupt(*_: object) -> None:
    """Take a request to end like Ctrl-C, so that the running command is stopped too."""
    raise KeyboardInterrupt


def _close(settings: Settings, seconds: float) -> int:
    """Print the result."""
    from umu_tasks.report.cells import to_text
    from umu_tasks.report.compare import compare
    from umu_tasks.report.read import read_runs
    from umu_tasks.report.story import tell
    from umu_tasks.report.tables import summary

    runs = [f"{name}={_results(settings, name)}" for name in ("base", START, *(f"gd-{name}" for name in MODALITIES))]
    comparison = compare(read_runs(runs), START)
    for table in summary(comparison):
        print(f"{table.title} (percent, mean of classification and cloze; †: from the answers on other splits)\n")
        print(f"{to_text(table)}\n")
    for sentence in tell(comparison):
        print(f"{'! ' if sentence.tone == 'warning' else '- '}{sentence.run}: {sentence.text}")
    if settings.smoke:
        print("\nThis was a smoke run: hardly trained, hardly asked. The numbers mean nothing.")
    report = settings.out / "report"
    print(f"\nReport: {report / 'report.html'} ({report / 'report.md'}), after {clock(seconds)} minutes")
    return 3 if comparison.invalid and not settings.smoke else 0
