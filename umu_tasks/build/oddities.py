"""What can be built and asked, but deserves a look: questions that say their answer, cells that say nothing, …"""

from __future__ import annotations

from collections.abc import Iterator

from umu_tasks.build.people import Person
from umu_tasks.build.problems import listed
from umu_tasks.build.questions import Asker
from umu_tasks.scoring.texts import contains_words, fold, has_letter_or_digit, tells_answer

# What people write where they know nothing.
_NOTHING = {"n/a", "n.a.", "na", "nan", "nil", "none", "null", "unknown", "not known", "tbd", "todo"}


def oddities(file: str, people: tuple[Person, ...], asker: Asker) -> Iterator[str]:
    """Yield warnings about a table's people, each naming all of those it is about."""
    kinds = (
        (_without_facts, "no fact at all for ID {}: nothing can be asked about them."),
        (_own_names, "facts that hold their person's name, which image questions then show: ID {}."),
        (_told_answers, "questions that hold their own answer: ID {}. Leave such a column out with --skip, or word the "
         "question in another way."),
        (_naming_images, "image questions that name their person, so the photo is not needed: ID {}. Write {{who}} in "
         "the templates file."),
        (_sayings_of_nothing, "cells that read as if nothing were known: ID {}. They are asked about as they stand; "
         "leave such a cell empty."),
        (_leading_stops, "facts that begin with a full stop: ID {}. The default rule compares what is before the first "
         "one, so any answer to their cloze question counts as right. Say `cloze: false` for the field in a templates "
         "file, or write the fact in another way."),
    )  # fmt: skip
    for found, text in kinds:
        if named := list(dict.fromkeys(one for person in people for one in found(person, asker))):
            yield f"{file}: {text.format(listed(named))}"


def shared_people(train: tuple[Person, ...], real: tuple[Person, ...]) -> Iterator[str]:
    """Yield a warning if people of the real people's table, whom nobody trains on, are in the other table too."""
    names = {fold(person.name): person.profile_id for person in train}
    photos = {person.photo.resolve(): person.profile_id for person in train}
    same = [
        f"{person.profile_id} (ID {names.get(fold(person.name)) or photos[person.photo.resolve()]} there)"
        for person in real
        if fold(person.name) in names or person.photo.resolve() in photos
    ]
    if same:
        yield (
            f"real people who are in the table of people to train on too, by name or photo: ID {listed(same)}. They "
            "are to show what happens to people that training leaves alone; take them out of one of the two."
        )


def _without_facts(person: Person, _: Asker) -> Iterator[str]:
    if not person.facts:
        yield person.profile_id


def _own_names(person: Person, _: Asker) -> Iterator[str]:
    for name, value in person.facts.items():
        if contains_words(fold(value), fold(person.name)):
            yield f"{person.profile_id} ({name})"


def _told_answers(person: Person, asker: Asker) -> Iterator[str]:
    for name, _, text in asker.asked(person):
        if tells_answer(text, person.facts[name]):
            yield f"{person.profile_id} ({name})"


def _naming_images(person: Person, asker: Asker) -> Iterator[str]:
    own = fold(person.name)
    for name, modality, text in asker.asked(person):
        if modality == "multimodal" and contains_words(fold(text), own):
            yield f"{person.profile_id} ({name})"


def _sayings_of_nothing(person: Person, _: Asker) -> Iterator[str]:
    for name, value in person.facts.items():
        if not has_letter_or_digit(value) or fold(value) in _NOTHING:
            yield f"{person.profile_id} ({name})"


def _leading_stops(person: Person, asker: Asker) -> Iterator[str]:
    for name, value in person.facts.items():
        if value.startswith(".") and has_letter_or_digit(value) and asker.fields[name].cloze:
            yield f"{person.profile_id} ({name})"
