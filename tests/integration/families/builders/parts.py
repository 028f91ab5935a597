"""What the tiny checkpoints of all families share: a tokenizer that knows every text, and weights far enough apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

TEXT = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
VISION = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}


@dataclass(frozen=True)
class Family:
    """A model family: how to build a tiny checkpoint of it, and what its prompts must look like.

    Attributes:
        name: `model_type` in the checkpoint's config.
        build: () -> model, processor.
        image_tokens: portrait's (width, height) -> how many image tokens it takes, worked out by hand in the builder.
        slot: what marks the image in the prompt's text.
        cue: what ends the prompt, where the assistant's turn starts.
        end: the token that ends the assistant's turn.
    """

    name: str
    build: Callable[[], tuple[Any, Any]]
    image_tokens: Mapping[tuple[int, int], int]
    slot: str
    cue: str
    end: str


def make_tokenizer(
    *,
    specials: Sequence[str],
    bos: str | None,
    eos: str,
    pad: str,
    adds_bos: bool = False,
    named: Mapping[str, str] | None = None,
) -> Any:
    """A byte-level tokenizer with a family's special tokens.

    Args:
        adds_bos: put the begin token before every text, as the tokenizers of Llama's kind do.
        named: special tokens the family's processor asks for by name (`image_token`, …).
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    tokens = list(dict.fromkeys([pad, *([bos] if bos else []), eos, *specials, *(named or {}).values()]))
    trainer = trainers.BpeTrainer(
        vocab_size=len(tokens) + 300,
        special_tokens=tokens,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator(["what is the answer to the question of the user in one sentence"], trainer)
    if adds_bos and bos:
        core.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", special_tokens=[(bos, core.token_to_id(bos))]
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        **({"bos_token": bos} if bos else {}),
        eos_token=eos,
        pad_token=pad,
        extra_special_tokens=dict(named or {}),
    )


def spread(model: Any, seed: int = 0) -> Any:
    """Give a model random weights so wide that its answers differ between prompts and between images."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        with torch.no_grad():
            if "gate" in name and parameter.numel() == 1:
                parameter.fill_(0.7)  # built as 0, which shuts the image out
            elif parameter.dim() > 1:
                parameter.normal_(0.0, 0.25, generator=generator)
    return model


def ids(tokenizer: Any) -> dict[str, int]:
    """Special tokens' ids, as a text model's config names them."""
    return {
        "vocab_size": len(tokenizer),
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
    }
