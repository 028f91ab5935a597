"""Unlearning objectives: one pure function a file, and the file's name is the method's name.

To add one, write `objectives/mymethod.py` with a function `loss`, a config `configs/unlearn/mymethod.yaml` and a test;
there is no list to edit. What the positional parameters are called says which passes the trainer runs:

    forget               the forget batch under the model, with gradient
    retain               the retain batch under the model, with gradient
    refusal              the forget questions, each followed by a refusal, under the model, with gradient
    forget_reference     the forget batch under the frozen reference model (the model before unlearning), no gradient
    retain_reference     the retain batch under the reference model, no gradient
    refusal_reference    the refusal batch under the reference model, no gradient

Each is an `umu_trainers.outputs.Outputs`. A pass whose default is None may be left out: a retain pass is run only where
`gamma` is above 0, and a method that can do without either of forget and retain can be trained in `phases: sequential`.

Keyword parameters are the method's settings: `gamma`, the weight of the retain term, and `npo_beta` have flags of their
own; all others are given under `method_kwargs` and checked against the function's signature. A keyword parameter called
`hidden_layer` makes the trainer fill `Outputs.hidden_states` with that decoder layer's activations.

    def loss(forget: Outputs, retain: Outputs | None = None, *, gamma: float = 1.0) -> Tensor:
        return retain_term(retain, gamma) - forget.nll  # ()

The function returns a mean over rows, (). It is called once per modality; it knows nothing about modalities, adapters
or processes. The trainer sums `alpha * multimodal + beta * unimodal` and weighs micro-batches by their number of
rows, so that accumulation and several processes give the value of the whole batch.
"""

from __future__ import annotations

import importlib
import inspect
import math
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from umu_trainers.outputs import Outputs

ROLES = ("forget", "retain", "refusal")
REFERENCE = "_reference"
PASSES = (*ROLES, *(f"{role}{REFERENCE}" for role in ROLES))
# What a setting may hold, by how the function annotates it.
KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "bool": ((bool,), "true or false"),
    "int": ((int,), "a whole number"),
    "float": ((int, float), "a number"),
    "str": ((str,), "a word"),
}


@dataclass(frozen=True)
class Objective:
    """A method's loss function with its settings bound.

    Attributes:
        method: file name of the method.
        passes: names of the passes `function` takes and the trainer runs, in the function's order.
        settings: keyword arguments that differ from the function's defaults.
        hidden_layer: decoder layer whose activations the passes must carry, from 1; None for none.
        in_phases: whether it can be called with the forget or the retain pass alone.
    """

    method: str
    function: Callable[..., Tensor]
    passes: tuple[str, ...]
    settings: dict[str, Any] = field(default_factory=dict)
    hidden_layer: int | None = None
    in_phases: bool = False

    @property
    def roles(self) -> tuple[str, ...]:
        """The kinds of rows the passes need, in the order of `ROLES`."""
        needed = {name.removesuffix(REFERENCE) for name in self.passes}
        return tuple(role for role in ROLES if role in needed)

    @property
    def uses_retain(self) -> bool:
        return "retain" in self.roles

    @property
    def uses_reference(self) -> bool:
        return any(name.endswith(REFERENCE) for name in self.passes)

    def try_out(self) -> None:
        """Call it once on made-up outputs, so that settings it refuses are named before a model loads.

        Raises:
            ValueError: whatever the function raises of a setting.
        """
        logits, labels = torch.zeros(1, 2, 3), torch.tensor([[1, 2]])
        outputs = Outputs.from_logits(logits, labels, hidden_states=logits)
        self(*(outputs for _ in self.passes))

    def __call__(self, *passes: Any) -> Tensor:
        """Return the loss () of the passes, given in the order of `self.passes`."""
        return self.function(*passes, **self.settings)


def available() -> tuple[str, ...]:
    """Return the names of all methods: the files of this folder, those that start with `_` left out."""
    return tuple(sorted(one.name for one in pkgutil.iter_modules(__path__) if not one.name.startswith("_")))


def find(method: str, *, gamma: float | None = None, method_kwargs: Mapping[str, Any] | None = None) -> Objective:
    """Return the objective of a method by its file name.

    Args:
        method: a name of `available()`.
        gamma: weight of the retain term, no unit; None leaves the method's default.
        method_kwargs: the method's other settings.

    Raises:
        ValueError: an unknown method, a setting the method does not have or lacks, or a pass the trainer does not run.
    """
    if method not in available():
        raise ValueError(f"--method {method}: no such method. Choose one of: {', '.join(available())}.")
    function = importlib.import_module(f"{__name__}.{method}").loss
    parameters = inspect.signature(function).parameters.values()
    passes = {one.name: one for one in parameters if one.kind is not inspect.Parameter.KEYWORD_ONLY}
    options = {one.name: one for one in parameters if one.kind is inspect.Parameter.KEYWORD_ONLY}
    unknown = [name for name in passes if name not in PASSES]
    if unknown:
        raise ValueError(
            f"objectives/{method}.py: loss() takes {', '.join(unknown)}, but the passes are {', '.join(PASSES)}. "
            "Make settings keyword-only (after *)."
        )
    settings = dict(method_kwargs or {})
    _check_settings(method, settings, options)
    if gamma is not None:
        if "gamma" not in options:
            raise ValueError(
                f"--gamma {gamma}: method {method} has no retain term. Leave gamma out, or start from {method}.yaml."
            )
        settings["gamma"] = gamma
    missing = [name for name, one in options.items() if one.default is one.empty and name not in settings]
    if missing:
        raise ValueError(f"--method {method}: give {', '.join(missing)} under method_kwargs.")
    values = {name: settings.get(name, one.default) for name, one in options.items()}
    may_miss = {name for name, one in passes.items() if one.default is None}
    is_run = [name for name in passes if not (name == "retain" and name in may_miss and not values.get("gamma"))]
    layer = values.get("hidden_layer")
    if layer is not None and layer < 1:
        raise ValueError(f"method_kwargs: hidden_layer {layer}: layers are counted from 1.")
    return Objective(
        method,
        function,
        tuple(is_run),
        settings,
        hidden_layer=layer,
        in_phases={"forget", "retain"} <= may_miss,
    )


def _check_settings(method: str, settings: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    own = [name for name in options if name != "gamma"]
    for name, value in settings.items():
        if name == "gamma":
            raise ValueError("method_kwargs: gamma has a setting of its own. Write `gamma:` (or --gamma) beside it.")
        if name not in own:
            raise ValueError(f"method_kwargs: method {method} has no {name}. It takes: {', '.join(own) or 'none'}.")
        _check_kind(name, value, str(options[name].annotation))


def _check_kind(name: str, value: object, annotation: str) -> None:
    """Raise a ValueError if a value is not what the function's annotation says; others than `KINDS` are not checked."""
    types, expected = KINDS.get(annotation, ((object,), ""))
    is_of_kind = isinstance(value, types) and (bool in types or object in types or not isinstance(value, bool))
    if not is_of_kind or (isinstance(value, float) and not math.isfinite(value)):
        # YAML reads 1e-1 as text: a number there needs its point (1.0e-1).
        raise ValueError(f"method_kwargs: {name}: {expected} is expected, found {value!r}.")
