"""People and their questions: unique, consistent, and every asked fact taught."""

from __future__ import annotations

import re

import pytest

from umu_tasks.benchmarks.errors import DataError
from umu_tasks.benchmarks.instances import MODALITIES
from umu_tasks.mini.people import CLASSIFIED, FIELDS, Person, invent_people, names_available, occupations
from umu_tasks.mini.questions import CLASSIFICATION, CLOZE, TRAINING, instances, taught_keys, training_pairs


def test_no_name_occurs_twice(invented: list[Person], real: list[Person], pretraining: list[Person]) -> None:
    """A shared name would make a text question ambiguous, and a pretraining person's name would leak into UMU-mini."""
    names = [person.name for person in invented + real + pretraining]
    assert len(names) == len(set(names))


def test_seeds_never_mix_groups() -> None:
    """Whatever the seed, the base model has read about nobody whom a user builds."""
    built = {person.name for seed in range(3) for person in invent_people(200, group="invented", seed=seed)}
    read = {person.name for seed in range(3) for person in invent_people(200, group="pretraining", seed=seed)}
    assert not built & read


def test_larger_sets_begin_with_the_smaller_one(real: list[Person]) -> None:
    """The real people that the base model knows must be among any number of real people."""
    assert invent_people(153, group="real", seed=0)[:20] == real


def test_seed_changes_people(invented: list[Person]) -> None:
    other = invent_people(60, group="invented", seed=1)
    assert sum(one.name == two.name for one, two in zip(invented, other, strict=True)) == 0


def test_education_fits_occupation(invented: list[Person]) -> None:
    assert all(person.facts["education"] in occupations()[person.facts["occupation"]] for person in invented)


def test_thousands_of_people(pretraining: list[Person]) -> None:
    """The word lists serve a few thousand people of either kind."""
    assert len(pretraining) == 1500
    assert names_available("invented") > 8000
    assert len({person.name for person in invent_people(2000, group="invented", seed=5)}) == 2000


def test_too_many_people_is_an_error() -> None:
    with pytest.raises(DataError, match=r"100000 real people asked for; the word lists serve 0 to \d+\. Ask for fewer"):
        invent_people(100_000, group="real", seed=0)


def test_vocabulary_is_wide(pretraining: list[Person]) -> None:
    """Few values would let a model guess; each field but the height has dozens."""
    for field in FIELDS:
        assert len({person.facts[field] for person in pretraining}) >= 50, field


def test_counts(invented: list[Person], real: list[Person]) -> None:
    for people, stories in ((invented, 2), (real, 1)):
        for person in people:
            asked = [instance.unimodal.task for instance in instances(person)]
            assert asked == ["cls"] * 2 + ["cloze"] * 2 + ["gen"] * stories
            for modality in MODALITIES:
                assert len([p for p in training_pairs(person) if p.modality == modality]) == 6


def test_every_asked_fact_is_taught_in_both_modalities(invented: list[Person], real: list[Person]) -> None:
    """SFT sees the pairs only: a fact without a pair in a modality could not be answered in it."""
    for person in invented + real:
        for modality in MODALITIES:
            answers = {pair.answer for pair in training_pairs(person) if pair.modality == modality}
            questions = {pair.question for pair in training_pairs(person) if pair.modality == modality}
            for instance in instances(person):
                question = getattr(instance, modality)
                assert question.gold in answers
                assert (question.text in questions) == (question.task == "gen")  # generation: word for word


def test_evaluation_wordings_differ_from_training_wordings() -> None:
    for field in FIELDS:
        evaluation = {*CLASSIFICATION.get(field, ()), *CLOZE[field]}
        assert not evaluation & set(TRAINING[field])
    assert set(CLASSIFICATION) == set(CLASSIFIED)


def test_classification_options(invented: list[Person], real: list[Person]) -> None:
    """One right and three different wrong options; the two modalities agree, so that pairs compare like with like."""
    for person in invented + real:
        for instance in instances(person):
            uni, mul = instance.unimodal, instance.multimodal
            if uni.task == "cls":
                assert list(uni.options) == list("ABCD")
                assert len(set(uni.options.values())) == 4
                assert uni.options[uni.gold_letter or ""] == uni.gold == person.facts[uni.key]  # type: ignore[index]
                assert (uni.options, uni.gold_letter) == (mul.options, mul.gold_letter)


def test_golds_of_cloze_are_short_and_without_full_stop(invented: list[Person], real: list[Person]) -> None:
    """A gold with a full stop would be cut by the scoring rules."""
    for person in invented + real:
        golds = [i.unimodal.gold for i in instances(person) if i.unimodal.task == "cloze"]
        assert all("." not in gold and 1 <= len(gold.split()) <= 5 for gold in golds)


def test_only_unimodal_questions_name_the_person(invented: list[Person]) -> None:
    for person in invented:
        texts = [(pair.modality, pair.question) for pair in training_pairs(person)]
        texts += [(q.modality, q.text) for instance in instances(person) for q in instance]
        for modality, text in texts:
            assert (person.name in text) == (modality == "unimodal")
            assert bool(re.search("this person|the person", text, re.IGNORECASE)) == (modality == "multimodal")


def test_taught_keys_hold_all_asked_keys(invented: list[Person]) -> None:
    for person in invented:
        assert {*person.classified, *person.blanked, *person.told} <= set(taught_keys(person))
