"""Every setting of the two training scripts, with its unit and its source.

A YAML file (`--config FILE`) gives settings by name, flags override it, and what neither names keeps the default here.
All settings of TRL's `SFTConfig` (and so of transformers' `TrainingArguments`) apply too: learning rate, epochs, batch
size, saving, logging …
"""

from __future__ import annotations

import dataclasses
import itertools
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar, get_type_hints

import torch
from trl import SFTConfig, TrlParser

from umu_tasks.backend.prompting import PROMPT_STYLES
from umu_tasks.benchmarks.splits import FORGET_RATIOS, SPLITS, resolve_split, retain_split
from umu_trainers import objectives
from umu_trainers.model import PARTS

Half = Literal["uni", "mul"]
# Unimodal before multimodal wherever both are run: with unused parameters DDP goes by the last pass, which must be the
# one that uses the most of the model.
HALVES: dict[str, tuple[Half, ...]] = {"mix": ("uni", "mul"), "uni": ("uni",), "mul": ("mul",)}
LORA_INITS = ("gaussian", "default")
DTYPES = ("float32", "bfloat16", "float16")

# Settings of SFTConfig that would change what is trained on and that our rows do not support: setting -> allowed
# values.
_FIXED: dict[str, tuple[Any, ...]] = {
    "packing": (False,),
    "padding_free": (False,),
    "assistant_only_loss": (False,),
    "completion_only_loss": (None, True),
    "loss_type": ("nll",),
    "label_smoothing_factor": (0, 0.0),
    "chat_template_path": (None,),
    "eos_token": (None,),
    "model_init_kwargs": (None,),
    "dataloader_drop_last": (False,),
    "load_best_model_at_end": (False,),
    "auto_find_batch_size": (False,),
    "truncation_mode": ("keep_start",),
}


