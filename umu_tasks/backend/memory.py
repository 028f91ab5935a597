"""How many questions fit into the memory at once."""

from __future__ import annotations

from typing import Any

import torch

CPU_ROWS = 16
MOST_ROWS = 256
_SHARE = 0.6  # of the free memory; the rest is for activations, logits and fragmentation
_COPIES = 1.5  # a batch holds its rows' attention states, and half as many images' states beside them


def fitting_rows(model: Any, tokens: int) -> int:
    """Return a batch size, a power of two, whose attention states fit into what is free on the model's device now.

    Args:
        tokens: length of a row: prompt with image, and answer.
    """
    if model.device.type != "cuda":
        return CPU_ROWS
    free, _ = torch.cuda.mem_get_info(model.device)
    rows = int(_SHARE * free / (_COPIES * tokens * state_bytes(model)))
    return max(1, min(MOST_ROWS, 1 << max(rows.bit_length() - 1, 0)))


def state_bytes(model: Any) -> int:
    """Return the bytes of attention states that one token takes in all layers."""
    config = model.config.get_text_config()
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return 2 * config.num_hidden_layers * heads * head_dim * model.dtype.itemsize
