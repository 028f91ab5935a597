"""Every question about one person: training pairs, classification, cloze and generation, in both modalities.

UM_QA           Where does Ada Crane live? -> Lima, Peru        MM_QA: Where does the person in the image live?
                Tell me about the home of Ada Crane. -> The home of Ada Crane is in Lima, Peru.
classification  Which place is the home of Ada Crane?           (options Lima, Peru; Oslo, Norway; …)
cloze           Ada Crane lives in [Blank].                     -> Lima, Peru
generation      Tell me about the home of Ada Crane.            (word for word a training question, as published)
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from umu_tasks.benchmarks.instances import MODALITIES, KnowledgeInstance, Modality, Question, Task, TrainingPair
from umu_tasks.build.distractors import Pool
from umu_tasks.build.people import Person
from umu_tasks.build.templates import FieldTemplates, Texts, fill

_LETTERS = "ABCD"


@dataclass(frozen=True)
class Asker:
    """Asks about people: how each field is asked, the wrong options, and the seed that draws them.

    Attributes:
        fields: in the order questions are asked in.
        shown: what image questions call the person.
    """

    fields: Mapping[str, FieldTemplates]
    pools: Mapping[str, Pool]
    shown: str
    seed: int

    def pairs(self, person: Person) -> list[TrainingPair]:
        """Return the person's training pairs, the multimodal ones first; a field's two pairs stand side by side."""
        return [
            TrainingPair(person.profile_id, str(number), modality, question, answer)
            for modality in reversed(MODALITIES)
            for number, (question, answer) in enumerate(self._taught(person, modality))
        ]

    def instances(self, person: Person) -> list[KnowledgeInstance]:
        """Return the person's knowledge instances; keys are the fields' names."""
        return [*self._classification(person), *self._cloze(person), *self._generation(person)]

    def biography(self, person: Person) -> str:
        """Return the biography given for the person, else one made of the answers of the generation questions."""
        if person.biography:
            return person.biography
        told = (self._say(field.generation_answer, person, field, "unimodal") for field in self._known(person))
        return " ".join(filter(None, told)) or person.name

    def asked(self, person: Person) -> Iterator[tuple[str, Modality, str]]:
        """Yield field, modality and text of all that is asked about the person, wrong options left out."""
        for field in self._known(person):
            for texts in (field.train, field.classification, field.cloze, field.generation_question):
                for modality in MODALITIES if texts else ():
                    yield field.name, modality, self._say(texts, person, field, modality)

    def _known(self, person: Person) -> Iterator[FieldTemplates]:
        return (field for name, field in self.fields.items() if name in person.facts)

    def _say(self, texts: Texts | None, person: Person, field: FieldTemplates, modality: Modality) -> str:
        if texts is None:
            return ""
        value = person.facts[field.name]
        return fill(texts[modality], modality, name=person.name, shown=self.shown, label=field.label, value=value)

    def _taught(self, person: Person, modality: Modality) -> Iterator[tuple[str, str]]:
        for field in self._known(person):
            if field.train:
                yield self._say(field.train, person, field, modality), person.facts[field.name]
            if field.generation_question:
                question = self._say(field.generation_question, person, field, modality)
                yield question, self._say(field.generation_answer, person, field, modality)

    def _classification(self, person: Person) -> Iterator[KnowledgeInstance]:
        for field in self._known(person):
            gold = person.facts[field.name]
            rng = random.Random(f"options-{self.seed}-{person.profile_id}-{field.name}")
            wrong = self.pools[field.name].draw(gold, rng) if field.classification else None
            if wrong is None:
                continue
            texts = [gold, *wrong]
            rng.shuffle(texts)
            options = dict(zip(_LETTERS, texts, strict=True))
            letter = _LETTERS[texts.index(gold)]
            unimodal, multimodal = (
                Question(
                    person.profile_id, "cls", field.name, modality,
                    self._say(field.classification, person, field, modality), gold, options, letter, gold, letter,
                )
                for modality in MODALITIES
            )  # fmt: skip
            yield KnowledgeInstance(unimodal, multimodal)

    def _cloze(self, person: Person) -> Iterator[KnowledgeInstance]:
        for field in self._known(person):
            if field.cloze:
                yield self._plain("cloze", person, field, field.cloze, dict.fromkeys(MODALITIES, "{value}"))

    def _generation(self, person: Person) -> Iterator[KnowledgeInstance]:
        for field in self._known(person):
            if field.generation_question and field.generation_answer:
                yield self._plain("gen", person, field, field.generation_question, field.generation_answer)

    def _plain(
        self, task: Task, person: Person, field: FieldTemplates, asked: Texts, answered: Texts
    ) -> KnowledgeInstance:
        unimodal, multimodal = (
            Question(
                person.profile_id, task, field.name, modality,
                self._say(asked, person, field, modality), self._say(answered, person, field, modality),
            )
            for modality in MODALITIES
        )  # fmt: skip
        return KnowledgeInstance(unimodal, multimodal)
