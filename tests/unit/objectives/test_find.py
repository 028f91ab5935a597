from __future__ import annotations

import sys
from types import ModuleType

import pytest

from umu_trainers import objectives


@pytest.fixture
def method(monkeypatch):
    """Register a function as the method `mymethod`, as a new file in the folder would be."""

    def register(function):
        module = ModuleType("umu_trainers.objectives.mymethod")
        module.loss = function
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setattr(objectives, "available", lambda: ("ga", "gd", "mymethod"))

    return register


def test_passes_are_read_off_the_parameters(method):
    method(lambda forget, forget_reference, *, npo_beta=0.1: (forget, forget_reference, npo_beta))
    found = objectives.find("mymethod", method_kwargs={"npo_beta": 0.4})
    assert found.passes == ("forget", "forget_reference")
    assert (found.uses_retain, found.uses_reference) == (False, True)
    assert found("a", "b") == ("a", "b", 0.4)


def test_gamma_reaches_the_method():
    found = objectives.find("gd", gamma=2.5)
    assert found.settings == {"gamma": 2.5}
    assert found.uses_retain


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "sgd"}, r"--method sgd: no such method\. Choose one of: .*ga.*gd"),
        ({"method": "../ga"}, "no such method"),
        ({"method": "ga", "gamma": 1.0}, r"--gamma 1.0: method ga has no retain term"),
        ({"method": "gd", "method_kwargs": {"npo_beta": 1}}, r"method gd has no npo_beta\. It takes: none"),
        ({"method": "gd", "method_kwargs": {"gamma": 1}}, r"gamma has a setting of its own"),
    ],
)
def test_wrong_settings_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        objectives.find(**arguments)


def test_a_setting_without_default_must_be_given(method):
    method(lambda forget, *, temperature: forget)
    with pytest.raises(ValueError, match="give temperature under method_kwargs"):
        objectives.find("mymethod")


def test_a_pass_the_trainer_does_not_run_is_named(method):
    method(lambda forget, beta=1.0: forget)
    with pytest.raises(ValueError, match=r"loss\(\) takes beta, but the passes are forget, retain, .*keyword-only"):
        objectives.find("mymethod")
