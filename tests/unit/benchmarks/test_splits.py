"""Split names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from umu_tasks.benchmarks.splits import SPLITS, resolve_split, retain_split

ALIASES = {
    "forget05": ["forget_5", "Forget_5", "FORGET-05", "forget05", "forget5", "forget_5_set"],
    "forget10": ["forget_10", "forget10"],
    "forget15": ["forget_15", "Forget15"],
    "retain95": ["retain_95", "Retain_95", "retain95"],
    "retain90": ["retain_90"],
    "retain85": ["retain_85"],
    "real": ["Real_Person_Set", "real_person", "real", "REAL_PERSON"],
    "full": ["Full_Set", "full_set", "full_data", "Full_Data", "full"],
}


def test_every_split_has_aliases_in_the_table():
    assert set(ALIASES) == set(SPLITS)


@pytest.mark.parametrize(("alias", "split"), [(alias, split) for split, names in ALIASES.items() for alias in names])
def test_alias(alias, split):
    assert resolve_split(alias) == split


@pytest.mark.parametrize("name", ["forget_7", "retain_5", "forget_95", "test", "", "forget", "full_real", "retain_950"])
def test_other_names_are_no_split(name):
    assert resolve_split(name) is None


@given(st.sampled_from(SPLITS), st.sampled_from(["{}", " {} ", "{}_", "-{}"]), st.booleans())
def test_case_and_separators_do_not_matter(split, frame, upper):
    name = frame.format(split)
    assert resolve_split(name.upper() if upper else name) == split


def test_retain_split():
    assert [retain_split(f"forget{ratio:02d}") for ratio in (5, 10, 15)] == ["retain95", "retain90", "retain85"]
