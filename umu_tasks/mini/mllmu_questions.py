"""UMU-mini's questions as MLLMU-Bench's nested cells, in the usual wording and in another one for the Test_Set.

Classification_Task  {'Image_Textual_Questions': [{'Question', 'Options', 'Correct_Answer'}], 'Pure_Text_Questions': …}
Mask_Task            [{'Type': 'Image_Textual', 'Question': 'The job of this person is __.', 'Ground_Truth': '…'}, …]
Generation_Task      [{'Type', 'Question', 'Ground_Truth'}, …]
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from umu_tasks.benchmarks.instances import Modality, Question
from umu_tasks.mini.people import CLASSIFIED, Field, Person
from umu_tasks.mini.questions import GENERATION, Asker, taught_keys

Entry = dict[str, object]
ORDER: tuple[Modality, ...] = ("multimodal", "unimodal")  # the published lists start with the image questions
_LISTS: dict[Modality, str] = {"multimodal": "Image_Textual_Questions", "unimodal": "Pure_Text_Questions"}
_TYPES: dict[Modality, str] = {"multimodal": "Image_Textual", "unimodal": "Pure_Text"}


def task_cells(person: Person, *, paraphrased: bool = False) -> dict[str, object]:
    """Return the three task cells of a person; `paraphrased`: each question in the other one of its wordings."""
    asker = Asker(person, person.wording + 1 if paraphrased else person.wording)
    cloze = (asker.cloze(field, modality) for modality in ORDER for field in person.blanked)
    told = (asker.generation(key, modality) for modality in ORDER for key in person.told)
    return {
        "Classification_Task": {
            _LISTS[modality]: [_classification_entry(asker, field, modality) for field in _classified(person, modality)]
            for modality in ORDER
        },
        "Mask_Task": [_open_entry(question, question.text.replace("[Blank]", "__")) for question in cloze],
        "Generation_Task": [_open_entry(question, question.text) for question in told],
    }


def training_entries(person: Person) -> Iterator[Entry]:
    """Yield the entries of `metadata`; those without portrait say so in `Type`, which published data does not have."""
    asker = Asker(person, person.wording)
    for modality in ORDER:
        for number, key in enumerate(taught_keys(person)):
            pair = asker.pair(number, key, modality)
            yield {"Question": pair.question, "Answer": pair.answer, "Type": _TYPES[modality]}


def description(person: Person) -> tuple[str, str]:
    """Return the row's own question and answer."""
    asker = Asker(person, person.wording)
    pair = asker.pair(0, next(iter(reversed(GENERATION))), "multimodal")
    return pair.question, pair.answer


def _classified(person: Person, modality: Modality) -> tuple[Field, ...]:
    """Return the fields asked: those of UMU-mini, and one more in text alone, for the published lists need not pair."""
    if modality == "multimodal":
        return person.classified
    taken = {*person.classified, *person.blanked}
    return (*person.classified, next(field for field in CLASSIFIED if field not in taken))


def _classification_entry(asker: Asker, field: Field, modality: Modality) -> Entry:
    question = asker.classification(field, modality, random.Random(f"mllmu-{asker.person.name}-{field}-{modality}"))
    return {"Question": question.text, "Options": question.options, "Correct_Answer": question.gold_letter}


def _open_entry(question: Question, text: str) -> Entry:
    return {"Type": _TYPES[question.modality], "Question": text, "Ground_Truth": question.gold}
