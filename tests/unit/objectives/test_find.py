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
    ("name", "gamma", "passes"),
    [
        ("ga", None, ("forget",)),
        ("ga", 0.5, ("forget", "retain")),
        ("gd", 0.0, ("forget",)),
        ("npo", None, ("forget", "forget_reference")),
        ("npo", 1.0, ("forget", "forget_reference", "retain")),
        ("kl", 0.0, ("forget", "retain", "retain_reference")),
    ],
)
def test_an_optional_retain_pass_is_run_only_where_it_counts(name, gamma, passes):
    """GA without a retain term must not load retain rows, nor pay for their forward pass."""
    found = objectives.find(name, gamma=gamma)
    assert found.passes == passes
    assert found.roles == tuple(role for role in ("forget", "retain") if role in passes)


def test_only_terms_that_stand_alone_can_be_trained_in_phases():
    assert [name for name in objectives.available() if name != "rmu" and objectives.find(name).in_phases] == ["gd"]


def test_shared_helpers_are_no_methods():
    assert "_terms" not in objectives.available()


def test_a_method_can_ask_for_hidden_states():
    with pytest.raises(ValueError, match="--method rmu: give hidden_layer under method_kwargs"):
        objectives.find("rmu")
    assert objectives.find("rmu", method_kwargs={"hidden_layer": 2}).hidden_layer == 2
    assert objectives.find("gd").hidden_layer is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "sgd"}, r"--method sgd: no such method\. Choose one of: .*ga.*gd"),
        ({"method": "../ga"}, "no such method"),
        ({"method": "mymethod", "gamma": 1.0}, r"--gamma 1.0: method mymethod has no retain term"),
        ({"method": "gd", "method_kwargs": {"npo_beta": 1}}, r"method gd has no npo_beta\. It takes: none"),
        ({"method": "gd", "method_kwargs": {"gamma": 1}}, r"gamma has a setting of its own"),
    ],
)
def test_wrong_settings_are_named(method, arguments, message):
    method(lambda forget: forget)
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