@dataclass
class CommonArguments(SFTConfig):
    """Settings that SFT and unlearning share."""

    # ---- what is trained -------------------------------------------------------------------------------------------
    model: str = field(
        default="llava-hf/llava-1.5-7b-hf",
        metadata={
            "help": "Where training starts: a hub id, a checkpoint folder, an adapter folder (its adapter is trained "
            "on), or `mini` for the packaged UMU-mini base model."
        },
    )
    train: list[str] = field(
        default_factory=lambda: ["language_model"],
        metadata={"help": f"Parts of the model to train, any of: {', '.join(PARTS)}. All else stays frozen."},
    )
    use_lora: bool = field(
        default=True, metadata={"help": "Train LoRA adapters on the linear layers of the parts; false: all weights."}
    )
    lora_r: int = field(default=64, metadata={"help": "LoRA rank. 64: published UMU-Bench scripts."})
    lora_alpha: int = field(
        default=32, metadata={"help": "LoRA scale numerator; the update is scaled by alpha / r. 32: published."}
    )
    lora_dropout: float = field(
        default=0.05, metadata={"help": "Dropout before each adapter, a fraction. 0.05: published."}
    )
    lora_init: str = field(
        default="gaussian",
        metadata={"help": f"How adapters start, one of: {', '.join(LORA_INITS)}. gaussian: published."},
    )
    lora_modules: list[str] | None = field(
        default=None,
        metadata={"help": "Last names of the linear layers that get an adapter, such as q_proj v_proj. None: all."},
    )
    dtype: str | None = field(
        default=None,
        metadata={
            "help": f"Type the weights are held in, one of: {', '.join(DTYPES)}. None: bfloat16 for LoRA in bf16 "
            "(adapters stay float32), else float32, which full training needs for small learning rates."
        },
    )
    attn_implementation: str | None = field(
        default=None, metadata={"help": "Attention code, as transformers names it. None: its own choice."}
    )
    merge_adapter: bool = field(
        default=False,
        metadata={"help": "Write the base model with the adapter merged in, instead of the adapter alone."},
    )

    # ---- on what ---------------------------------------------------------------------------------------------------
    data: str | None = field(
        default=None,
        metadata={
            "help": "Benchmark data: hub id, folder, or `mini`. None: the variable UMU_DATA, else the hub's data."
        },
    )
    modality: str = field(
        default="mix",
        metadata={"help": f"Rows to train on, one of: {', '.join(HALVES)} (both, text only, image and text only)."},
    )
    prompt: str | None = field(
        default=None,
        metadata={
            "help": f"Prompt style, one of: {', '.join(PROMPT_STYLES)}. None: published for LLaVA-1.5, chat for "
            "others. Evaluate with the same."
        },
    )
    pixel_cache_mb: int = field(
        default=512, metadata={"help": "Memory for prepared portraits kept between steps, MiB a process."}
    )

    # ---- defaults of SFTConfig that differ here --------------------------------------------------------------------
    max_length: int | None = field(
        default=None,
        metadata={
            "help": "Longest row allowed, in tokens, image tokens included. Nothing is ever cut: a longer row is an "
            "error at the start. None: no limit (published)."
        },
    )
    # The argument parser reads the second member, so the order counts.
    report_to: None | str | list[str] = field(  # noqa: RUF036
        default="tensorboard", metadata={"help": "Where losses are logged; tensorboard writes to OUTPUT_DIR/runs."}
    )
    bf16: bool | None = field(
        default=None, metadata={"help": "bfloat16 mixed precision. None: on a GPU unless fp16 is set, never on a CPU."}
    )
    resume_from_checkpoint: str | None = field(
        default=None,
        metadata={
            "help": "Go on from a checkpoint folder, or `last`: the newest complete one in OUTPUT_DIR (from the start "
            "if there is none)."
        },
    )

    _sampling: ClassVar[tuple[str, ...]] = ("random",)

    def __post_init__(self) -> None:
        # A YAML file may name one part without brackets.
        self.train = _as_list(self.train)
        self.lora_modules = _as_list(self.lora_modules) if self.lora_modules else None
        if self.bf16 is None and not self.fp16:
            self.bf16 = (
                torch.cuda.is_available() and not self.use_cpu
            )  # a CPU without bf16 units is many times slower in it
        self.dataset_kwargs = {"skip_prepare_dataset": True}  # rows come ready from our own plan and collator
        # Rotary buffers would be overwritten between the passes of one step; they are equal on all processes anyway.
        self.ddp_broadcast_buffers = False
        self.remove_unused_columns = False
        self.logging_nan_inf_filter = False  # non-finite losses stop the run; they are not to be smoothed over
        if vars(self)["ddp_find_unused_parameters"] is None:
            # A CLIP tower's last layer is not used by LLaVA; the language model and the projector are used whole.
            self.ddp_find_unused_parameters = "vision_tower" in self.train
        if not torch.cuda.is_available():
            self.dataloader_pin_memory = False
        super().__post_init__()
        self._check()

    @property
    def halves(self) -> tuple[Half, ...]:
        """The halves of the data that are trained on, unimodal first."""
        return HALVES[self.modality]

    def _check(self) -> None:
        check_choice("modality", self.modality, HALVES)
        check_choice("lora_init", self.lora_init, LORA_INITS)
        for part in self.train:
            check_choice("train", part, PARTS)
        if not self.train:
            raise ValueError(f"--train: nothing to train. Choose from: {', '.join(PARTS)}.")
        if self.dtype is not None:
            check_choice("dtype", self.dtype, DTYPES)
        if self.prompt is not None:
            check_choice("prompt", self.prompt, PROMPT_STYLES)
        if self.modality == "uni" and self.train != ["language_model"]:
            raise ValueError(f"--modality uni: no image is shown, so {', '.join(self.train)} cannot all be trained.")
        for name, allowed in {**_FIXED, "train_sampling_strategy": self._sampling}.items():
            value = getattr(self, name)
            if value not in allowed:
                raise ValueError(f"--{name} {value}: not supported for these rows. Leave it at {allowed[0]}.")


@dataclass
class SFTArguments(CommonArguments):
    """Settings of `sft.py`."""

    _sampling: ClassVar[tuple[str, ...]] = ("random", "group_by_length")

    split: str = field(
        default="full",
        metadata={"help": "People to learn: full, or retain95 (retain90, retain85) for a retain-only model."},
    )
    replay_real: float = field(
        default=0.0,
        metadata={
            "help": "Rows of real people added to each epoch so that they are not forgotten, as a fraction of all "
            "their rows; drawn anew each epoch. 0: none (published)."
        },
    )

    def _check(self) -> None:
        super()._check()
        split = resolve_split(self.split)
        if split is None:
            raise ValueError(f"--split {self.split}: UMU-Bench has {', '.join(SPLITS)}. Choose one of these.")
        self.split = split
        if not 0 <= self.replay_real <= 1:
            raise ValueError(f"--replay_real {self.replay_real}: a fraction from 0 to 1 is expected.")


