"""The training steps of UMU-Bench's published scripts, restated: what `bench_train.py` compares with.

As there: the multimodal rows, then the unimodal ones, each forward and backward for itself; labels on the whole
sequence, padding left out; logits of all positions; adapters on every linear layer whose last name matches, the vision
tower's q, k and v among them; images through processor and tower in every step; a second full model as the reference of
KL and NPO.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from umu_tasks.backend.prompting import PromptBuilder
from umu_trainers.config import Half
from umu_trainers.data import Row

METHODS = ("ga", "gd", "kl", "po", "npo")
SUFFIXES = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
LORA_MODULES: dict[str, Sequence[str]] = {"gd": ("q_proj", "v_proj")}
"""Method -> last names of the layers that get an adapter, where not all."""
NPO_BETA = 0.4
HALVES: tuple[Half, ...] = ("mul", "uni")
Rows = dict[Half, list[Row]]


class PublishedStep:
    """One optimizer step of a method.

    Args:
        model: full model without adapter; gets one.
        reference: the second model, for KL and NPO.
        builder: its processor and frames.
        rows: role (`forget`, `retain`) -> half -> rows to draw from.
        refusals: answers for PO.
    """

    def __init__(
        self,
        method: str,
        model: Any,
        reference: Any,
        builder: PromptBuilder,
        rows: dict[str, Rows],
        refusals: Sequence[str],
        batch_size: int,
        *,
        checkpointing: bool,
    ) -> None:
        self.method, self.reference, self.builder = method, reference, builder
        self.rows, self.refusals, self.batch_size = rows, refusals, batch_size
        self.draw = random.Random(0)
        self.tokens = 0
        if checkpointing:
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        self.model = _with_adapter(method, model).train()
        self.optimizer = torch.optim.AdamW([one for one in self.model.parameters() if one.requires_grad], lr=1e-6)

    def __call__(self) -> None:
        self.tokens = 0
        for half in HALVES:
            self._backward(half)
        if self.method in ("gd", "kl"):
            self._clip()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def _clip(self) -> None:
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)

    def _backward(self, half: Half) -> None:
        if self.method == "npo" and half == "uni":
            self._clip()  # between the two, as published
        self._loss(half).backward()

    def _loss(self, half: Half) -> Tensor:
        forget = self._batch("forget", half)
        outputs = self.model(**forget)
        if self.method == "ga":
            return -outputs.loss
        if self.method == "npo":
            with torch.no_grad():
                before = self.reference(**forget).loss
            return -2 / NPO_BETA * F.logsigmoid(NPO_BETA * (outputs.loss - before))
        retain = self._batch("retain", half)
        held = self.model(**retain)
        if self.method == "kl":
            with torch.no_grad():
                reference = self.reference(**retain)
            return _cross_entropy(held.logits, reference.logits) - outputs.loss
        return held.loss + (outputs.loss if self.method == "po" else -outputs.loss)

    def _batch(self, role: str, half: Half) -> dict[str, Tensor]:
        """Draw rows and send them through the processor."""
        rows = self.draw.sample(self.rows[role][half], self.batch_size)
        texts = [self._text(row, role) for row in rows]
        images = {"images": [row.profile.open_image() for row in rows]} if half == "mul" else {}
        processor, device = self.builder.processor, self.model.device
        inputs = dict(processor(text=texts, padding=True, return_tensors="pt", **images).to(device, self.model.dtype))
        ids = inputs["input_ids"]
        self.tokens += ids.numel()
        return {**inputs, "labels": ids.masked_fill(inputs["attention_mask"] == 0, -100)}

    def _text(self, row: Row, role: str) -> str:
        pair = row.pair
        answer = self.draw.choice(self.refusals) if (self.method, role) == ("po", "forget") else pair.answer
        prompt = self.builder.training(pair.question, has_image=row.has_image)
        return prompt + self.builder.completion(pair.question, answer, has_image=row.has_image)


def _with_adapter(method: str, model: Any) -> Any:
    from peft import LoraConfig, get_peft_model

    targets = list(LORA_MODULES.get(method, SUFFIXES))
    config = LoraConfig(r=64, lora_alpha=32, lora_dropout=0.05, init_lora_weights="gaussian", target_modules=targets)
    adapted = get_peft_model(model, config)
    if getattr(model, "is_gradient_checkpointing", False):
        adapted.enable_input_require_grads()
    return adapted


def _cross_entropy(current: Tensor, reference: Tensor) -> Tensor:
    """Return the published "KL": over all positions, from probabilities."""
    return -(current.softmax(-1) * torch.log(reference.softmax(-1) + 1e-12)).sum(-1).mean()
