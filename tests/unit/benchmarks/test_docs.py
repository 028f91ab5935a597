"""The examples in docstrings."""

import doctest
import importlib

import pytest


@pytest.mark.parametrize(
    "name", ["umu_tasks.benchmarks.splits", "umu_tasks.benchmarks.layout", "umu_tasks.tasks.umu.rows"]
)
def test_examples_in_docstrings_hold(name):
    failed, attempted = doctest.testmod(importlib.import_module(name))
    assert attempted > 0
    assert failed == 0
