"""Shell commands as the documentation writes them, and what can be told of each without running it."""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import shlex
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from doc_blocks import ROOT, Block, files_of

# Programs that are not ours and whose arguments nobody checks here.
FOREIGN = {
    "hf",
    "tensorboard",
    "cp",
    "mkdir",
    "cat",
    "tail",
    "echo",
    "git",
    "cd",
    "eval",
    "source",
    "kill",
    "sleep",
    "ls",
}
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.S)
_KEYWORDS = {"do", "done", "fi", "then", "else"}
_ELLIPSIS = ("…", "...")


class WrongCommand(AssertionError):
    """A command that can't work as it is written."""


def commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each command of a block: assignments, loops, comments and ellipses left out."""
    joined = re.sub(r"\\\n\s*", " ", text)
    for line in joined.splitlines():
        words = [word for word in shlex.split(line, comments=True) if word not in _ELLIPSIS]
        command: list[str] = []
        for word in [*words, ";"]:
            if word in (";", "&&", "||", "|", "&"):
                if command:
                    yield from _plain(command)
                command = []
            elif word.endswith(";"):
                yield from _plain([*command, word[:-1]])
                command = []
            else:
                command.append(word)


def _plain(words: list[str]) -> Iterator[list[str]]:
    while words and (words[0] in _KEYWORDS or _ASSIGNMENT.fullmatch(words[0])):
        words = words[1:]
    if words and words[0] not in ("for", "export", "if", "while"):
        yield words[: words.index(">")] if ">" in words else words


# ---- checks -----------------------------------------------------------------------------------------------------


def check_block(block: Block) -> None:
    """Raise `WrongCommand` if a command of the block can't work as it is written."""
    for words in commands(block.text):
        try:
            check(with_known_names(words, files_of(block.page)))
        except WrongCommand as error:
            raise WrongCommand(f"{block.place}: {shlex.join(words)}: {error}") from error


def with_known_names(words: list[str], files: dict[str, str]) -> list[str]:
    """Put names that exist in place of the method and the benchmark that the page itself adds."""
    for file in files:
        if match := re.fullmatch(r"umu_trainers/objectives/(\w+)\.py", file):
            words = ["gd" if word == match[1] else word for word in words]
            words = [word.replace(f"/{match[1]}.yaml", "/gd.yaml") for word in words]
        if match := re.fullmatch(r"umu_tasks/tasks/(\w+)/rows\.py", file):
            words = [re.sub(rf"\b{match[1]}(?=\b|\d)", "umu", word) for word in words]
    return words


def check(words: list[str]) -> None:
    program, *rest = words
    program = Path(program).name
    if program == "umu":
        check_umu(rest)
    elif program == "lmms-eval":
        check_lmms_eval(rest)
    elif program == "accelerate" and rest[:1] == ["launch"]:
        _check_launch(rest[1:])
    elif program.startswith("python"):
        _check_python(rest)
    elif program == "make":
        _check_make(rest)
    elif program == "pip":
        _check_pip(rest)
    elif program not in FOREIGN:
        raise WrongCommand(f"nobody knows {program!r} here")


def check_umu(argv: list[str]) -> None:
    """Parse as `umu` does."""
    from umu_tasks.cli import build_parser

    message = io.StringIO()
    try:
        with contextlib.redirect_stderr(message), contextlib.redirect_stdout(io.StringIO()):
            build_parser().parse_args(argv)
    except SystemExit as error:
        if error.code:
            raise WrongCommand(message.getvalue().strip().splitlines()[-1]) from error


def check_umu_mention(argv: list[str]) -> None:
    """Check a mention in the text (`umu data check`): its command and flags exist; arguments may be left out."""
    from umu_tasks.cli import build_parser

    parser = build_parser()
    for word in argv:
        choices = _subcommands(parser)
        if word.startswith("-"):
            if word.partition("=")[0] not in parser._option_string_actions:
                raise WrongCommand(f"{parser.prog} has no {word}")
        elif choices:
            if word not in choices:
                raise WrongCommand(f"{parser.prog} has no command {word}")
            parser = choices[word]


def _subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    actions = (one for one in parser._actions if isinstance(one, argparse._SubParsersAction))
    return next((dict(one.choices) for one in actions), {})


@cache
def _lmms_eval_flags() -> frozenset[str]:
    folder = Path(find_spec("lmms_eval").origin).parent  # type: ignore[union-attr, arg-type]
    return frozenset(re.findall(r'"(--?\w[\w-]*)"', (folder / "__main__.py").read_text(encoding="utf-8")))


