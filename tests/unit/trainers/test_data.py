from __future__ import annotations

import dataclasses

import pytest

from umu_tasks.benchmarks.errors import DataError
from umu_tasks.benchmarks.profiles import ProfileSet
from umu_trainers.collator import fillers
from umu_trainers.data import check_disjoint, load_refusals, published_subset, rows_by_role, training_set
from umu_trainers.image_inputs import concatenate
from umu_trainers.model import name_pattern


def profiles(rows, split="forget05"):
    people = {}
    for row in rows:
        known = people.get(row.profile.profile_id)
        pairs = (*(known.pairs if known else ()), row.pair)
        people[row.profile.profile_id] = dataclasses.replace(row.profile, pairs=pairs)
    return ProfileSet(split, people.values())


def test_counts_are_told(make_rows):
    found = training_set("forget", profiles(make_rows(4) + make_rows(6, "mul")), ("uni", "mul"))
    assert str(found) == "forget (forget05): 3 people, 6 multimodal, 4 unimodal rows"


def test_only_the_asked_half_is_taken(make_rows):
    found = training_set("forget", profiles(make_rows(4) + make_rows(6, "mul")), ("uni",))
    assert list(found.rows) == ["uni"]
    assert not any(row.pair.has_image for row in found.rows["uni"])


def test_rows_with_an_empty_answer_are_skipped_and_named(make_rows):
    rows = make_rows(4)
    rows[1] = dataclasses.replace(rows[1], pair=dataclasses.replace(rows[1].pair, answer="  "))
    found = training_set("forget", profiles(rows), ("uni",))
    assert len(found) == 3
    assert found.skipped == ["forget05, row ID 000, unimodal pair 1"]
    assert "1 skipped for an empty answer: forget05, row ID 000" in str(found)


def test_an_image_can_be_attached_to_unimodal_questions(make_rows):
    """The published export's way: no row is then without an image, and the count says how many are such rows."""
    rows = make_rows(4) + make_rows(6, "mul")
    found = training_set("train", profiles(rows, "full"), ("mul",), attach_image=True)
    assert len(found.rows["mul"]) == 10
    assert all(row.has_image and row.half == "mul" for row in found.rows["mul"])
    assert "10 multimodal (4" not in str(found)
    assert str(found).endswith("10 multimodal, 0 unimodal rows (4 of them unimodal questions with the image attached)")


def test_a_half_without_rows_says_how_to_do_without(make_rows):
    """`retain_modality: mix` asks for a half that is not forgotten: another --modality would not leave it out."""
    people = profiles(make_rows(4), "retain95")
    with pytest.raises(DataError, match=r"no multimodal .* leave that half out with --modality uni"):
        training_set("retain", people, ("uni", "mul"))
    with pytest.raises(DataError, match=r"no multimodal .*Add some, or set --retain_modality same\."):
        training_set("retain", people, ("uni", "mul"), advice="set --retain_modality same")


@pytest.mark.parametrize(("count", "share", "expected"), [(2850, 95, 150), (2700, 90, 299), (2550, 85, 450)])
def test_published_retain_subset(make_rows, count, share, expected):
    """As many rows as the published scripts draw: 299, not 300, at 90 %, by float rounding."""
    retain = training_set("retain", profiles(make_rows(count), "retain95"), ("uni",))
    found = published_subset(retain, share)
    assert len(found.rows["uni"]) == expected
    assert [row.name for row in found.rows["uni"]] == [row.name for row in published_subset(retain, share).rows["uni"]]
    assert len(retain.rows["uni"]) == count


def test_a_retain_set_too_small_for_the_published_subset_is_named(make_rows):
    retain = training_set("retain", profiles(make_rows(6), "retain95"), ("uni",))
    with pytest.raises(DataError, match=r"retain95: retain_subset: of 6 unimodal rows"):
        published_subset(retain, 95)


def test_rows_of_the_roles_an_objective_needs(make_rows):
    forget = training_set("forget", profiles(make_rows(4) + make_rows(6, "mul")), ("uni", "mul"))
    refusals = load_refusals()
    found = rows_by_role(("forget", "refusal"), forget, None, refusals)
    assert found["forget"] == forget.rows
    for half, (row,) in found["refusal"].items():
        assert row.half == half
        assert row.pair.answer == max(refusals, key=len)


def test_a_half_without_rows_is_an_error(make_rows):
    with pytest.raises(DataError, match=r"retain95: the retain set has no multimodal .*--modality uni"):
        training_set("retain", profiles(make_rows(4), "retain95"), ("uni", "mul"))


def test_people_in_both_sets_are_named(make_rows):
    with pytest.raises(DataError, match=r"forget05 and retain95: ID 000, 001 in both"):
        check_disjoint(profiles(make_rows(4)), profiles(make_rows(6), "retain95"))


def test_stand_ins_list_unimodal_passes_first(make_rows):
    """DDP, where it looks for unused parameters, goes by the last pass: it must be one with images."""
    rows = {"uni": make_rows(2), "mul": make_rows(2, "mul")}
    assert list(fillers({"forget": rows, "retain": rows})) == ["forget_uni", "retain_uni", "forget_mul", "retain_mul"]
    assert list(fillers({"forget": rows, "retain": None})) == ["forget_uni", "forget_mul"]


def test_images_of_different_shape_are_padded():
    import torch

    joined = concatenate([{"pixel_values": torch.ones(1, 2, 3)}, {"pixel_values": torch.ones(2, 4, 1)}])
    assert joined["pixel_values"].shape == (3, 4, 3)
    assert joined["pixel_values"].sum() == 6 + 8


def test_adapter_pattern_matches_whole_names_only():
    """A list of names would be stored as suffixes, which match the vision tower's layers too."""
    import re

    pattern = name_pattern([f"model.language_model.layers.{n}.self_attn.q_proj" for n in (0, 1, 11)])
    assert re.fullmatch(pattern, "model.language_model.layers.7.self_attn.q_proj")
    assert not re.fullmatch(pattern, "model.vision_tower.encoder.layers.0.self_attn.q_proj")
    assert not re.fullmatch(pattern, "model.language_model.layers.0.self_attn.k_proj")
