"""Keys and values of a prompt prefix, computed once and handed to every row that starts with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer


@dataclass(frozen=True, slots=True)
class PrefixStates:
    """The attention states of some prefixes of equal length.

    Attributes:
        keys, values: one tensor a layer, (prefixes, heads, prefix_len, head_dim).
    """

    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]

    @classmethod
    def of(cls, cache: Any) -> PrefixStates:
        """Take the states out of what a forward pass returned as its cache."""
        return cls(tuple(layer.keys for layer in cache.layers), tuple(layer.values for layer in cache.layers))

    @property
    def length(self) -> int:
        return self.keys[0].shape[-2]

    def for_rows(self, rows: Sequence[int], room: int) -> Cache:
        """Return a cache for a batch whose row i goes on after prefix `rows[i]`, with room for `room` more tokens."""
        index = torch.tensor(rows, device=self.keys[0].device)
        states = zip(self.keys, self.values, strict=True)
        return Cache(layers=[_RoomyLayer(keys, values, index, room) for keys, values in states])


class _RoomyLayer(DynamicLayer):
    """A cache layer that writes new tokens into space set aside for them.

    transformers' own dynamic layer copies all it has for every token, and its static one lets each token attend to
    the whole space.
    """

    def __init__(self, keys: Tensor, values: Tensor, index: Tensor, room: int) -> None:
        super().__init__()
        self.length = keys.shape[-2]
        self._keys, self._values = (_with_room(states, index, room) for states in (keys, values))
        self.device, self.dtype = keys.device, keys.dtype
        self.is_initialized = True
        self._show()

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        end = self.length + key_states.shape[-2]
        self._keys[:, :, self.length : end] = key_states
        self._values[:, :, self.length : end] = value_states
        self.length = end
        self._show()
        return self.keys, self.values

    def _show(self) -> None:
        self.keys = self._keys[:, :, : self.length]  # (batch, heads, seen, head_dim), a view
        self.values = self._values[:, :, : self.length]


def _with_room(states: Tensor, index: Tensor, room: int) -> Tensor:
    _, heads, length, head_dim = states.shape
    space = states.new_empty(index.numel(), heads, length + room, head_dim)
    space[:, :, :length] = states[index]
    return space