def check_lmms_eval(argv: list[str]) -> None:
    """Check flags, tasks, model and its arguments."""
    from umu_tasks.backend.arguments import ArgumentError, parse_arguments

    flags = [word.partition("=")[0] for word in argv if word.startswith("--")]
    if unknown := [flag for flag in flags if flag not in _lmms_eval_flags()]:
        raise WrongCommand(f"lmms-eval has no {', '.join(unknown)}")
    options = {name: value for name, value in zip(argv, [*argv[1:], ""], strict=True) if name.startswith("--")}
    if missing := [name for name in _tasks(options.get("--tasks", "")) if name not in _known_tasks((name,))]:
        raise WrongCommand(f"no task {', '.join(missing)}")
    if options.get("--model") in ("umu_hf", "llava") and "--model_args" in options:
        try:
            parse_arguments(options["--model_args"])
        except ArgumentError as error:
            raise WrongCommand(str(error)) from error


def _tasks(value: str) -> list[str]:
    return [name for name in value.split(",") if name and name != "list" and not name.isupper()]


@cache
def _known_tasks(names: tuple[str, ...]) -> set[str]:
    from umu_tasks.tasks.command import builtin_clashes
    from umu_tasks.tasks.files import our_tasks

    ours = set(our_tasks())
    return ours | set(builtin_clashes([name for name in names if name not in ours]))


def _check_launch(argv: list[str]) -> None:
    from accelerate.commands.launch import launch_command_parser

    message = io.StringIO()
    try:
        with contextlib.redirect_stderr(message):
            args = launch_command_parser().parse_args(argv)
    except SystemExit as error:
        raise WrongCommand(message.getvalue().strip().splitlines()[-1]) from error
    if args.config_file and not (ROOT / args.config_file).is_file():
        raise WrongCommand(f"no file {args.config_file}")
    _check_python([*(["-m"] if args.module else []), args.training_script, *args.training_script_args])


def _check_python(argv: list[str]) -> None:
    script, *rest = argv
    if script == "-m":
        if rest[0] == "lmms_eval":
            return check_lmms_eval(rest[1:])
        if find_spec(rest[0]) is None:
            raise WrongCommand(f"no module {rest[0]}")
        return None
    if not (ROOT / script).is_file():
        raise WrongCommand(f"no file {script}")
    if script in ("umu_trainers/sft.py", "umu_trainers/unlearn.py"):
        return check_training(Path(script).stem, rest)
    source = (ROOT / script).read_text(encoding="utf-8")
    if unknown := [one for one in rest if one.startswith("--") and f'"{one.partition("=")[0]}"' not in source]:
        raise WrongCommand(f"{script} has no {', '.join(unknown)}")
    return None


def check_training(script: str, argv: list[str]) -> None:
    """Parse the files and flags into settings, with every check of them."""
    if {"--help", "--help_all"} & set(argv):
        return
    from umu_trainers.config import SFTArguments, UnlearnArguments, parse

    known = {"sft": SFTArguments, "unlearn": UnlearnArguments}[script]
    in_root = [str(ROOT / word) if word.startswith("configs/") else word for word in argv]
    try:
        parse(known, "", [*in_root, "--use_cpu", "true", "--bf16", "false", "--fp16", "false"])
    except (ValueError, SystemExit) as error:
        raise WrongCommand(f"{error}") from error


def _check_make(argv: list[str]) -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    if unknown := [word for word in argv if "=" not in word and not word.startswith("-") and word not in targets]:
        raise WrongCommand(f"the Makefile has no {', '.join(unknown)}")


def _check_pip(argv: list[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for word in argv:
        own = re.fullmatch(rf"(?:\.|{project['name']})\[([\w,]+)\]", word)
        for extra in own[1].split(",") if own else ():
            if extra not in project["optional-dependencies"]:
                raise WrongCommand(f"the package has no extra {extra}")


# ---- where it can run -------------------------------------------------------------------------------------------


def runs_anywhere(words: list[str]) -> bool:
    """Return whether a command plainly runs on a CPU without network, so that `needs …` can't be true of it."""
    text = shlex.join(words)
    if Path(words[0]).name == "umu":
        return words[1] != "judge" and not re.search(r"\b[\w-]+/[\w.-]*-[\w.-]+\b", text)
    if Path(words[0]).name == "make":
        return True
    return "configs/sft/mini.yaml" in text or "configs/unlearn/mini/" in text or "--shape mini" in text
