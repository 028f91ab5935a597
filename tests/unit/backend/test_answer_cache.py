"""Answers on disk: found again by what decides them, and after every kind of end."""

from __future__ import annotations

import json

import pytest
from PIL import Image

from umu_tasks.backend.answer_cache import AnswerCache, question_key
from umu_tasks.backend.generation import Answer, GenerationSettings

MODEL = {"weights": "0f" * 32, "adapter": None, "prompt_style": "published"}
GREEDY = GenerationSettings(max_new_tokens=50)
ANSWER = Answer("Zoë, 医生\nnext\u2028line", 12, 3)


def key(prompt="who?", images=(), settings=GREEDY):
    return question_key(prompt, images, settings)


def test_answers_survive_the_process(tmp_path):
    """What one run finished, the next one finds, byte for byte."""
    AnswerCache(tmp_path, MODEL).put({key(): ANSWER, key("other?"): Answer("", 9, 0)})
    again = AnswerCache(tmp_path, MODEL, rank=1)
    assert again.get(key()) == ANSWER
    assert again.get(key("other?")) == Answer("", 9, 0)  # an empty answer is an answer
    assert again.get(key("third?")) is None
    assert (len(again), again.found) == (2, 2)


def test_killed_while_writing(tmp_path):
    """The line that was cut off is asked again; the lines before and the runs after are whole."""
    first = AnswerCache(tmp_path, MODEL)
    first.put({key("1"): ANSWER, key("2"): ANSWER})
    (file,) = first.folder.glob("answers-*.jsonl")
    file.write_bytes(file.read_bytes()[:-20])
    second = AnswerCache(tmp_path, MODEL, rank=1)
    assert second.get(key("1")) == ANSWER
    assert second.get(key("2")) is None
    second.put({key("2"): ANSWER})
    third = AnswerCache(tmp_path, MODEL, rank=2)
    assert (third.get(key("1")), third.get(key("2"))) == (ANSWER, ANSWER)


@pytest.mark.parametrize("change", [{"weights": "1e" * 32}, {"adapter": "ab"}, {"prompt_style": "chat"}])
def test_another_model_has_other_answers(tmp_path, change):
    """A model trained further in the same folder must not be scored by the answers of the one before."""
    AnswerCache(tmp_path, MODEL).put({key(): ANSWER})
    assert AnswerCache(tmp_path, {**MODEL, **change}).get(key()) is None


def test_key_is_what_decides_the_answer():
    """Each of these can change an answer, so none may be found under the key of another."""
    red, blue = Image.new("RGB", (4, 4), "red"), Image.new("RGB", (4, 4), "blue")
    keys = [
        key(),
        key("who? "),
        key(images=[red]),
        key(images=[blue]),
        key(images=[red, blue]),
        key(images=[Image.new("RGB", (2, 8), "red")]),
        key(settings=GenerationSettings(max_new_tokens=51)),
        key(settings=GenerationSettings(max_new_tokens=50, until=("\n",))),
        key(settings=GenerationSettings(max_new_tokens=50, num_beams=2)),
    ]
    assert len(set(keys)) == len(keys)
    assert key(images=[red]) == key(images=[red.copy()])


def test_sampled_answers_are_not_kept(tmp_path):
    """Sampling twice must give two draws, not one draw twice."""
    assert key(settings=GenerationSettings(temperature=0.7)) is None
    cache = AnswerCache(tmp_path, MODEL)
    cache.put({None: ANSWER})
    assert cache.get(None) is None
    assert not list(cache.folder.glob("answers-*"))


def test_folder_says_whose_answers_it_holds(tmp_path):
    """For the person who finds the folder a year later."""
    cache = AnswerCache(tmp_path, MODEL)
    assert json.loads((cache.folder / "about.json").read_text()) == {"format": 1, **MODEL}
