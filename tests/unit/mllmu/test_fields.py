"""Which two questions ask for the same fact: a wrong pair would make up a modality gap."""

from __future__ import annotations

import pytest

from umu_tasks.tasks.mllmu.fields import Entry, field_of, pair_keys, partners


@pytest.mark.parametrize(
    ("question", "field"),
    [("What is the occupation of this person?", "occupation"), ("What does Ada Crane do for a living?", "occupation"),
     ("Ada Crane lives in __.", "residence"), ("When was this person born?", "birth_date"),
     ("In which city was Ada Crane born?", "birthplace"), ("Why?", None)],
)  # fmt: skip
def test_field_is_told_by_the_question(question, field):
    assert field_of(question) == field


def test_same_field_and_gold_pair():
    unimodal = [Entry("occupation", "Pilot"), Entry("education", "Law")]
    multimodal = [Entry("residence", "Oslo"), Entry("occupation", "pilot.")]
    assert pair_keys(unimodal, multimodal) == (["occupation", "education-uni1"], ["residence-mul0", "occupation"])


def test_two_facts_of_one_field_pair_by_their_golds():
    unimodal = [Entry("education", "Oxford"), Entry("education", "Law")]
    multimodal = [Entry("education", "Law"), Entry("education", "Oxford")]
    assert partners(unimodal, multimodal) == {0: 1, 1: 0}
    assert pair_keys(unimodal, multimodal) == (["education", "education-2"], ["education-2", "education"])


def test_same_gold_of_different_fields_does_not_pair():
    """Born in Oslo and living in Oslo are two facts."""
    assert partners([Entry("birthplace", "Oslo")], [Entry("residence", "Oslo")]) == {}


def test_wording_that_tells_nothing_pairs_by_gold_alone():
    assert pair_keys([Entry(None, "Oslo")], [Entry("residence", "Oslo")]) == (["residence"], ["residence"])
    assert pair_keys([Entry(None, "Oslo")], [Entry(None, "Lima")]) == (["fact-uni0"], ["fact-mul0"])


def test_sentences_that_differ_by_the_name_pair():
    golds = ("Ada Crane is a pilot who lives in Oslo.", "This person is a pilot who lives in Oslo.")
    others = ("Ada Crane enjoys chess.", "This person enjoys chess.")
    unimodal = [Entry("overview", golds[0]), Entry("overview", others[0])]
    multimodal = [Entry("overview", others[1]), Entry("overview", golds[1])]
    assert partners(unimodal, multimodal) == {0: 1, 1: 0}


def test_only_ones_of_a_field_pair_though_their_golds_differ_in_wording():
    assert partners([Entry("height", "171 cm")], [Entry("height", "5 feet 7")]) == {0: 0}
    two = [Entry("height", "1.71 m"), Entry("height", "a lot")]
    assert partners(two, [Entry("height", "5 feet 7")]) == {}
