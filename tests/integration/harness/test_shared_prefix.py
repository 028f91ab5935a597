"""Questions about one portrait share the pass over it; the answers stay those of each question on its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from umu_tasks.backend import answering, shared_prefix
from umu_tasks.backend.answering import Answering
from umu_tasks.backend.arguments import BackendArguments
from umu_tasks.backend.checkpoint import Checkpoint, load_checkpoint
from umu_tasks.backend.generation import GenerationError, GenerationSettings, generate
from umu_tasks.backend.shared_prefix import Asked, CannotShareError, SharedPrefix
from umu_tasks.benchmarks.instances import TASKS
from umu_tasks.benchmarks.sources import open_source
from umu_tasks.mini import base_model_dir
from umu_tasks.tasks.documents import in_asking_order

NEW_TOKENS = {"cls": 6, "cloze": 6, "gen": 20}


@dataclass(frozen=True)
class Question:
    prompt: str
    images: Sequence[Any]
    settings: GenerationSettings


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    """The mini base model: a LLaVA in every respect that matters here, and small."""
    return load_checkpoint(BackendArguments(str(base_model_dir())), torch.device("cpu"))


@pytest.fixture(scope="module")
def questions(checkpoint: Checkpoint) -> list[Question]:
    people = open_source("mini").load("real")
    return [
        Question(
            checkpoint.builder.evaluation(one),
            [people.by_id(one.profile_id).open_image()] if one.has_image else [],
            GenerationSettings(max_new_tokens=NEW_TOKENS[task], until=("ASSISTANT:",)),
        )
        for task in TASKS
        for one in in_asking_order(list(people)[:3], task)
    ]


@pytest.fixture(scope="module")
def alone(checkpoint: Checkpoint, questions: list[Question]) -> list[Any]:
    """Each question asked by itself, batch size 1, through transformers' own generation."""
    return [generate(checkpoint, [one.prompt], [one.images], one.settings)[0] for one in questions]


@pytest.mark.parametrize("batch_size", [1, 3, 64])
def test_same_answers_as_alone(
    checkpoint: Checkpoint, questions: list[Question], alone: list[Any], batch_size: int
) -> None:
    """Sharing would otherwise change scores with the batch size."""
    found = {id(one): answer for batch in Answering(checkpoint, batch_size).answers(questions) for one, answer in batch}
    assert [found[id(one)] for one in questions] == alone


def test_stop_strings_end_answers_as_alone(checkpoint: Checkpoint, questions: list[Question], alone: list[Any]) -> None:
    """Text and token count up to the stop string, wherever between two looks at the rows it is written."""
    stops = [answer.text[number % 9 + 1 :][:2] for number, answer in enumerate(alone) if len(answer.text) > 12]
    settings = GenerationSettings(max_new_tokens=20, until=tuple(stops))
    asked = [Question(one.prompt, one.images, settings) for one in questions if one.images]
    expected = [generate(checkpoint, [one.prompt], [one.images], settings)[0] for one in asked]
    assert len({answer.output_tokens % shared_prefix.FINISHED_CHECK for answer in expected}) > 1
    found = {id(one): answer for batch in Answering(checkpoint, 8).answers(asked) for one, answer in batch}
    assert [found[id(one)] for one in asked] == expected


def test_a_prompt_that_ends_with_its_image_goes_the_plain_way(
    checkpoint: Checkpoint, questions: list[Question]
) -> None:
    """Nothing is left to go on with behind the shared part; it must not end the run."""
    whole = next(one for one in questions if one.images)
    short = Question(whole.prompt[: whole.prompt.index("<image>") + len("<image>")], whole.images, whole.settings)
    with pytest.raises(CannotShareError, match="ends with its image"):
        next(
            SharedPrefix(checkpoint, 2).answer(
                [Asked(one.prompt, one.images[0], one.settings) for one in (whole, short)]
            )
        )
    expected = [generate(checkpoint, [one.prompt], [one.images], one.settings)[0] for one in (whole, short)]
    found = {id(one): answer for batch in Answering(checkpoint, 2).answers([whole, short]) for one, answer in batch}
    assert [found[id(one)] for one in (whole, short)] == expected


