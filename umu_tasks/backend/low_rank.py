"""LoRA layers that only answer: what an adapter adds, in two operations.

PEFT's layer casts to and from the adapter's float32, scales and adds in operations of their own, through several
modules; while decoding that takes longer than the layer itself. Merging would be faster still, but a bfloat16 weight
keeps 8 bits: what unlearning changed by less than that would be rounded away before it is scored.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class LowRankLinear(nn.Module):
    """A linear layer of weights (out, in) with a trained adapter of rank r beside it.

    The adapter is held in the weights' type, in which mixed-precision training computes with it too.

    Args:
        base: the layer under the adapter.
        down: (r, in), LoRA's A.
        up: (out, r), LoRA's B times the scaling.
    """

    down: Tensor  # (in, r)
    up: Tensor  # (r, out)

    def __init__(self, base: nn.Linear, down: Tensor, up: Tensor) -> None:
        super().__init__()
        self.base_layer = base
        self.in_features, self.out_features = base.in_features, base.out_features  # which model code may read
        self.register_buffer("down", down.detach().to(base.weight).t().contiguous(), persistent=False)
        self.register_buffer("up", up.detach().to(base.weight).t().contiguous(), persistent=False)

    @property
    def weight(self) -> Tensor:
        """The weights under the adapter, whose type model code may read."""
        return self.base_layer.weight

    @property
    def bias(self) -> Tensor | None:
        """The bias under the adapter."""
        return self.base_layer.bias

    def forward(self, inputs: Tensor) -> Tensor:
        """Return (..., out) for inputs (..., in)."""
        out = self.base_layer(inputs)
        reduced = torch.mm(inputs.reshape(-1, inputs.shape[-1]), self.down)
        return torch.addmm(out.view(-1, out.shape[-1]), reduced, self.up).view(out.shape)


def shorten_adapter(model: Any) -> int:
    """Replace a `PeftModel`'s plain LoRA layers by `LowRankLinear`; returns how many, 0 for a model without an adapter.

    What is not plain stays as it is: DoRA, trained biases, embeddings, several adapters, weights in fewer bits, and
    float16, whose range the sums could leave. The model can then neither be trained nor have its adapter switched off.
    """
    if not hasattr(model, "peft_config"):
        return 0
    from peft.tuners.lora import Linear

    plain = [(name, one) for name, one in model.named_modules() if type(one) is Linear and _is_plain(one)]
    for name, layer in plain:
        parent, _, last = name.rpartition(".")
        (adapter,) = layer.active_adapters
        up = layer.lora_B[adapter].weight.detach().float() * layer.scaling[adapter]
        short = LowRankLinear(layer.base_layer, layer.lora_A[adapter].weight, up)
        setattr(model.get_submodule(parent), last, short.eval())
    return len(plain)


def _is_plain(layer: Any) -> bool:
    base, active = layer.base_layer, layer.active_adapters
    if type(base) is not nn.Linear or base.weight.dtype not in (torch.float32, torch.bfloat16):
        return False
    if len(active) != 1 or active[0] not in layer.lora_A or layer.merged or layer.disable_adapters:
        return False
    return not (layer.lora_variant.get(active[0]) or layer.lora_bias[active[0]] or layer.fan_in_fan_out)
