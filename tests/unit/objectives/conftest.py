"""Outputs with chosen answer probabilities: objectives see a model's logits and nothing else of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest
import torch

from umu_trainers.outputs import IGNORED, Outputs

Build = Callable[[Sequence[Sequence[float]]], Outputs]


@pytest.fixture
def outputs() -> Build:
    """Build outputs from rows of answer-token probabilities; the other 4 tokens of the vocabulary share the rest."""

    def build(rows: Sequence[Sequence[float]]) -> Outputs:
        kept = max(map(len, rows))
        logits = torch.zeros(len(rows), kept, 5)
        labels = torch.full((len(rows), kept), IGNORED)
        for row, probabilities in enumerate(rows):
            for column, probability in enumerate(probabilities):
                logits[row, column] = math.log((1 - probability) / 4)
                logits[row, column, 2] = math.log(probability)
                labels[row, column] = 2
        return Outputs.from_logits(logits.requires_grad_(), labels)

    return build
