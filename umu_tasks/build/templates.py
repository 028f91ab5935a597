"""How each fact is asked: the packaged `default_templates.yaml`, and the user's file over it.

A text serves both modalities; ``{who}`` becomes the name in text questions and "the person in the image" in image
questions, which must never name anybody.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from umu_tasks.benchmarks.cells import RepeatedKey
from umu_tasks.benchmarks.errors import DataError
from umu_tasks.benchmarks.instances import MODALITIES, Modality
from umu_tasks.build.problems import place
from umu_tasks.build.table import column_key, read_text, unusable
from umu_tasks.unique_yaml import load_yaml

BLANK = "[Blank]"
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_SHORT: dict[str, Modality] = {"text": "unimodal", "image": "multimodal"}
_QUESTIONS = ("train", "classification", "cloze")
_TOP_KEYS = ("shown", "any", "fields", "skip")
_FIELD_KEYS = (*_QUESTIONS, "generation", "columns", "label", "distractors")

Texts = Mapping[Modality, str]


@dataclass(frozen=True)
class FieldTemplates:
    """How one field is asked; None where a task leaves the field out."""

    name: str
    label: str
    train: Texts | None
    classification: Texts | None
    cloze: Texts | None
    generation_question: Texts | None
    generation_answer: Texts | None
    distractors: tuple[str, ...] = ()


@dataclass(frozen=True)
class Templates:
    """All fields' templates as they are written; `of` reads those of one.

    Attributes:
        shown: what an image question calls the person.
        skip: keys of columns that are no facts.
        owners: column key -> the field whose column it is.
        asked_for: the fields in the user's file, to tell which of them no column has.
    """

    shown: str
    skip: frozenset[str]
    owners: Mapping[str, str]
    asked_for: tuple[str, ...]
    _fields: Mapping[str, Mapping[str, Any]] = field(repr=False)
    _any: Mapping[str, Any] = field(repr=False)

    def field_of(self, column: str) -> str:
        """Return the name of the field a column holds: its own key unless it is another field's further name."""
        return self.owners.get(column, column)

    def of(self, name: str) -> FieldTemplates:
        """Return a field's templates; what it does not say itself, the templates for any field do."""
        own = {**self._any, **self._fields.get(name, {})}
        generation = own["generation"] or {}
        return FieldTemplates(
            name=name,
            label=own.get("label", name.replace("_", " ")),
            **{task: own[task] or None for task in _QUESTIONS},
            generation_question=generation.get("question"),
            generation_answer=generation.get("answer"),
            distractors=own.get("distractors", ()),
        )


def load_templates(path: Path | None = None) -> Templates:
    """Return the packaged templates, with the user's over them where a file is given.

    Raises:
        DataError: the file cannot be used; says which field and key, and why.
    """
    packaged = files("umu_tasks.build") / "default_templates.yaml"
    base = _Reader(packaged.name).read(packaged.read_text(encoding="utf-8"))
    if path is None:
        return _templates(base, {})
    return _templates(base, _Reader(str(path)).read(read_text(path), base["fields"]))


def _templates(base: Mapping[str, Any], own: Mapping[str, Any]) -> Templates:
    fields: dict[str, dict[str, Any]] = {name: dict(entry) for name, entry in base["fields"].items()}
    for name, entry in own.get("fields", {}).items():
        fields[name] = {**fields.get(name, {}), **entry}
    owners = {column: name for name, entry in fields.items() for column in entry.get("columns", ())}
    # the user's file wins: a column it names goes to its field, and a field is always its own column's owner
    owners |= {column: name for name, entry in own.get("fields", {}).items() for column in entry.get("columns", ())}
    owners |= {name: name for name in fields}
    return Templates(
        shown=own.get("shown", base["shown"]),
        skip=frozenset(own.get("skip", ())),
        owners=owners,
        asked_for=tuple(own.get("fields", {})),
        _fields=fields,
        _any={**base["any"], **own.get("any", {})},
    )


