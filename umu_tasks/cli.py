"""The `umu` command; `umu --help` lists what it has."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence

from umu_tasks import __version__
from umu_tasks.benchmarks.errors import DataError
from umu_tasks.parser import Parser
from umu_tasks.quiet import quiet

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
    parser = Parser(
        prog="umu",
        description="Benchmarks and reports for machine unlearning in multimodal models.",
        epilog="Exit status: 0 all is well; 1 it ran, and what it looked at is not well; 2 the command or its input is "
        "wrong; 3 a report or demo holds an invalid run; 130 interrupted.",  # docs/command.md has the whole table
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
    _add_verbose(parser, ())
    return parser


def _add_verbose(parser: argparse.ArgumentParser, words: tuple[str, ...]) -> None:
    """Give every command `--verbose`, and its log file a name; those that keep logs themselves are left alone."""
    inner = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
    for action in inner:
        for word, one in action.choices.items():
            _add_verbose(one, (*words, word))
    if not inner and not parser.get_default("keeps_logs"):
        parser.add_argument("-v", "--verbose", action="store_true", help="show what libraries say, too")
        parser.set_defaults(command="-".join(words))


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return its exit status (`docs/command.md` has the table)."""
    arguments = build_parser().parse_args(argv)
    # Commands that run programs keep a log of each themselves, and the programs shall say all they have to say in it.
    if hasattr(arguments, "keeps_logs"):
        return _run(arguments)
    with quiet(arguments.command, verbose=arguments.verbose) as log:
        status = _run(arguments)
    if status and log is not None and log.exists():
        print(f"umu: what the libraries said is in {log}; --verbose shows it", file=sys.stderr)
    return status


def _run(arguments: argparse.Namespace) -> int:
    try:
        status: int = arguments.run(arguments)
        sys.stdout.flush()
    except DataError as error:
        print(f"umu: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # `umu tasks | head`: nobody reads on, which is no error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python writes out the rest when it ends
        return 141
    except OSError as error:  # a cache folder that can't be written, a full disk
        print(f"umu: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("umu: interrupted; finished steps are kept, run the same command to go on", file=sys.stderr)
        return 130
    return status


if __name__ == "__main__":
    sys.exit(main())