def test_token_ids_are_those_of_the_whole_prompt(checkpoint: Checkpoint, questions: list[Question]) -> None:
    """Image, question and order: what the model sees in two parts is what it would see in one."""
    asked = [Asked(one.prompt, one.images[0], one.settings) for one in questions if one.images]
    portraits = SharedPrefix(checkpoint, 8)._read(asked)
    assert len(portraits) == 3
    rows = {place: (one, suffix) for one in portraits for place, suffix in one.suffixes.items()}
    for place, one in enumerate(asked):
        portrait, suffix = rows[place]
        whole = checkpoint.builder.encode([one.prompt], [[one.image]], padding_side="left")
        assert torch.equal(torch.cat((portrait.prefix, suffix)), whole["input_ids"][0])
        assert torch.equal(portrait.inputs["pixel_values"], whole["pixel_values"])


def test_each_portrait_passes_once(checkpoint: Checkpoint, questions: list[Question]) -> None:
    """The gain: three people, fifteen questions with an image, three images through the vision tower."""
    seen: list[int] = []
    tower = checkpoint.model.get_submodule("model.vision_tower")
    handle = tower.register_forward_pre_hook(
        lambda module, args, kwargs: seen.append(len(kwargs["pixel_values"] if not args else args[0])), with_kwargs=True
    )
    try:
        assert sum(map(len, Answering(checkpoint, 8).answers(questions))) == len(questions)
    finally:
        handle.remove()
    assert sum(seen) == 3


def test_out_of_memory_loses_nothing(
    checkpoint: Checkpoint, questions: list[Question], alone: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch that does not fit is asked again in halves, with the same answers."""
    decode, plain = shared_prefix._Decoder.run, generate

    def small_decode(self: Any) -> Any:
        if len(self.ids) > 2:
            raise torch.OutOfMemoryError("too many rows")
        return decode(self)

    def small_generate(checkpoint: Checkpoint, prompts: Any, images: Any, settings: Any) -> Any:
        if len(prompts) > 2:
            raise torch.OutOfMemoryError("too many rows")
        return plain(checkpoint, prompts, images, settings)

    monkeypatch.setattr(shared_prefix._Decoder, "run", small_decode)
    monkeypatch.setattr(answering, "generate", small_generate)
    answerer = Answering(checkpoint, 16)
    found = {id(one): answer for batch in answerer.answers(questions) for one, answer in batch}
    assert [found[id(one)] for one in questions] == alone
    assert answerer.batch_size <= 2


def test_one_question_that_does_not_fit_is_an_error(
    checkpoint: Checkpoint, questions: list[Question], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Halving must end: there is no answer to give."""

    def never(self: Any) -> Any:
        raise torch.OutOfMemoryError("too many rows")

    monkeypatch.setattr(shared_prefix._Decoder, "run", never)
    with pytest.raises(torch.OutOfMemoryError):
        list(Answering(checkpoint, 4).answers([one for one in questions if one.images]))


def test_broken_weights_are_an_error(checkpoint: Checkpoint, questions: list[Question]) -> None:
    """Logits that are no numbers would pass for empty answers, and those for forgetting."""
    weight = checkpoint.model.get_output_embeddings().weight
    kept = weight.detach().clone()
    try:
        with torch.no_grad():
            weight[0] = float("nan")
        with pytest.raises(GenerationError, match="not finite"):
            list(Answering(checkpoint, 4).answers([one for one in questions if one.images]))
    finally:
        with torch.no_grad():
            weight.copy_(kept)


def test_sampling_and_beams_go_the_plain_way() -> None:
    """The shared way decodes greedily; other settings must not be silently ignored."""
    assert shared_prefix.can_share(GenerationSettings())
    assert not shared_prefix.can_share(GenerationSettings(temperature=0.7))
    assert not shared_prefix.can_share(GenerationSettings(num_beams=2))
