"""Every objective keeps the contract of `umu_trainers.objectives`; new files are collected by themselves."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest
import torch

from umu_trainers import objectives
from umu_trainers.outputs import IGNORED, Outputs

CONFIGS = Path(__file__).parents[3] / "configs" / "unlearn"


def random_outputs(seed: int, *, padding: int = 0) -> Outputs:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(3, 4, 7, generator=generator)
    labels = torch.randint(7, (3, 4), generator=generator)
    labels[1, 2:] = IGNORED
    if padding:
        logits = torch.cat([logits, torch.full((3, padding, 7), 1e4)], dim=1)
        labels = torch.cat([labels, torch.full((3, padding), IGNORED)], dim=1)
    return Outputs.from_logits(logits.requires_grad_(), labels)


@pytest.fixture(params=objectives.available())
def objective(request) -> objectives.Objective:
    return objectives.find(request.param)


def test_loss_is_a_finite_scalar_with_gradient_to_the_model_only(objective):
    passes = [random_outputs(seed) for seed in range(len(objective.passes))]
    value = objective(*passes)
    assert value.shape == ()
    assert bool(torch.isfinite(value))
    gradients = torch.autograd.grad(value, [one.logits for one in passes], allow_unused=True)
    for name, gradient in zip(objective.passes, gradients, strict=True):
        moves = gradient is not None and bool(gradient.abs().sum() > 0)
        assert moves != name.endswith("_reference"), name


def test_padding_changes_nothing(objective):
    plain = objective(*(random_outputs(seed) for seed in range(len(objective.passes))))
    padded = objective(*(random_outputs(seed, padding=3) for seed in range(len(objective.passes))))
    torch.testing.assert_close(padded, plain)


def test_value_is_a_mean_over_rows(objective):
    """Micro-batches are weighed by their rows; that is exact for a mean over rows only."""
    both = [random_outputs(seed) for seed in range(len(objective.passes))]
    values = [
        objective(*(Outputs.from_logits(one.logits[i], one.labels[i]) for one in both)) for i in (slice(1), slice(1, 3))
    ]
    torch.testing.assert_close(objective(*both), (values[0] + 2 * values[1]) / 3)


def test_it_says_what_it_computes(objective):
    function = importlib.import_module(f"umu_trainers.objectives.{objective.method}").loss
    text = inspect.getdoc(function) or ""
    for part in ("Args:", "Returns:", "Source:"):
        assert part in text
    for name in inspect.signature(function).parameters:
        assert f"{name}:" in text, f"{name} is not described"


def test_it_has_a_config_for_a_large_model_and_for_mini(objective):
    assert (CONFIGS / f"{objective.method}.yaml").is_file()
    assert (CONFIGS / "mini" / f"{objective.method}.yaml").is_file()
