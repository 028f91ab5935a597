"""MLLMU-Bench's split names, among them one that means something else than it says."""

from __future__ import annotations

import pytest

from umu_tasks.tasks.mllmu.splits import SUBSETS, resolve_split
from umu_tasks.tasks.umu import rows as umu_rows


@pytest.mark.parametrize(
    ("name", "split"),
    [("forget_5", "forget05"), ("forget_15", "forget15"), ("retain_95", "retain95"), ("Retain_Set", "real"),
     ("Full_Set", "full"), ("Test_Set", "test"), ("ft_Data", "ft"), ("retain_set", "real"), ("train", None),
     ("forget_20", None)],
)  # fmt: skip
def test_published_names(name, split):
    assert resolve_split(name) == split


def test_retain_set_is_not_umus():
    """In UMU-Bench no split has that name; reading the celebrities as people to keep would pass unnoticed."""
    assert umu_rows.resolve_split("Retain_Set") is None


def test_test_splits_are_the_forget_sets_people(source):
    assert SUBSETS["test10"] == ("test", "forget10")
    assert source.load("test05").ids == source.load("forget05").ids
    assert len(source.load("Test_Set")) == 6
