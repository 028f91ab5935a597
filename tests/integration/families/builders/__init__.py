"""Tiny random checkpoints of every family that `umu_hf` is tested with; one entry here is one run of the test file."""

from __future__ import annotations

from builders.idefics import IDEFICS2, IDEFICS3, SMOLVLM
from builders.llava import LLAVA, LLAVA_NEXT, LLAVA_ONEVISION
from builders.others import GEMMA3, INTERNVL, MLLAMA
from builders.parts import Family
from builders.qwen import QWEN2_5_VL, QWEN2_VL, QWEN3_VL

FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        LLAVA,
        LLAVA_NEXT,
        LLAVA_ONEVISION,
        QWEN2_VL,
        QWEN2_5_VL,
        QWEN3_VL,
        IDEFICS2,
        IDEFICS3,
        SMOLVLM,
        INTERNVL,
        GEMMA3,
        MLLAMA,
    )
}
