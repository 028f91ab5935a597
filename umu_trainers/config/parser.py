"""From files and flags to settings, and the help."""

from __future__ import annotations

import argparse
import copy
import dataclasses
import sys
import warnings
from collections.abc import Sequence
from typing import Any, TypeVar, get_args, get_type_hints

from trl import TrlParser

from umu_trainers.config.common import CommonArguments
from umu_trainers.config.help import GROUPS, OTHERS, TEXTS, HelpFormatter
from umu_trainers.early import read_configs, split_configs

Arguments = TypeVar("Arguments", bound=CommonArguments)


class ArgumentParser(TrlParser):
    """TRL's parser (YAML + flags) with the settings grouped in the help."""

    shows_all = False  # whether the help lists the settings that are rarely needed

    def _add_dataclass_arguments(self, dtype: Any) -> None:
        hints = get_type_hints(dtype)
        fields = {one.name: one for one in dataclasses.fields(dtype)}
        shown = {name for names in GROUPS.values() for name in names}
        for title, names in {**GROUPS, OTHERS: [name for name in fields if name not in shown]}.items():
            group = self.add_argument_group(title)
            for name in names:
                if name in fields:
                    fields[name].type = hints[name]
                    is_shown = self.shows_all or name in shown
                    text = TEXTS.get(name, fields[name].metadata.get("help")) if is_shown else argparse.SUPPRESS
                    self._parse_dataclass_field(group, _with_help(fields[name], text))
            for action in group._group_actions:
                if action.option_strings[0].startswith("--no_"):  # beside each setting that is true by default
                    action.help = argparse.SUPPRESS


def _with_help(one: Any, text: str | None) -> Any:
    """Return a dataclass field with another help text."""
    changed = copy.copy(one)
    changed.metadata = {**one.metadata, "help": text}
    return changed


def _wrong_kind(name: str, value: Any, kind: Any) -> str:
    """Return what is wrong with a setting from a file, "" if nothing; argparse looks at texts only.

    Args:
        kind: the setting's type hint.
    """
    kinds = set(get_args(kind) or (kind,)) - {type(None)}
    if kinds == {int} and (isinstance(value, bool) or not isinstance(value, int | str | None)):
        return f"{name} {value}: a whole number is expected."
    if kinds == {float} and (isinstance(value, bool) or not isinstance(value, float | int | str | None)):
        return f"{name} {value}: a number is expected."
    if kinds == {bool} and value not in (True, False, None, "true", "false", "True", "False"):
        return f"{name} {value}: true or false is expected."
    return ""


def parse(arguments: type[Arguments], description: str, argv: Sequence[str] | None = None) -> Arguments:
    """Return the settings from `--config FILE …` and the flags of `argv` (None: the process's).

    Of several files a later one wins, and a flag wins over all of them.

    Raises:
        ValueError: a file has a value of another kind than the setting's.
    """
    # TRL's own default; the new name does not exist yet in all versions we support.
    warnings.filterwarnings("ignore", message="`gradient_checkpointing` is deprecated", category=FutureWarning)
    files, rest = split_configs(sys.argv[1:] if argv is None else argv)
    ArgumentParser.shows_all = "--help_all" in rest
    parser = ArgumentParser(
        arguments,
        usage="accelerate launch umu_trainers/%(prog)s --config FILE.yaml [FILE.yaml ...] [--SETTING VALUE ...]",
        description=f"{description} Settings come from --config FILE.yaml … (a later file wins) and from the flags "
        "below (a flag wins over the files); in brackets what holds where neither names one (or said after `None:`).",
        epilog=arguments.examples,
        formatter_class=HelpFormatter,
        allow_abbrev=False,  # a misspelt flag must not be taken for another one
    )
    parser.add_argument("--help_all", action="help", help="show all settings, those of TRL and transformers too")
    found = read_configs(files, {one.name for one in dataclasses.fields(arguments)})
    kinds = get_type_hints(arguments)
    for name, value in found.items():
        if text := _wrong_kind(name, value, kinds[name]):
            raise ValueError(f"{', '.join(files)}: {text}")
    parser.set_defaults_with_config(**found)
    (parsed,) = parser.parse_args_into_dataclasses(rest)
    return parsed
