"""The frozen reference model: the model as it was before unlearning, without a second copy where LoRA allows it.

| trained | reference | costs |
|---|---|---|
| a fresh adapter | the same model with its adapter off | nothing |
| an adapter that training goes on with | the same model with a frozen copy of that adapter | the adapter's size |
| the weights themselves | a frozen model of its own | the model's size (divided between processes under ZeRO-3) |
| anything, with `reference_model` | the model given | the same |
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from PIL import Image
from torch import nn

from umu_tasks.backend.probe import QUESTION
from umu_tasks.backend.prompting import PromptBuilder
from umu_trainers.adapter_switch import AdapterSwitch
from umu_trainers.model import STARTING_ADAPTER, Start, keep_starting_adapter, load_start


class Reference:
    """Yields, for a reference pass, the model to run it with: no gradient, no dropout.

    Called with the (wrapped) training model. Every process must enter it for the same passes.
    """

    def prepare(self, accelerator: Any) -> None:
        """Put what it holds where training runs; called once, before the first pass."""

    def release(self) -> None:
        """Give back the memory of what it holds; no pass comes after."""

    def __call__(self, model: Any) -> AbstractContextManager[Any]:
        """Return the context of a pass."""
        raise NotImplementedError


def make_reference(start: Start, args: Any) -> Reference:
    """Return the reference of a model that is about to be trained.

    Call it before the trainer is built: what it adds to the model has to be there when DeepSpeed divides the weights.

    Args:
        start: the model as loaded.
        args: `UnlearnArguments`.

    Raises:
        ValueError: on `Reference.prepare`, a `reference_model` that reads other inputs than the model.
    """
    if args.reference_model is not None:
        return FrozenModel(lambda: _other(start, args))
    if not args.use_lora:
        return FrozenModel(lambda: _load(args.model, args).model)
    if start.adapter is None:
        return AdapterOff()
    keep_starting_adapter(start.model)
    return StartingAdapter()


def _load(spec: str, args: Any, option: str = "model") -> Start:
    return load_start(
        spec,
        use_lora=False,
        dtype=args.weights_dtype,
        prompt=args.prompt,
        attn_implementation=args.attn_implementation,
        trust_remote_code=args.trust_remote_code,
        option=option,
    )


def _other(start: Start, args: Any) -> nn.Module:
    """Return the model given with `reference_model`.

    Raises:
        ValueError: it reads other inputs than the model that is trained, so that the two can't be compared.
    """
    other = _load(args.reference_model, args, option="reference_model")
    found = _difference(start.builder, other.builder)
    words = [one.model.config.get_text_config().vocab_size for one in (other, start)]
    if not found and words[0] != words[1]:
        found = f"a language head for {words[0]} tokens instead of {words[1]}"
    if found:
        raise ValueError(
            f"--reference_model {args.reference_model}: {found}, unlike --model {args.model}. Both get the same "
            "inputs: give one with the same tokenizer and image processor, such as one trained from the same base."
        )
    model: nn.Module = other.model
    return model


def _difference(own: PromptBuilder, other: PromptBuilder) -> str:
    """Return what differs in the inputs that two processors make, "" if nothing does."""
    known = other.processor.tokenizer.get_vocab()
    if any(known.get(token) != number for token, number in own.processor.tokenizer.get_vocab().items()):
        return "another vocabulary in its tokenizer"
    prompt, portrait = own.training(QUESTION, has_image=True), Image.new("RGB", (64, 64), (120, 90, 60))
    mine, its = (one.encode([prompt], [[portrait]], padding_side="right") for one in (own, other))
    for name in sorted(mine.keys() | its.keys()):
        shapes = [list(one[name].shape) if name in one else None for one in (mine, its)]
        if shapes[0] != shapes[1]:
            return f"{name} of another shape for the same question and image ({shapes[1]}, expected {shapes[0]})"
        if not torch.equal(mine[name], its[name]):
            return f"other {name} for the same question and image"
    return ""


class Switched(Reference):
    """The model that is trained, with its adapters switched."""

    def __init__(self) -> None:
        self._switch: AdapterSwitch | None = None

    @contextmanager
    def __call__(self, model: Any) -> Iterator[Any]:
        if self._switch is None or self._switch.model is not model:
            self._switch = AdapterSwitch(model)
        with torch.no_grad(), self._switch.evaluating(), self.switched(self._switch):
            yield model

    @abstractmethod
    def switched(self, switch: AdapterSwitch) -> AbstractContextManager[None]:
        """Return the context in which the model is the reference."""


class AdapterOff(Switched):
    """The model without its adapter."""

    def switched(self, switch: AdapterSwitch) -> AbstractContextManager[None]:
        return switch.off()


class StartingAdapter(Switched):
    """The model with the adapter that `keep_starting_adapter` put beside the trained one.

    A second adapter, rather than values swapped into the first: under ZeRO-3 a process holds only a part of each.
    """

    def switched(self, switch: AdapterSwitch) -> AbstractContextManager[None]:
        return switch.using(STARTING_ADAPTER)


class FrozenModel(Reference):
    """A model of its own.

    Args:
        load: opens it; not called where its values are stored already.
    """

    def __init__(self, load: Callable[[], nn.Module]) -> None:
        self.load = load
        self.model: Any = None
        self.accelerator: Any = None

    def prepare(self, accelerator: Any) -> None:
        model = self.load().eval().requires_grad_(False)
        self.accelerator = accelerator
        self.model = prepare_frozen(model, accelerator)

    def release(self) -> None:
        self.model = None

    @contextmanager
    def __call__(self, model: Any) -> Iterator[Any]:
        with torch.no_grad(), self.accelerator.autocast():
            yield self.model


def prepare_frozen(model: nn.Module, accelerator: Any) -> Any:
    """Return a model that is not trained on the device of training, in the precision training runs in."""
    plugin = getattr(accelerator.state, "deepspeed_plugin", None)
    if plugin is None:
        return model.to(accelerator.device)
    # DeepSpeed trains in bf16 by casting the model, without autocast.
    if accelerator.mixed_precision == "bf16":
        model = model.to(torch.bfloat16)
    if plugin.zero_stage != 3:
        return model.to(accelerator.device)
    import deepspeed

    # `from_pretrained` has divided it between the processes; this lets each layer gather its weights when it runs.
    settings = {
        "train_micro_batch_size_per_gpu": 1,
        "zero_optimization": {"stage": 3},
        "bf16": {"enabled": accelerator.mixed_precision == "bf16"},
    }
    offload = plugin.deepspeed_config["zero_optimization"].get("offload_param")
    if offload and offload.get("device") not in (None, "none"):
        settings["zero_optimization"]["offload_param"] = offload  # type: ignore[index]
    engine, *_ = deepspeed.initialize(model=model, config=settings)
    engine.eval()
    return engine
