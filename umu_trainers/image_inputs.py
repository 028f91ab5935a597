"""What a processor makes of images, of one row or of several."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

ImageInputs = dict[str, Tensor]


def concatenate(rows: Sequence[ImageInputs]) -> ImageInputs:
    """Join image inputs of rows along their first dimension, others padded with zeros to the largest."""
    return {name: _concatenate([row[name] for row in rows]) for name in rows[0]}


def _concatenate(values: Sequence[Tensor]) -> Tensor:
    largest = [max(sizes) for sizes in zip(*(value.shape[1:] for value in values), strict=True)]
    padded = []
    for value in values:
        missing = [large - size for large, size in zip(largest, value.shape[1:], strict=True)]
        padded.append(F.pad(value, [amount for one in reversed(missing) for amount in (0, one)]))
    return torch.cat(padded)