@dataclass(frozen=True)
class _Reader:
    """Reads one templates file and checks every text in it."""

    file: str

    def read(self, text: str, known: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the file's contents, texts split by modality; `known`: the fields that are there already."""
        try:
            content = load_yaml(text)
        except RepeatedKey as error:
            raise DataError(str(error), file=self.file) from error
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            where = place(self.file, mark.line + 1 if mark else None)
            raise DataError(f"not YAML ({getattr(error, 'problem', error)}).", file=where) from error
        top = self._mapping(content if content is not None else {}, "the file", _TOP_KEYS)
        result: dict[str, Any] = {}
        if "shown" in top:
            result["shown"] = self._text(top["shown"], "shown")
            self._refuse_braces(
                result["shown"], "shown", f"in {top['shown']!r}. It takes no placeholder: it is what {{who}} becomes."
            )
        if "skip" in top:
            result["skip"] = self._columns(top["skip"], "skip")
        if "any" in top:
            result["any"] = self._field(top["any"], "any")
        entries = self._mapping(top.get("fields") or {}, "fields")
        result["fields"] = {self._name(key, known or {}): self._field(one, str(key)) for key, one in entries.items()}
        return result

    def _name(self, key: str, known: Mapping[str, Any]) -> str:
        """Return a field's name: ``job`` means the field that has a column of that name already."""
        name = column_key(key)
        if name in known:
            return name
        return next((field for field, entry in known.items() if name in entry.get("columns", ())), name)

    def _field(self, entry: object, name: str) -> dict[str, Any]:
        given = self._mapping(entry, name, _FIELD_KEYS)
        result: dict[str, Any] = {}
        for key in _QUESTIONS:
            if key in given:
                result[key] = given[key] is not False and self._texts(given[key], f"{name}, {key}", key)
        if "generation" in given:
            result["generation"] = given["generation"] is not False and self._generation(given["generation"], name)
        if "label" in given:
            result["label"] = self._text(given["label"], f"{name}, label")
        if "columns" in given:
            result["columns"] = self._columns(given["columns"], f"{name}, columns")
        if "distractors" in given:
            result["distractors"] = tuple(self._list(given["distractors"], f"{name}, distractors"))
        return result

    def _generation(self, entry: object, name: str) -> dict[str, Texts]:
        where = f"{name}, generation"
        parts = self._mapping(entry, where, ("question", "answer"))
        missing = [part for part in ("question", "answer") if part not in parts]
        if missing:
            raise self._error(where, f"no {missing[0]}. Expected both, question and answer.")
        return {part: self._texts(parts[part], f"{where}, {part}", part) for part in ("question", "answer")}

    def _texts(self, entry: object, where: str, kind: str) -> Texts:
        """Return the text of each modality; one text serves both unless the entry has one for each."""
        if isinstance(entry, Mapping):
            parts = self._mapping(entry, where, tuple(_SHORT))
            missing = [part for part in _SHORT if part not in parts]
            if missing:
                raise self._error(where, f"no text for {missing[0]!r}. Expected both, text and image.")
            texts = {_SHORT[part]: self._text(parts[part], f"{where}, {part}") for part in _SHORT}
        else:
            texts = dict.fromkeys(MODALITIES, self._text(entry, where))
            if "{name}" in texts["multimodal"]:
                raise self._error(where, "{name} serves text questions only. Write {who}, or one text for each.")
        for modality, text in texts.items():
            self._check(text, modality, where, kind)
        return texts

    def _check(self, text: str, modality: Modality, where: str, kind: str) -> None:
        allowed = {"who", "name", "field"} if modality == "unimodal" else {"who", "field"}
        allowed |= {"value"} if kind == "answer" else set()
        used = _PLACEHOLDER.findall(text)
        wrong = [one for one in used if one not in allowed]
        if wrong:
            choices = ", ".join(f"{{{one}}}" for one in sorted(allowed))
            part = "text" if modality == "unimodal" else "image"
            raise self._error(where, f"{{{wrong[0]}}} cannot stand in this {part} template {text!r}. Use {choices}.")
        self._refuse_braces(_PLACEHOLDER.sub("", text), where, f"in {text!r}. Placeholders look like {{who}}.")
        if modality == "unimodal" and not {"who", "name"} & set(used):
            raise self._error(where, f"{text!r} does not say who is meant. Put {{who}} in it.")
        if kind == "answer" and "value" not in used:
            raise self._error(where, f"{text!r} does not hold the fact. Put {{value}} in it.")
        if kind == "cloze" and text.count(BLANK) != 1:
            raise self._error(where, f"{text!r} must hold {BLANK} once, where the fact is left out.")

    def _refuse_braces(self, text: str, where: str, what: str) -> None:
        if {"{", "}"} & set(text):
            raise self._error(where, f"a brace {what}")

    def _mapping(self, value: object, where: str, keys: Iterable[str] | None = None) -> dict[str, Any]:
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            raise self._error(where, f"expected keys with values, found {value!r}.")
        unknown = [key for key in value if keys is not None and key not in keys]
        if unknown:
            raise self._error(where, f"unknown key {unknown[0]!r}. Choose from: {', '.join(keys or ())}.")
        return dict(value)

    def _columns(self, value: object, where: str) -> tuple[str, ...]:
        return tuple(column_key(one) for one in self._list(value, where))

    def _list(self, value: object, where: str) -> list[str]:
        if not isinstance(value, list):
            raise self._error(where, f"expected a list, found {value!r}.")
        return [self._text(str(one) if isinstance(one, int | float) else one, where) for one in value]

    def _text(self, value: object, where: str) -> str:
        if not isinstance(value, str) or not value.strip():
            raise self._error(where, f"expected a text, found {value!r}. Put it in quotes.")
        fault = unusable(value)
        if fault:
            raise self._error(where, f"{fault}. Correct the text.")
        return " ".join(value.split())

    def _error(self, where: str, problem: str) -> DataError:
        return DataError(problem, file=f"{self.file}, {where}")


def fill(text: str, modality: Modality, *, name: str, shown: str, label: str, value: str = "") -> str:
    """Return a template with its placeholders filled in.

    What an image question calls the person gets a capital at the start; a name stays as it is written. A full stop
    that ends both the value and the sentence is written once.

    >>> fill("{who} works for {value}.", "multimodal", name="Ada", shown="the woman", label="employer", value="B Inc.")
    'The woman works for B Inc.'
    """
    if value.endswith((".", "!", "?")):
        text = text.replace("{value}.", "{value}")
    who = name if modality == "unimodal" else shown
    filled = {"who": who, "name": name, "field": label, "value": value}
    result = _PLACEHOLDER.sub(lambda match: filled[match[1]], text)  # what is filled in is not looked at again
    return shown[0].upper() + result[1:] if modality == "multimodal" and text.startswith("{who}") else result
