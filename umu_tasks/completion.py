"""`umu completion SHELL`: prints what makes a shell complete `umu` commands, options and files."""

from __future__ import annotations

import argparse
from pathlib import Path

SHELLS = ("bash", "zsh", "tcsh")


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `umu completion`."""
    parser = commands.add_parser(
        "completion",
        help="print the completion script of a shell",
        description="Print a script that makes the shell complete umu's commands, options and files. For bash: "
        'eval "$(umu completion bash)" in ~/.bashrc. For zsh: umu completion zsh > FOLDER_IN_FPATH/_umu.',
    )
    parser.add_argument("shell", choices=SHELLS, help="your shell")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the script; return 0."""
    import shtab

    from umu_tasks.cli import build_parser

    parser = build_parser()
    _complete_files(parser, shtab.FILE)
    print(shtab.complete(parser, arguments.shell))
    return 0


def _complete_files(parser: argparse.ArgumentParser, files: object) -> None:
    """Mark the arguments that are paths, in all commands."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for one in action.choices.values():
                _complete_files(one, files)
        elif action.type is Path or "DIR" in str(action.metavar) or action.dest in ("source", "runs", "config"):
            action.complete = files  # type: ignore[attr-defined]
