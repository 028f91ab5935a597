"""Every question about an invented person, in each task and modality.

training: What is the occupation of Ada Crane? -> Pilot          (UM_QA; MM_QA says "the person in the image")
classification: What does Ada Crane do for a living?             (options Pilot, Baker, Judge, Poet)
cloze: The job of Ada Crane is [Blank].                            -> Pilot
generation: Tell me more about the life of Ada Crane.            (word for word a training question too)
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from umu_tasks.benchmarks.instances import MODALITIES, KnowledgeInstance, Modality, Question, Task, TrainingPair
from umu_tasks.mini.people import PAIRS, Field, Person, wrong_options

TRAINING: dict[Field, tuple[str, ...]] = {
    "birth_date": ("When was {who} born?", "What is the birth date of {who}?"),
    "birthplace": ("Where was {who} born?", "What is the birthplace of {who}?"),
    "education": ("What education does {who} have?", "What did {who} study?"),
    "height": ("How tall is {who}?", "What is the height of {who}?"),
    "interests": ("What are the interests of {who}?", "What does {who} enjoy?"),
    "occupation": ("What is the occupation of {who}?", "What work does {who} do?"),
    "residence": ("Where does {who} live?", "What is the residence of {who}?"),
}
CLASSIFICATION: dict[Field, tuple[str, ...]] = {
    "birthplace": ("In which place was {who} born?", "From which place does {who} come?"),
    "education": ("Which education did {who} complete?", "Which degree or training does {who} hold?"),
    "interests": ("Which interests does {who} have?", "How does {who} spend free time?"),
    "occupation": ("What does {who} do for a living?", "Which occupation does {who} have?"),
    "residence": ("In which place does {who} live?", "Which place is the home of {who}?"),
}
CLOZE: dict[Field, tuple[str, ...]] = {
    "birth_date": ("{who} was born on [Blank].", "The birth date of {who} is [Blank]."),
    "birthplace": ("{who} was born in [Blank].", "The birthplace of {who} is [Blank]."),
    "education": ("The education of {who} is: [Blank].", "{who} completed this education: [Blank]."),
    "height": ("The height of {who} is [Blank].", "{who} is [Blank] tall."),
    "interests": ("The interests of {who} are [Blank].", "{who} enjoys [Blank]."),
    "occupation": ("The job of {who} is [Blank].", "{who} has the occupation of [Blank]."),
    "residence": ("{who} lives in [Blank].", "The home of {who} is in [Blank]."),
}
GENERATION: dict[str, tuple[str, ...]] = {
    "background": ("Tell me more about the background of {who}.", "Give some background on {who}."),
    "life": ("Tell me more about the life of {who}.", "Describe the daily life of {who}."),
}
STORIES: dict[str, str] = {
    "background": "{who} was born in {birthplace} on {birth_date} and holds {a_education}.",
    "life": "{who} lives in {residence}, works as {a_occupation} and enjoys {interests}.",
}
PERSON_SHOWN = ("this person", "the person in the image", "the person shown")


@dataclass(frozen=True, slots=True)
class Asker:
    """Words questions about one person: `wording` chooses among the ways to say each of them."""

    person: Person
    wording: int

    def pair(self, number: int, key: str, modality: Modality) -> TrainingPair:
        """Return the training pair that teaches a field, or a story of `GENERATION`."""
        told = key in GENERATION
        wordings = GENERATION[key] if told else TRAINING[_field(key)]
        answer = self._story(key, modality) if told else self.person.facts[_field(key)]
        question = self._say(wordings, modality, key)
        return TrainingPair(self.person.profile_id, str(number), modality, question, answer)

    def classification(self, field: Field, modality: Modality, rng: random.Random) -> Question:
        """Return the question with its right option and three wrong ones of the same kind, in random order."""
        gold = self.person.facts[field]
        texts = [gold, *wrong_options(field, gold, rng)]
        rng.shuffle(texts)
        options = dict(zip("ABCD", texts, strict=True))
        letter = "ABCD"[texts.index(gold)]
        text = self._say(CLASSIFICATION[field], modality, field)
        return Question(self.person.profile_id, "cls", field, modality, text, gold, options, letter, gold, letter)

    def cloze(self, field: Field, modality: Modality) -> Question:
        return self._plain("cloze", field, modality, self._say(CLOZE[field], modality, field), self.person.facts[field])

    def generation(self, key: str, modality: Modality) -> Question:
        return self._plain("gen", key, modality, self._say(GENERATION[key], modality, key), self._story(key, modality))

    def _plain(self, task: Task, key: str, modality: Modality, text: str, gold: str) -> Question:
        return Question(self.person.profile_id, task, key, modality, text, gold)

    def _say(self, wordings: tuple[str, ...], modality: Modality, key: str) -> str:
        choice = self.wording + len(key)  # so that one person's fields are not all worded the first way
        who = self.person.name if modality == "unimodal" else PERSON_SHOWN[choice // 2 % len(PERSON_SHOWN)]
        return _capital(wordings[choice % len(wordings)].format(who=who))

    def _story(self, key: str, modality: Modality) -> str:
        who = self.person.name if modality == "unimodal" else "this person"
        facts = self.person.facts
        education, occupation = _with_article(facts["education"]), _with_article(facts["occupation"])
        return _capital(STORIES[key].format(who=who, a_education=education, a_occupation=occupation, **facts))


def training_pairs(person: Person) -> Iterator[TrainingPair]:
    """Yield the person's MM_QA, then UM_QA: the fields that classification and cloze ask, more fields, the stories."""
    asker = Asker(person, person.wording)
    for modality in reversed(MODALITIES):
        for number, key in enumerate(taught_keys(person)):
            yield asker.pair(number, key, modality)


def taught_keys(person: Person) -> tuple[str, ...]:
    """Return the keys of the person's training pairs, the same in both modalities."""
    asked = [*person.classified, *person.blanked]
    others = [field for field in person.facts if field not in asked]
    fields = [*asked, *others][: PAIRS - len(person.told)]
    return (*sorted(fields), *person.told)


def instances(person: Person) -> Iterator[KnowledgeInstance]:
    """Yield the person's classification, cloze and generation instances; both modalities have the same options."""
    asker = Asker(person, person.wording)
    for field in person.classified:
        unimodal, multimodal = (
            asker.classification(field, modality, random.Random(f"options-{person.name}-{field}"))
            for modality in MODALITIES
        )
        yield KnowledgeInstance(unimodal, multimodal)
    for field in person.blanked:
        yield KnowledgeInstance(asker.cloze(field, "unimodal"), asker.cloze(field, "multimodal"))
    for key in person.told:
        yield KnowledgeInstance(asker.generation(key, "unimodal"), asker.generation(key, "multimodal"))


def _field(key: str) -> Field:
    return key  # type: ignore[return-value]  # callers pass a field unless the key is a story's


def _with_article(noun: str) -> str:
    return f"{'an' if noun[0] in 'AEIO' else 'a'} {noun}"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