@dataclass
class UnlearnArguments(CommonArguments):
    """Settings of `unlearn.py`."""

    _VALID_DICT_FIELDS: ClassVar[list[str]] = [*SFTConfig._VALID_DICT_FIELDS, "method_kwargs"]

    method: str = field(
        default="gd", metadata={"help": f"Unlearning method, one of: {', '.join(objectives.available())}."}
    )
    forget_ratio: int = field(
        default=5,
        metadata={
            "help": f"Forget set, in percent of the fictitious people, one of: {', '.join(map(str, FORGET_RATIOS))}. "
            "The rest of them is the retain set."
        },
    )
    alpha: float = field(
        default=1.0,
        metadata={
            "help": "Weight of the multimodal loss (the paper's letter; the published scripts use it for the other)."
        },
    )
    beta: float = field(default=1.0, metadata={"help": "Weight of the unimodal loss (the paper's letter)."})
    gamma: float | None = field(
        default=None, metadata={"help": "Weight of the retain term. None: the method's default."}
    )
    method_kwargs: dict[str, Any] | str | None = field(
        default=None, metadata={"help": "The method's own settings, checked against its function's keywords."}
    )
    max_forget_loss: float | None = field(
        default=None,
        metadata={
            "help": "Stop and save once the forget answers' negative log-likelihood, in nats per answer token and "
            "averaged over a step's rows, is above this. None: no bound."
        },
    )

    def _check(self) -> None:
        super()._check()
        if self.forget_ratio not in FORGET_RATIOS:
            raise ValueError(
                f"--forget_ratio {self.forget_ratio}: UMU-Bench has {', '.join(map(str, FORGET_RATIOS))}. "
                "Choose one of these."
            )
        for name in ("alpha", "beta", "gamma"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ValueError(f"--{name} {value}: a weight of 0 or more is expected; below 0 it would teach.")
        if not any(self.weights[half] for half in self.halves):
            raise ValueError(
                f"--alpha {self.alpha} --beta {self.beta}: with --modality {self.modality} nothing would be learned. "
                "Give the modality that is trained a weight above 0 (alpha: multimodal, beta: unimodal)."
            )
        self.objective()

    def objective(self) -> objectives.Objective:
        """Return the method's loss function with its settings."""
        kwargs = self.method_kwargs
        if isinstance(kwargs, str):
            raise ValueError(f"method_kwargs: a mapping of names to values is expected, found {kwargs!r}.")
        return objectives.find(self.method, gamma=self.gamma, method_kwargs=kwargs)

    @property
    def forget_split(self) -> str:
        return f"forget{self.forget_ratio:02d}"

    @property
    def retain_split(self) -> str:
        return retain_split(self.forget_split)

    @property
    def weights(self) -> dict[Half, float]:
        """Weight of each half's loss."""
        return {"mul": self.alpha, "uni": self.beta}


def check_choice(name: str, value: object, choices: Sequence[str] | dict[str, Any]) -> None:
    """Raise a ValueError that lists the choices if `value` is none of them."""
    if value not in choices:
        raise ValueError(f"--{name} {value}: choose one of {', '.join(choices)}.")


def _as_list(value: str | list[str]) -> list[str]:
    return value.split() if isinstance(value, str) else value


Arguments = TypeVar("Arguments", bound=CommonArguments)


class ArgumentParser(TrlParser):
    """TRL's parser (YAML + flags) with our own settings listed first in the help."""

    def _add_dataclass_arguments(self, dtype: Any) -> None:
        inherited = {one.name for one in dataclasses.fields(SFTConfig)}
        own = self.add_argument_group("UMU-Bench settings")
        other = self.add_argument_group("settings of TRL and transformers")
        hints = get_type_hints(dtype)

        def rank(name: str) -> int:
            """The script's own settings first, then those both scripts have, then those with another default here."""
            if name in CommonArguments.__annotations__:
                return 2 if name in inherited else 1
            return 3 if name in inherited else 0

        for one in sorted(dataclasses.fields(dtype), key=lambda one: rank(one.name)):
            one.type = hints[one.name]
            self._parse_dataclass_field(own if rank(one.name) < 3 else other, one)


def _require_config(argv: Sequence[str]) -> None:
    """Raise a ValueError that lists the configs beside the one asked for, if that is not there."""
    names = [after for flag, after in itertools.pairwise(argv) if flag == "--config"]
    names += [one.removeprefix("--config=") for one in argv if one.startswith("--config=")]
    for name in names:
        if not Path(name).is_file():
            there = ", ".join(sorted(file.name for file in Path(name).parent.glob("*.yaml"))) or "no YAML file"
            raise ValueError(f"--config {name}: no such file. In that folder: {there}.")


def parse(arguments: type[Arguments], description: str, argv: Sequence[str] | None = None) -> Arguments:
    """Return the settings from `--config FILE` and the flags of `argv` (None: the process's)."""
    # TRL's own default; the new name does not exist yet in all versions we support.
    warnings.filterwarnings("ignore", message="`gradient_checkpointing` is deprecated", category=FutureWarning)
    parser = ArgumentParser(
        arguments,
        description=f"{description} Settings come from --config FILE.yaml and from the flags below.",
        allow_abbrev=False,  # a misspelt flag must not be taken for another one
    )
    _require_config(sys.argv[1:] if argv is None else argv)
    (parsed,) = parser.parse_args_and_config(argv)
    return parsed
