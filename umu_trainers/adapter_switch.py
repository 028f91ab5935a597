"""Switches a model's adapters and dropout for one pass.

PEFT's contexts for this, and `model.eval()`, walk through all modules several times at each use. On a 7B model and a
step of few questions that took longer than the pass. Here the modules are looked up once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from peft.tuners.tuners_utils import BaseTunerLayer
from peft.utils.other import AuxiliaryTrainingWrapper
from torch import nn


class AdapterSwitch:
    """The modules of a (wrapped) model that have a switch.

    Args:
        model: with all its adapters; what is added later is not switched.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.modules = list(model.modules())
        self.layers = [one for one in self.modules if isinstance(one, BaseTunerLayer)]
        self.adapted = [*self.layers, *(one for one in self.modules if isinstance(one, AuxiliaryTrainingWrapper))]

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """No dropout. As `model.eval()`, and as it was before at the end, module by module."""
        with _with(self.modules, "training", False):
            yield

    @contextmanager
    def off(self) -> Iterator[None]:
        """The model without its adapters. As `PeftModel.disable_adapter()`, for a pass without gradient.

        Raises:
            RuntimeError: this version of PEFT is switched in another way.
        """
        with _with(self.adapted, "_disable_adapters", True):
            _expect(self.adapted, "disable_adapters", True)
            yield

    @contextmanager
    def using(self, adapter: str) -> Iterator[None]:
        """The model with another of its adapters. As `PeftModel.set_adapter`, for a pass without gradient.

        Args:
            adapter: its name.

        Raises:
            RuntimeError: this version of PEFT is switched in another way.
        """
        with _with(self.adapted, "_active_adapter", [adapter]):
            _expect(self.adapted, "active_adapters", [adapter])
            yield

    @contextmanager
    def without_input_casts(self) -> Iterator[None]:
        """Adapters take their input in the precision it has. As `peft.helpers.disable_input_dtype_casting`."""
        with _with(self.layers, "cast_input_dtype_enabled", False):
            yield


@contextmanager
def _with(modules: Sequence[nn.Module], name: str, value: Any) -> Iterator[None]:
    """Give a plain attribute of all modules a value, and each its own back."""
    before = [getattr(one, name) for one in modules]
    with ExitStack() as at_end:
        at_end.callback(_set, modules, name, before)
        _set(modules, name, [value] * len(modules))
        yield


def _set(modules: Sequence[nn.Module], name: str, values: Sequence[Any]) -> None:
    for module, value in zip(modules, values, strict=True):
        # Past `nn.Module.__setattr__`, which first asks whether the value is a parameter, a buffer or a module.
        vars(module)[name] = value


def _expect(layers: Sequence[nn.Module], name: str, value: Any) -> None:
    """The switches are PEFT's private attributes; what it makes of them is public."""
    for one in layers:
        if getattr(one, name) != value:
            import peft

            raise RuntimeError(
                f"{type(one).__name__}: {name} is {getattr(one, name)!r} where {value!r} was set; this version of PEFT "
                f"({peft.__version__}) switches adapters in another way. Install peft 0.21, with which this was tested."
            )
