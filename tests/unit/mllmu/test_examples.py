"""Few-shot examples and test images: drawn by seed, recorded, never scored."""

from __future__ import annotations

import pytest
from datasets import Dataset

from umu_tasks.benchmarks.errors import DataError
from umu_tasks.tasks.abort import EvaluationAborted
from umu_tasks.tasks.mllmu import hooks
from umu_tasks.tasks.mllmu.examples import draw_examples, draw_portrait

pytestmark = pytest.mark.usefixtures("source")


def documents(split, task, examples):
    return list(hooks.build_documents(Dataset.from_list([{"split": split, "task": task, "examples": examples}])))


@pytest.mark.parametrize("split", ["forget05", "test05", "retain95", "real"])
@pytest.mark.parametrize(("task", "count"), [("cls", 1), ("cloze", 2)])
def test_people_of_the_examples_are_not_scored(split, task, count):
    asked = documents(split, task, count)
    drawn = asked[0]["examples"]
    assert len(drawn) == count
    assert {one for document in asked for one in document["examples"]} == set(drawn)
    assert {document["profile_id"] for document in asked}.isdisjoint(drawn)
    assert len({document["profile_id"] for document in asked}) == 3 - count


def test_nobody_else_is_skipped(source):
    """Real people 1, 2, 3 have the IDs of invented ones: as published, a real person could be skipped by accident."""
    everybody = documents("real", "cloze", 0)
    assert {document["profile_id"] for document in everybody} == {"001", "002", "003"}
    (real,) = draw_examples(source, "real", "cloze", 1, with_seed=0).people
    assert real in list(source.load("real"))
    assert real not in list(source.load("full"))


def test_draws_follow_the_seed(monkeypatch):
    """Two runs with one seed ask the same, byte for byte; another seed draws others sooner or later."""
    first = documents("test05", "cls", 1)
    assert documents("test05", "cls", 1) == first
    seen = set()
    for seed in range(8):
        monkeypatch.setenv("MLLMU_SEED", str(seed))
        asked = documents("test05", "cls", 1)
        assert {document["seed"] for document in asked} == {seed}
        seen.add((*asked[0]["examples"], *(document["portrait"] for document in asked)))
    assert len(seen) > 3


def test_seed_that_is_none(monkeypatch):
    monkeypatch.setenv("MLLMU_SEED", "x")
    with pytest.raises(EvaluationAborted, match="MLLMU_SEED=x: expected a whole number"):
        documents("forget05", "cls", 1)


def test_one_image_a_person_is_drawn_and_shown(source):
    """Test_Set rows hold several: all questions about a person show the same one, and the record says which."""
    for document in documents("test05", "gen", 0):
        person = source.load("test05").by_id(document["profile_id"])
        if document["modality"] == "unimodal":
            assert document["portrait"] == -1
            continue
        assert document["portrait"] == draw_portrait(person, with_seed=0)
        (shown,) = hooks.images(document)
        assert shown.tobytes() == person.portraits.image(document["portrait"])().tobytes()


def test_conversation_asks_the_examples_first(source):
    """Each example's question with its portrait, and its answer; then the question with its own portrait."""
    for document in documents("test05", "cls", 1):
        *before, last = hooks.messages(document)
        (person,) = draw_examples(source, "test05", "cls", 1, with_seed=0).people
        mine = [one for one in person.asked if (one.task, one.modality) == ("cls", document["modality"])]
        assert [turn["role"] for turn in before] == ["user", "assistant"] * len(mine)
        assert [turn["content"][0]["text"] for turn in before[1::2]] == [one.gold_letter for one in mine]
        assert last["content"][-1]["text"] == document["prompt"]
        for turn in (*before[::2], last):
            kinds = [part["type"] for part in turn["content"]]
            assert kinds == (["image", "text"] if document["modality"] == "multimodal" else ["text"])
        if document["modality"] == "multimodal":
            assert (
                before[0]["content"][0]["url"].tobytes()
                == source.load("forget05").by_id(person.profile_id).open_image().tobytes()
            )
            assert document["published_prompt"].count("<image>") == len(mine) + 1


def test_examples_of_test_have_the_usual_wording():
    """As published: their rows are those of Full_Set, not of Test_Set."""
    document = next(one for one in documents("test05", "cls", 1) if one["modality"] == "multimodal")
    assert "Question: What is the occupation of this person?" in document["published_prompt"]
    assert "What is the occupation of the individual?" in document["prompt"]


def test_set_too_small_for_its_examples(source):
    with pytest.raises(DataError, match=r"3 people; cloze needs 3 .*mllmu_forget05_cloze_0shot"):
        draw_examples(source, "forget05", "cloze", 3, with_seed=0)


def test_simple_models_are_refused_where_the_examples_would_be_lost():
    """They get one text and the images: asked zero-shot without a word, their scores would be another task's."""
    few, none = documents("forget05", "cls", 1)[0], documents("forget05", "cls", 0)[0]
    with pytest.raises(EvaluationAborted, match="mllmu_forget05_cls_0shot, or a chat model"):
        hooks.images(few)
    assert len(hooks.images(none)) == (none["modality"] == "multimodal")


def test_training_layout_cannot_be_scored(monkeypatch, source):
    """baseline_train_split has the same folders and no questions: an error, not an empty run."""
    monkeypatch.setenv("MLLMU_DATA", f"{source.spec}/baseline_train_split")
    with pytest.raises(EvaluationAborted, match="split forget05 has no cls question to score"):
        documents("forget05", "cls", 0)


def test_pairs_come_first_so_that_an_even_limit_cuts_none():
    asked = documents("forget05", "cls", 0)
    keys = [(document["profile_id"], document["key"]) for document in asked]
    assert keys[:6:2] == keys[1:6:2]
    assert len(set(keys[6:])) == 6
    first = [document["modality"] for document in asked[:6:2]]
    assert set(first) == {"unimodal", "multimodal"}  # so that each of two processes gets both
