"""Checks of a script's settings that need no library: a wrong one is named at once, before seconds of imports.

Only what can be told from names and files; `config` checks everything, with the same messages.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from umu_tasks.benchmarks.cells import RepeatedKey
from umu_tasks.unique_yaml import load_yaml

HERE = Path(__file__).parent
# Setting -> its values; `config` has the same, and a test holds the two together.
CHOICES: dict[str, tuple[str, ...]] = {
    "modality": ("mix", "uni", "mul"),
    "train": ("language_model", "projector", "vision_tower"),
    "method": tuple(sorted(file.stem for file in (HERE / "objectives").glob("[!_]*.py"))),
}
FORGET_RATIOS = (5, 10, 15)


def check(argv: Sequence[str] | None = None) -> None:
    """End the program with one line if a setting in `--config FILE` or the flags cannot be right."""
    flags = sys.argv[1:] if argv is None else list(argv)
    if {"-h", "--help", "--help_all"} & set(flags):
        return
    try:
        check_values(read_settings(flags))
    except ValueError as error:
        stop(f"error: {error}")


def stop(message: str) -> None:
    """End the program with a message and exit status 1; of several processes only the first says it."""
    if os.environ.get("LOCAL_RANK", "0") == "0":
        print(message, file=sys.stderr, flush=True)
    sys.exit(1)


def check_values(settings: Mapping[str, Any]) -> None:
    """Raise a ValueError that lists the choices, if a setting has none of them."""
    if "method" in settings and settings["method"] not in CHOICES["method"]:
        raise ValueError(
            f"--method {settings['method']}: no such method. Choose one of: {', '.join(CHOICES['method'])}."
        )
    for name in ("modality", "train"):
        found = settings.get(name, [])
        for value in found.split() if isinstance(found, str) else found:
            if value not in CHOICES[name]:
                raise ValueError(f"--{name} {value}: choose one of {', '.join(CHOICES[name])}.")
    ratio = settings.get("forget_ratio", FORGET_RATIOS[0])
    if str(ratio) not in map(str, FORGET_RATIOS):
        raise ValueError(
            f"--forget_ratio {ratio}: UMU-Bench has {', '.join(map(str, FORGET_RATIOS))}. Choose one of these."
        )


def read_settings(argv: Sequence[str]) -> dict[str, Any]:
    """Return the settings of the config files with those of the flags over them; flags as text."""
    files, flags = split_configs(argv)
    given: dict[str, list[str]] = {}
    current = ""
    for one in flags:
        if one.startswith("--"):
            current, has_value, value = one[2:].partition("=")
            given[current] = [value] if has_value else []
        elif current:
            given[current].append(one)
    return read_configs(files) | {name: " ".join(values) for name, values in given.items() if values}


def split_configs(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the files after `--config` (one or several, given once or several times), and all other arguments."""
    files: list[str] = []
    rest: list[str] = []
    into = rest
    for one in argv:
        if one == "--config":
            into = files
        elif one.startswith("--config="):
            files.append(one.removeprefix("--config="))
        else:
            into = rest if one.startswith("-") else into
            into.append(one)
    return files, rest


def find_config(name: str) -> Path:
    """Return the file of a config's name: `configs/…` is the project's own where there is no such folder."""
    file = Path(name)
    if file.parent.is_dir() or file.parts[:1] != ("configs",):
        return file
    places = (HERE / name, HERE.parent / name)  # a wheel holds configs/ beside this file; a clone, one folder up
    return next((place for place in places if place.parent.is_dir()), file)


def what_is_there(file: Path) -> str:
    """Return what to tell about a config that is missing: the configs beside it, or that there is no such folder."""
    if not file.parent.is_dir():
        return f"There is no folder {file.parent} here ({Path.cwd()})."
    return f"In that folder: {', '.join(sorted(one.name for one in file.parent.glob('*.yaml'))) or 'no YAML file'}."


def read_configs(names: Sequence[str], known: Collection[str] | None = None) -> dict[str, Any]:
    """Return the settings of several YAML files as one; what a later file names replaces what an earlier one says.

    Args:
        known: names of all settings; None where they are not at hand.

    Raises:
        ValueError: a file that is not there (lists those beside it), that holds no settings, or an unknown setting.
    """
    settings: dict[str, Any] = {}
    for name in names:
        file = find_config(name)
        if not file.is_file():
            raise ValueError(f"--config {name}: no such file. {what_is_there(file)}")
        try:
            found = load_yaml(file.read_text(encoding="utf-8"))
        except RepeatedKey as error:
            raise ValueError(f"--config {name}: {error}") from error
        except yaml.YAMLError as error:
            raise ValueError(f"--config {name}: not valid YAML. {' '.join(str(error).split())}") from error
        if not isinstance(found, dict):
            raise ValueError(f"--config {name}: settings as `name: value` are expected, found {found!r}.")
        if unknown := [str(one) for one in found if known is not None and one not in known]:
            raise ValueError(f"--config {name}: no such setting: {', '.join(unknown)}. `--help_all` lists all.")
        settings.update(found)
    return settings
