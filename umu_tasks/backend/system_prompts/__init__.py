"""System instructions for `--model_args …,system_prompt=…`: ready ones by name, a text file, or the text itself.

system_prompt=mllmu_prompting05       the prompting baseline, with the names of MLLMU-Bench's forget05
system_prompt=umu_prompting10         the same for UMU-Bench
system_prompt=my_instruction.txt      a file; ``{names:mllmu_forget05}`` in it becomes that split's names
system_prompt=Be brief.               a text
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import TemplateError

from umu_tasks.benchmarks.errors import DataError
from umu_tasks.benchmarks.names import ANY_BENCHMARK

PROMPTING = "mllmu_prompting.txt"
_READY = re.compile(rf"({ANY_BENCHMARK})_prompting(\d\d)?")
_NAMES = re.compile(rf"\{{names:({ANY_BENCHMARK})_(\w+)\}}")


def read_system_prompt(value: str) -> str:
    """Return the instruction that `system_prompt=` names.

    Raises:
        DataError: a ready one without its ratio, a file that cannot be read, or names that cannot be told.
    """
    ready = _READY.fullmatch(value)
    if ready is not None:
        if ready[2] not in ("05", "10", "15"):
            raise DataError(f"system_prompt={value}: say whom it protects: {ready[1]}_prompting05, …10 or …15.")
        text = (files(__name__) / PROMPTING).read_text(encoding="utf-8")
        text = text.replace("{names}", f"{{names:{ready[1]}_forget{ready[2]}}}")
    elif value.endswith(".txt"):
        text = _read_file(value)
    else:
        text = value
    return _NAMES.sub(lambda found: _names(found[1], found[2]), text).strip()


def _read_file(name: str) -> str:
    try:
        return Path(name).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot be read ({error}). Give a text file.", file=f"system_prompt={name}") from error


def _names(benchmark: str, split: str) -> str:
    from umu_tasks.benchmarks.sources import open_source
    from umu_tasks.tasks.mllmu.names import names_of

    source = open_source(benchmark=benchmark)
    people = source.load(split)
    names = names_of(people)
    if len(names) < len(people):
        raise DataError(
            f"split {split}: the questions tell the names of {len(names)} of {len(people)} people only. Write the "
            "instruction with the names yourself, and give its file: system_prompt=FILE.txt.",
            file=source.spec,
        )
    return ", ".join(names)


def chat_with_instruction(
    write: Callable[[list[dict[str, Any]]], str], messages: list[dict[str, Any]], instruction: str
) -> str:
    """Return the prompt that a chat template makes of a conversation under a system instruction.

    A template that knows no system turn (it refuses one, or leaves it out) gets the instruction before the first text.

    Args:
        write: makes the prompt of messages, as `PromptBuilder.chat` does.

    Raises:
        ValueError: the template leaves it out there too.
    """
    system = {"role": "system", "content": [{"type": "text", "text": instruction}]}
    try:
        prompt = write([system, *messages])
    except TemplateError:
        prompt = ""
    if instruction not in prompt:
        prompt = write(_before_first_text(messages, instruction))
    if instruction not in prompt:
        raise ValueError("this checkpoint's chat template leaves the system instruction out. Use prompt=published.")
    return prompt


def _before_first_text(messages: list[dict[str, Any]], instruction: str) -> list[dict[str, Any]]:
    first, *others = messages
    place = next(number for number, part in enumerate(first["content"]) if part["type"] == "text")
    content = list(first["content"])
    content[place] = {"type": "text", "text": f"{instruction}\n\n{content[place]['text']}"}
    return [{**first, "content": content}, *others]
