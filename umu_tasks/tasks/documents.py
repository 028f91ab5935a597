"""Questions as lmms-eval documents, one a question, and back.

    {"profile_id": "001", "task": "cls", "key": "occupation", "field": "occupation", "modality": "multimodal",
     "split": "forget05", "question": "What is the occupation of this person?",
     "options": ["Teacher", "Sound Engineer", "Pilot", "Baker"], "option_letters": ["A", "B", "C", "D"],
     "gold": "Sound Engineer", "gold_letter": "B", "official_gold": "Sound Engineer",
     "prompt": "What is … person?\\nSelect answer in ['Teacher', …]",
     "published_prompt": "USER: <image>\\nWhat is … 'Baker']\\nASSISTANT:"}

A document holds no image: the portrait is read from the source when the question is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from datasets import Dataset, Features, List, Value

from umu_tasks.benchmarks.instances import Profile, Question, Task
from umu_tasks.scoring.fields import field_of

Document = dict[str, Any]

_TEXTS = ("profile_id", "task", "key", "field", "modality", "split", "question", "gold", "gold_letter", "official_gold")
_PROMPTS = ("prompt", "published_prompt")
_LISTS = ("options", "option_letters")
FEATURES = Features(
    {
        **{name: Value("string") for name in (*_TEXTS, *_PROMPTS)},
        **{name: List(Value("string")) for name in _LISTS},
    }
)


def build_dataset(documents: Iterable[Document]) -> Dataset:
    """Return the documents as the data set lmms-eval expects."""
    return Dataset.from_list(list(documents), features=FEATURES)


def to_document(question: Question, *, split: str, field: str, prompt: str, published_prompt: str) -> Document:
    """Return the document of a question."""
    return {
        "profile_id": question.profile_id,
        "task": question.task,
        "key": question.key,
        "field": field,
        "modality": question.modality,
        "split": split,
        "question": question.text,
        "options": list(question.options.values()),
        "option_letters": list(question.options),
        "gold": question.gold,
        "gold_letter": question.gold_letter,
        "official_gold": question.official_gold,
        "prompt": prompt,
        "published_prompt": published_prompt,
    }


def to_question(document: Mapping[str, Any]) -> Question:
    """Return the question a document was made of."""
    return Question(
        profile_id=document["profile_id"],
        task=document["task"],
        key=document["key"],
        modality=document["modality"],
        text=document["question"],
        gold=document["gold"],
        options=dict(zip(document["option_letters"], document["options"], strict=True)),
        gold_letter=document["gold_letter"],
        official_gold=document["official_gold"],
    )


def is_document(document: Any) -> bool:
    """Return whether a document of some task is one of ours."""
    return isinstance(document, Mapping) and {"published_prompt", "profile_id", "modality"} <= set(document)


def in_asking_order(profiles: Iterable[Profile], task: Task) -> list[Question]:
    """Return the questions of `task` in the order they are asked in.

    The two questions of an instance stand side by side, so that an even `--limit` cuts no pair, and one person's
    questions stand together. Which modality comes first alternates by the Thue-Morse sequence: lmms-eval gives process
    r of n every n-th question, and a fixed order would give all the images to one of two processes.
    """
    questions: list[Question] = []
    instances = (i for profile in profiles for i in profile.instances if i.unimodal.task == task)
    for number, instance in enumerate(instances):
        pair = (instance.unimodal, instance.multimodal)
        questions += pair if number.bit_count() % 2 == 0 else reversed(pair)
    return questions


Prompt = Callable[[Question], str]


def documents_of(
    profiles: Iterable[Profile], task: Task, split: str, *, prompt: Prompt, published_prompt: Prompt
) -> list[Document]:
    """Return the documents of one task on one split, in asking order."""
    people = list(profiles)
    fields = {  # both questions of an instance are about the same field, so it is found for the instance
        instance.instance_key: field_of(instance.unimodal.key, instance.multimodal.text, instance.unimodal.text)
        for profile in people
        for instance in profile.instances
    }
    return [
        to_document(
            question,
            split=split,
            field=fields[question.instance_key],
            prompt=prompt(question),
            published_prompt=published_prompt(question),
        )
        for question in in_asking_order(people, task)
    ]
