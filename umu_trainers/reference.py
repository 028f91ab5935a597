"""The frozen reference model: the model as it was before unlearning, without a second copy where LoRA allows it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from umu_trainers.model import ADAPTER_WEIGHT

Reference = Callable[[Any], AbstractContextManager[Any]]
"""Given the (wrapped) training model, a context that yields the model to run the reference pass with."""


def make_reference(model: nn.Module, *, is_lora: bool) -> Reference:
    """Return the reference of a model that is about to be trained.

    Call it before a trainer patches the model's forward: a copy made later would run the original's weights.

    Args:
        model: the model as loaded; a `PeftModel` if training goes on from an adapter.
        is_lora: adapters are trained. A fresh adapter's reference is the model with the adapter off; an adapter that is
            trained on is swapped for its own starting values. Full training keeps a frozen copy of the model.
    """
    if not is_lora:
        return _FrozenCopy(model)
    start = {name: one.detach().clone() for name, one in model.named_parameters() if ADAPTER_WEIGHT in name}
    return _StartingAdapter(start) if start else _adapter_off


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """No gradient and no dropout."""
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(was_training)


@contextmanager
def _adapter_off(model: Any) -> Iterator[Any]:
    unwrapped = getattr(model, "module", model)
    with _evaluating(model), unwrapped.disable_adapter():
        yield model


class _StartingAdapter:
    def __init__(self, start: dict[str, Tensor]) -> None:
        self.start = start

    @contextmanager
    def __call__(self, model: Any) -> Iterator[Any]:
        unwrapped = getattr(model, "module", model)
        self._swap(unwrapped)
        try:
            with _evaluating(model):
                yield model
        finally:
            self._swap(unwrapped)

    def _swap(self, model: nn.Module) -> None:
        for name, parameter in model.named_parameters():
            if name in self.start:
                here = self.start[name].to(parameter.device, parameter.dtype)
                self.start[name], parameter.data = parameter.data, here


class _FrozenCopy:
    def __init__(self, model: nn.Module) -> None:
        self.copy = copy.deepcopy(model).eval().requires_grad_(False)

    @contextmanager
    def __call__(self, model: Any) -> Iterator[Any]:
        self.copy.to(next(model.parameters()).device)
        with torch.no_grad():
            yield self.copy
