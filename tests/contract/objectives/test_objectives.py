"""Every objective keeps the contract of `umu_trainers.objectives`; new files are collected by themselves."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest
import torch
import yaml

from umu_trainers import objectives
from umu_trainers.outputs import IGNORED, Outputs

CONFIGS = Path(__file__).parents[3] / "configs" / "unlearn"


def random_outputs(seed: int, *, padding: int = 0, side: str = "right") -> Outputs:
    """Three rows of 4, 2 and 4 answer tokens, with hidden states for those who ask; padding has huge values."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(3, 4, 7, generator=generator)
    labels = torch.randint(7, (3, 4), generator=generator)
    states = torch.randn(3, 4, 5, generator=generator)
    labels[1, 2:] = IGNORED
    if padding:
        added = [
            torch.full((3, padding, 7), 1e4),
            torch.full((3, padding), IGNORED),
            torch.full((3, padding, 5), 1e4),
        ]
        pairs = zip((logits, labels, states), added, strict=True)
        logits, labels, states = (torch.cat(pair if side == "right" else pair[::-1], dim=1) for pair in pairs)
    return Outputs.from_logits(logits.requires_grad_(), labels, hidden_states=states.requires_grad_())


def passes_of(objective: objectives.Objective, **settings) -> list[Outputs]:
    """Refusals are other rows than forget answers, but the forget rows are the same in both models."""
    return [random_outputs(objectives.PASSES.index(name), **settings) for name in objective.passes]


@pytest.fixture(params=[(name, gamma) for name in objectives.available() for gamma in (None, 0.7)], ids=str)
def objective(request) -> objectives.Objective:
    """Each method with its mini config's settings, and with its retain term on."""
    name, gamma = request.param
    written = yaml.safe_load((CONFIGS / "mini" / f"{name}.yaml").read_text(encoding="utf-8"))
    return objectives.find(name, gamma=gamma, method_kwargs=written.get("method_kwargs"))


def same_labels(passes: list[Outputs], objective: objectives.Objective) -> list[Outputs]:
    """A reference pass is over the same batch: give it the labels of the pass it belongs to."""
    by_name = dict(zip(objective.passes, passes, strict=True))
    return [
        Outputs.from_logits(
            one.logits,
            by_name.get(name.removesuffix(objectives.REFERENCE), one).labels,
            hidden_states=one.hidden_states,
        )
        for name, one in by_name.items()
    ]


def test_loss_is_a_finite_scalar_with_gradient_to_the_model_only(objective):
    passes = same_labels(passes_of(objective), objective)
    value = objective(*passes)
    assert value.shape == ()
    assert bool(torch.isfinite(value))
    for name, one in zip(objective.passes, passes, strict=True):
        if name.endswith(objectives.REFERENCE):
            continue
        gradients = torch.autograd.grad(value, [one.logits, one.hidden_states], allow_unused=True, retain_graph=True)
        assert any(gradient is not None and bool(gradient.abs().sum() > 0) for gradient in gradients), name


@pytest.mark.parametrize("side", ["right", "left"])
def test_padding_changes_nothing(objective, side):
    plain = objective(*same_labels(passes_of(objective), objective))
    padded = objective(*same_labels(passes_of(objective, padding=3, side=side), objective))
    torch.testing.assert_close(padded, plain)


def test_value_is_a_mean_over_rows(objective):
    """Micro-batches are weighed by their rows; that is exact for a mean over rows only."""
    both = same_labels(passes_of(objective), objective)
    values = [
        objective(
            *(Outputs.from_logits(one.logits[i], one.labels[i], hidden_states=one.hidden_states[i]) for one in both)
        )
        for i in (slice(1), slice(1, 3))
    ]
    torch.testing.assert_close(objective(*both), (values[0] + 2 * values[1]) / 3)


def test_gamma_weighs_a_term_of_its_own(objective):
    """The retain term is linear in gamma: twice the weight adds as much again."""
    name, kwargs = objective.method, {k: v for k, v in objective.settings.items() if k != "gamma"}
    values = []
    for gamma in (1.0, 2.0, 3.0):
        one = objectives.find(name, gamma=gamma, method_kwargs=kwargs)
        values.append(one(*same_labels(passes_of(one), one)))
    torch.testing.assert_close(values[2] - values[1], values[1] - values[0])
    assert values[1] > values[0]


def test_a_negative_gamma_is_refused(objective):
    one = objectives.find(objective.method, gamma=-1.0, method_kwargs={
        k: v for k, v in objective.settings.items() if k != "gamma"})  # fmt: skip
    with pytest.raises(ValueError, match="--gamma -1"):
        one(*same_labels(passes_of(one), one))


def test_it_says_what_it_computes(objective):
    function = importlib.import_module(f"umu_trainers.objectives.{objective.method}").loss
    text = inspect.getdoc(function) or ""
    for part in ("Args:", "Returns:", "Source:"):
        assert part in text
    for name in inspect.signature(function).parameters:
        assert f"{name}:" in text, f"{name} is not described"


def test_it_is_in_the_table_of_methods(objective):
    docs = (CONFIGS.parents[1] / "docs" / "objectives.md").read_text(encoding="utf-8")
    assert f"../configs/unlearn/{objective.method}.yaml" in docs
