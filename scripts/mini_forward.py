"""The small LLaVA's forward pass written out: the same numbers as transformers' modules, many fewer kernels.

Pre-training a model this small is bound by launching kernels. This pass has no attention mask (padding is on the right,
attention is causal), no synchronization with the GPU, and one product for each projection.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # torch's own habit
from transformers import LlavaForConditionalGeneration


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch on the device.

    Attributes:
        ids: (batch, length) token ids, right-padded.
        shown: (n,) the rows that show an image; their image tokens start at position `image_start`.
        pixels: (n, 3, side, side).
        predicting: (answer tokens,) flat positions in (batch * length) whose next token belongs to an answer.
        targets: (answer tokens,) those next tokens.
    """

    ids: Tensor
    shown: Tensor
    pixels: Tensor
    predicting: Tensor
    targets: Tensor
    image_start: int


def answer_loss(model: LlavaForConditionalGeneration, batch: Batch) -> Tensor:
    """Return the mean cross-entropy over the answer tokens, nats a token."""
    decoder = model.model.language_model
    hidden = decoder.embed_tokens(batch.ids)  # (batch, length, hidden)
    if len(batch.shown):
        features = model.model.multi_modal_projector(_see(model.model.vision_tower, batch.pixels)).to(hidden.dtype)
        columns = torch.arange(batch.image_start, batch.image_start + features.shape[1], device=hidden.device)
        hidden = hidden.index_put((batch.shown[:, None], columns[None]), features)
    hidden = _read(decoder, hidden).flatten(0, 1)[batch.predicting]
    return F.cross_entropy(F.linear(hidden, decoder.embed_tokens.weight).float(), batch.targets)


def _see(tower: Any, pixels: Tensor) -> Tensor:
    """Return the vision tower's last hidden states without the class token's, (n, patches, width)."""
    tower = getattr(tower, "vision_model", tower)
    embeddings = tower.embeddings
    patches = embeddings.patch_embedding(pixels).flatten(2).transpose(1, 2)
    first = embeddings.class_embedding.to(patches.dtype).expand(len(patches), 1, -1)
    hidden = torch.cat([first, patches], dim=1) + embeddings.position_embedding.weight
    hidden = tower.pre_layrnorm(hidden)
    for layer in tower.encoder.layers:
        attention = layer.self_attn
        hidden = hidden + _attend(attention, layer.layer_norm1(hidden), attention.out_proj, None)
        wide = layer.mlp.fc1(layer.layer_norm2(hidden))
        hidden = hidden + layer.mlp.fc2(layer.mlp.activation_fn(wide))
    return hidden[:, 1:]


def _read(decoder: Any, hidden: Tensor) -> Tensor:
    """Return the decoder's hidden states after its last norm, (batch, length, hidden)."""
    positions = torch.arange(hidden.shape[1], device=hidden.device)[None]
    cos, sin = decoder.rotary_emb(hidden, positions)  # (1, length, head width) each
    rotation = (cos[:, None], sin[:, None])
    for layer in decoder.layers:
        attention, mlp = layer.self_attn, layer.mlp
        hidden = hidden + _attend(attention, _norm(layer.input_layernorm, hidden), attention.o_proj, rotation)
        wide = _norm(layer.post_attention_layernorm, hidden)
        hidden = hidden + mlp.down_proj(F.silu(mlp.gate_proj(wide)) * mlp.up_proj(wide))
    return _norm(decoder.norm, hidden)


def _norm(norm: Any, hidden: Tensor) -> Tensor:
    return F.rms_norm(hidden, (hidden.shape[-1],), norm.weight, norm.variance_epsilon)


def _attend(attention: Any, hidden: Tensor, out: Any, rotation: tuple[Tensor, Tensor] | None) -> Tensor:
    shape = (*hidden.shape[:2], -1, attention.head_dim)
    query, key, value = (
        project(hidden).view(shape).transpose(1, 2)
        for project in (attention.q_proj, attention.k_proj, attention.v_proj)
    )  # (batch, heads, length, head width) each
    if rotation is not None:
        query, key = _rotate(query, *rotation), _rotate(key, *rotation)
    mixed = F.scaled_dot_product_attention(query, key, value, is_causal=rotation is not None)
    return out(mixed.transpose(1, 2).flatten(2))


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    one, other = x.chunk(2, dim=-1)
    return (x * cos + torch.cat([-other, one], dim=-1) * sin).to(x.dtype)
