"""The `umu` command; `umu --help` lists what it has."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
from collections.abc import Sequence

from umu_tasks import __version__
from umu_tasks.benchmarks.errors import DataError

# Each module has `register(commands)`: it adds its parser and sets `run`, a function from the parsed arguments to the
# exit status. They import heavy libraries inside `run`, so that `umu --help` answers at once.
COMMANDS = (
    "umu_tasks.demo",
    "umu_tasks.doctor.command",
    "umu_tasks.judge.command",
    "umu_tasks.report.command",
    "umu_tasks.tasks.command",
    "umu_tasks.completion",
)
# Commands that the trainers bring, where they are installed; nothing else here knows of them.
TRAINER_COMMANDS = ("umu_trainers.prompts.command", "umu_trainers.sweep.command")
DATA_COMMANDS = ("umu_tasks.benchmarks.command", "umu_tasks.build.command", "umu_tasks.mini.command")


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="umu",
        description="Benchmarks and reports for machine unlearning in multimodal models.",
        epilog="Exit status: 0 all is well; 1 it ran, and what it looked at is not well; 2 the command or its input is "
        "wrong; 3 a report or demo holds an invalid run; 130 interrupted.",
    )
    parser.add_argument("--version", action="version", version=f"umu-bench {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    trainers = TRAINER_COMMANDS if importlib.util.find_spec("umu_trainers") else ()
    for name in (*COMMANDS, *trainers):
        importlib.import_module(name).register(commands)
    data = commands.add_parser("data", help="check or build benchmark data")
    data_commands = data.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in DATA_COMMANDS:
        importlib.import_module(name).register(data_commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    arguments = build_parser().parse_args(argv)
    try:
        status: int = arguments.run(arguments)
    except DataError as error:
        print(f"umu: {error}", file=sys.stderr)
        return 2
    except OSError as error:  # a cache folder that can't be written, a full disk
        print(f"umu: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("umu: interrupted; finished steps are kept, run the same command to go on", file=sys.stderr)
        return 130
    return status


if __name__ == "__main__":
    sys.exit(main())
