"""Every setting of the two training scripts, with its unit and its source.

A YAML file (`--config FILE`) gives settings by name, flags override it, and what neither names keeps the default here.
All settings of TRL's `SFTConfig` (and so of transformers' `TrainingArguments`) apply too: learning rate, epochs, batch
size, saving, logging …

`common`, `sft` and `unlearn` have the settings with their defaults, the `…checks` what may stand in them together,
`choices` the values of those that are one of a few, `parser` the files and the flags, `help` the help.
"""

from umu_trainers.config.choices import (
    DTYPES,
    HALVES,
    LABEL_SCOPES,
    LORA_INITS,
    PHASES,
    RETAIN_MODALITIES,
    Half,
    LabelScope,
    check_choice,
)
from umu_trainers.config.common import CommonArguments
from umu_trainers.config.parser import ArgumentParser, Arguments, parse
from umu_trainers.config.sft import SFTArguments
from umu_trainers.config.unlearn import UnlearnArguments

__all__ = [
    "DTYPES",
    "HALVES",
    "LABEL_SCOPES",
    "LORA_INITS",
    "PHASES",
    "RETAIN_MODALITIES",
    "ArgumentParser",
    "Arguments",
    "CommonArguments",
    "Half",
    "LabelScope",
    "SFTArguments",
    "UnlearnArguments",
    "check_choice",
    "parse",
]
