"""Which questions go through the model together; no model needed: what would be generated is written down."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch

from umu_tasks.backend import answering
from umu_tasks.backend.answering import Answering
from umu_tasks.backend.generation import Answer, GenerationSettings
from umu_tasks.backend.umu_hf import Request

SHORT = GenerationSettings(50)


@dataclass(frozen=True)
class Question:
    prompt: str
    images: tuple[object, ...] = ()
    settings: GenerationSettings = SHORT


@pytest.fixture
def asked(monkeypatch):
    """The prompts of each batch; an answer is its prompt backwards."""
    batches = []

    def generate(checkpoint, prompts, images, settings):
        batches.append(list(prompts))
        return [Answer(prompt[::-1], len(prompt), 1) for prompt in prompts]

    monkeypatch.setattr(answering, "generate", generate)
    return batches


def a_model(*, mixes_modalities=True):
    """A checkpoint of a family whose questions share nothing; sharing has tests on a real model."""
    config = SimpleNamespace(model_type="some_other_family")
    builder = SimpleNamespace(mixes_modalities=mixes_modalities, processor=None)
    return SimpleNamespace(model=SimpleNamespace(config=config), builder=builder)


def answers(checkpoint, questions, size):
    return [pair for batch in Answering(checkpoint, size).answers(questions) for pair in batch]


def test_batches_share_settings_and_length(asked):
    """The longest come first, so that memory runs out at once if it does; no batch mixes token limits."""
    long = GenerationSettings(200)
    questions = [Question("a"), Question("bbb"), Question("cc", settings=long), Question("dd"), Question("e")]
    found = answers(a_model(), questions, 2)
    assert asked == [["bbb", "dd"], ["a", "e"], ["cc"]]
    assert {one.prompt: answer.text for one, answer in found} == {q.prompt: q.prompt[::-1] for q in questions}


def test_modalities_stay_apart_where_the_model_cannot_mix_them(asked):
    """Mllama's cross-attention would see other rows' image padding."""
    questions = [
        Question("text 1"),
        Question("image 1", (object(),)),
        Question("text 2"),
        Question("image 2", (object(),)),
    ]
    answers(a_model(mixes_modalities=False), questions, 4)
    assert sorted(map(sorted, asked)) == [["image 1", "image 2"], ["text 1", "text 2"]]


def test_questions_are_read_as_they_are_needed(asked):
    """Portraits of 500 people must not be in memory at once."""
    read = []

    def queue():
        for number in range(100):
            read.append(number)
            yield Question(str(number))

    next(Answering(a_model(), 4).answers(queue()))
    assert len(read) == 4 * answering.WINDOW


def test_nothing_to_ask(asked):
    assert answers(a_model(), [], 4) == []
    assert asked == []


def test_smaller_batches_after_the_memory_ran_out(monkeypatch):
    """Every question is answered, and later batches do not try the large size again."""
    sizes = []

    def generate(checkpoint, prompts, images, settings):
        sizes.append(len(prompts))
        if len(prompts) > 3:
            raise torch.OutOfMemoryError("full")
        return [Answer(prompt, 1, 1) for prompt in prompts]

    monkeypatch.setattr(answering, "generate", generate)
    questions = [Question(str(number)) for number in range(20)]
    assert {one.prompt for one, _ in answers(a_model(), questions, 8)} == {str(number) for number in range(20)}
    assert sizes[:3] == [8, 4, 2]
    assert set(sizes[2:]) == {2}


def request(index, *, person="1", tokens=50, modality="unimodal", length=10):
    document = {"published_prompt": "", "profile_id": person, "split": "real", "modality": modality}
    return Request(index, "x" * length, None, document, GenerationSettings(tokens), "task")


def test_questions_about_one_portrait_follow_each_other():
    """Of whatever task: else their common part would be computed more than once."""
    queue = [
        request(0, modality="multimodal"),
        request(1, person="2", modality="multimodal"),
        request(2),
        request(3, length=20),
        request(4, modality="multimodal", tokens=200),
        request(5, person="2", modality="multimodal"),
    ]
    assert [one.index for one in sorted(queue, key=lambda one: one.order)] == [0, 4, 1, 5, 3, 2]
