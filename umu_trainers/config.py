"""Every setting of the two training scripts, with its unit and its source.

A YAML file (`--config FILE`) gives settings by name, flags override it, and what neither names keeps the default here.
All settings of TRL's `SFTConfig` (and so of transformers' `TrainingArguments`) apply too: learning rate, epochs, batch
size, saving, logging …
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import os
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeVar, get_type_hints

import torch
from trl import SFTConfig, TrlParser

from umu_tasks.backend.prompting import PROMPT_STYLES
from umu_tasks.benchmarks.sources import VARIABLES, row_parser
from umu_tasks.benchmarks.splits import FORGET_RATIOS, retain_split
from umu_trainers import objectives
from umu_trainers.early import read_configs, split_configs
from umu_trainers.model import PARTS, QUANTIZATIONS
from umu_trainers.outputs import AVERAGES
from umu_trainers.stored import check_served

Half = Literal["uni", "mul"]
# Unimodal before multimodal wherever both are run: with unused parameters DDP goes by the last pass, which must be the
# one that uses the most of the model.
HALVES: dict[str, tuple[Half, ...]] = {"mix": ("uni", "mul"), "uni": ("uni",), "mul": ("mul",)}
LabelScope = Literal["answer", "all_text", "published"]
LABEL_SCOPES: tuple[LabelScope, ...] = ("answer", "all_text", "published")
RETAIN_MODALITIES = ("same", "mix")
PHASES = ("together", "sequential")
# Shown by --help with our own; the rest of TRL's and transformers' by --help_all.
OFTEN_USED = (
    "output_dir", "num_train_epochs", "max_steps", "per_device_train_batch_size", "gradient_accumulation_steps",
    "learning_rate", "lr_scheduler_type", "warmup_steps", "weight_decay", "max_grad_norm", "optim", "fp16", "use_cpu",
    "gradient_checkpointing", "seed", "logging_steps", "save_strategy", "save_steps", "save_total_limit",
    "train_sampling_strategy", "dataloader_num_workers", "disable_tqdm",
)  # fmt: skip
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
    lora_target_modules: list[str] | None = field(
        default=None,
        metadata={
            "help": "Last names of linear layers that get an adapter wherever they are, the vision tower included "
            "(published UMU-Bench and MLLMU-Bench scripts); takes the place of train and lora_modules. None: off."
        },
    )
    use_dora: bool = field(
        default=False, metadata={"help": "Weight-decomposed adapters (DoRA): the length of each column is trained too."}
    )
    quantization: str | None = field(
        default=None,
        metadata={
            "help": f"Hold the frozen weights in fewer bits under LoRA (QLoRA), one of: {', '.join(QUANTIZATIONS)}. "
            "Needs bitsandbytes. None: no."
        },
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
    benchmark: str = field(
        default="umu", metadata={"help": f"Whose people to train on, one of: {', '.join(VARIABLES)}."}
    )
    data: str | None = field(
        default=None,
        metadata={
            "help": "Benchmark data: hub id, folder, or `mini`. None: the variable UMU_DATA (MLLMU_DATA for mllmu), "
            "else the hub's data."
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
    label_scope: str = field(
        default="answer",
        metadata={
            "help": f"Tokens that count in the loss, one of: {', '.join(LABEL_SCOPES)}. answer: the answer and its end "
            "token; all_text: the question too, but no image token; published: the whole sequence, image tokens too."
        },
    )
    pixel_cache_mb: int = field(
        default=512, metadata={"help": "Memory for prepared portraits kept between steps, MiB a process."}
    )
    pack_by_profile: bool = field(
        default=False,
        metadata={
            "help": "Put a person's multimodal questions into one sequence behind one image. The same loss and "
            "gradients for the same rows, in less time and memory; but a person's rows then come together, which "
            "changes the order of an epoch. For the families that docs/training.md names."
        },
    )
    cache_image_features: bool = field(
        default=False,
        metadata={"help": "Compute what the frozen vision tower says about an image once, and keep it in memory."},
    )
    image_feature_cache_mb: int = field(
        default=2048,
        metadata={"help": "CPU memory for cache_image_features, MiB a process; LLaVA-1.5 takes about 1.2 an image."},
    )

    # ---- defaults of SFTConfig that differ here --------------------------------------------------------------------
    max_length: int | None = field(
        default=None,
        metadata={
            "help": "Longest row allowed, in tokens, image tokens included. Nothing is ever cut: longer rows are left "
            "out and listed; shorter than an image is an error. None: no limit (published)."
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
    _in_output_dir: ClassVar[tuple[str, ...]] = ()  # settings that may stand in output_dir as {name}

    def __post_init__(self) -> None:
        # So that one file can serve all methods of a model, and all splits.
        for name in self._in_output_dir:
            value = getattr(self, name)
            text = f"{value:02d}" if isinstance(value, int) else str(value)
            filled = str(vars(self)["output_dir"] or "").replace(f"{{{name}}}", text) or None
            object.__setattr__(self, "output_dir", filled)
        # A YAML file may name one part without brackets.
        self.train = _as_list(self.train)
        self.lora_modules = _as_list(self.lora_modules) if self.lora_modules else None
        self.lora_target_modules = _as_list(self.lora_target_modules) if self.lora_target_modules else None
        self._set_up_deepspeed_on_cpu()
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
            self.ddp_find_unused_parameters = "vision_tower" in self.train or self.lora_target_modules is not None
        if not torch.cuda.is_available():
            self.dataloader_pin_memory = False
        super().__post_init__()
        if self.n_gpu > 1:
            self._n_gpu = 1  # one process uses one GPU; several GPUs take several processes
        self._check()

    @property
    def halves(self) -> tuple[Half, ...]:
        """The halves of the data that are trained on, unimodal first."""
        return HALVES[self.modality]

    @property
    def weights_dtype(self) -> str:
        """Type the weights are held in."""
        return self.dtype or ("bfloat16" if self.use_lora and self.bf16 else "float32")

    def _set_up_deepspeed_on_cpu(self) -> None:
        """Start DeepSpeed's processes on a CPU, which accelerate does for GPUs alone.

        Raises:
            ValueError: DeepSpeed was asked for, and a CPU, but not DeepSpeed's CPU code.
        """
        if os.environ.get("ACCELERATE_USE_DEEPSPEED") != "true":
            return
        if os.environ.get("DS_ACCELERATOR") == "cpu":
            self.use_cpu, self.ddp_backend, self.optim = False, "gloo", "adamw_torch"
        elif self.use_cpu:
            raise ValueError(
                "--use_cpu with DeepSpeed: set the variable DS_ACCELERATOR=cpu to try it on a CPU, or take use_cpu out."
            )

    def _check(self) -> None:
        check_choice("modality", self.modality, HALVES)
        check_choice("benchmark", self.benchmark, VARIABLES)
        if self.quantization is not None:
            check_choice("quantization", self.quantization, QUANTIZATIONS)
        if not self.use_lora:
            for name in ("quantization", "use_dora", "lora_target_modules"):
                if getattr(self, name):
                    raise ValueError(f"--{name}: for adapters only. Set use_lora: true, or leave it out.")
        check_choice("lora_init", self.lora_init, LORA_INITS)
        check_choice("label_scope", self.label_scope, LABEL_SCOPES)
        for part in self.train:
            check_choice("train", part, PARTS)
        if not self.train:
            raise ValueError(f"--train: nothing to train. Choose from: {', '.join(PARTS)}.")
        if self.dtype is not None:
            check_choice("dtype", self.dtype, DTYPES)
        self._check_speed()
        if self.prompt is not None:
            check_choice("prompt", self.prompt, PROMPT_STYLES)
        if self.modality == "uni" and self.train != ["language_model"]:
            raise ValueError(f"--modality uni: no image is shown, so {', '.join(self.train)} cannot all be trained.")
        for name, allowed in {**_FIXED, "train_sampling_strategy": self._sampling}.items():
            value = getattr(self, name)
            if value not in allowed:
                raise ValueError(f"--{name} {value}: not supported for these rows. Leave it at {allowed[0]}.")

    def _check_speed(self) -> None:
        if self.pack_by_profile and self.label_scope == "published":
            raise ValueError(
                "--pack_by_profile with label_scope published: that scope counts each row's own padding and image "
                "tokens, which packed rows do not have. Leave pack_by_profile off."
            )
        if self.pack_by_profile and self.train_sampling_strategy == "group_by_length":
            raise ValueError(
                "--pack_by_profile with train_sampling_strategy group_by_length: rows are grouped by person or by "
                "length. Leave one of the two out."
            )
        if self.cache_image_features and self.lora_target_modules is not None:
            raise ValueError(
                "--cache_image_features with lora_target_modules, which may reach the vision tower: its features would "
                "change. Leave one of the two out."
            )
        if self.image_feature_cache_mb < 1:
            raise ValueError(f"--image_feature_cache_mb {self.image_feature_cache_mb}: 1 MiB or more is expected.")


@dataclass
class SFTArguments(CommonArguments):
    """Settings of `sft.py`."""

    _sampling: ClassVar[tuple[str, ...]] = ("random", "group_by_length")
    _in_output_dir: ClassVar[tuple[str, ...]] = ("split",)

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
    attach_image: bool = field(
        default=False,
        metadata={
            "help": "Show the person's image with unimodal questions too (published export); no row is then without."
        },
    )

    @property
    def halves(self) -> tuple[Half, ...]:
        return ("mul",) if self.attach_image else super().halves

    def _check(self) -> None:
        super()._check()
        if self.attach_image and self.modality != "mix":
            raise ValueError(
                f"--attach_image with --modality {self.modality}: it is for training on both kinds of questions. Leave "
                "modality at mix."
            )
        rows = row_parser(self.benchmark)
        split = rows.resolve_split(self.split)
        if split is None:
            raise ValueError(
                f"--split {self.split}: {rows.BENCHMARK} has {', '.join(rows.SPLITS)}. Choose one of these."
            )
        self.split = split
        if not 0 <= self.replay_real <= 1:
            raise ValueError(f"--replay_real {self.replay_real}: a fraction from 0 to 1 is expected.")


@dataclass
class UnlearnArguments(CommonArguments):
    """Settings of `unlearn.py`."""

    _VALID_DICT_FIELDS: ClassVar[list[str]] = [*SFTConfig._VALID_DICT_FIELDS, "method_kwargs"]
    _in_output_dir: ClassVar[tuple[str, ...]] = ("method", "modality", "forget_ratio")

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
    npo_beta: float | None = field(
        default=None, metadata={"help": "NPO's inverse temperature, above 0. None: the method's default."}
    )
    retain_modality: str = field(
        default="same",
        metadata={
            "help": "Retain rows beside the forget rows of one modality, one of: same (of that modality), mix (one of "
            "each modality). With --modality mix both are there anyway."
        },
    )
    retain_subset: bool = field(
        default=False,
        metadata={
            "help": "Draw the retain rows, once and with seed 42, from all of the retain set: about as many as forget "
            "rows (published GD, KL, PO). Else each epoch draws anew from the whole set."
        },
    )
    phases: str = field(
        default="together",
        metadata={
            "help": "together: forget and retain rows in one step; sequential: each epoch a whole pass over the forget "
            "set, then one over the retain set (published GD of MLLMU-Bench)."
        },
    )
    nll_average: str = field(
        default="rows",
        metadata={
            "help": "rows: each row's own mean over its tokens, then the mean of the rows; tokens: all tokens of a "
            "batch alike (published), so that a row's weight depends on its batch mates."
        },
    )
    clip_multimodal: float | None = field(
        default=None,
        metadata={
            "help": "Clip the multimodal loss's gradient to this norm before the unimodal loss's is added unclipped "
            "(published NPO: 1.0, with max_grad_norm 0). One process, no accumulation. None: no."
        },
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
    reference_model: str | None = field(
        default=None,
        metadata={
            "help": "Model that methods with a reference compare with, given like model; it is held beside the trained "
            "one. None: the model before unlearning, which LoRA has without a second copy."
        },
    )
    precompute_reference: bool = field(
        default=False,
        metadata={
            "help": "Compute the reference's log-probabilities once, before training, and keep them in "
            "OUTPUT_DIR/reference. For methods that need no more of it (npo, dpo)."
        },
    )
    score_every: int = field(
        default=0,
        metadata={
            "help": "Score a sample of forget and retain questions every so many steps, and at the start, and keep the "
            "best scored step as the result. 0: never."
        },
    )
    score_sample: int = field(
        default=64, metadata={"help": "Questions scored of each of the two sets, both modalities together."}
    )
    retain_floor: float | None = field(
        default=None,
        metadata={
            "help": "End training once the scored retain accuracy, a fraction, is below this; with score_every. None: "
            "no floor."
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
        check_choice("retain_modality", self.retain_modality, RETAIN_MODALITIES)
        check_choice("phases", self.phases, PHASES)
        check_choice("nll_average", self.nll_average, AVERAGES)
        self._check_method(self.objective())
        self._check_scoring()

    def _check_scoring(self) -> None:
        if self.score_every and self.benchmark != "umu":
            raise ValueError(
                f"--score_every {self.score_every} with --benchmark {self.benchmark}: scoring while training asks "
                "UMU-Bench's questions only. Leave it at 0 and score the saved model."
            )
        if self.score_every < 0 or self.score_sample < 1:
            raise ValueError(
                f"--score_every {self.score_every} --score_sample {self.score_sample}: steps from 0 and questions from "
                "1 are expected."
            )
        if self.retain_floor is not None and not (self.score_every and 0 <= self.retain_floor <= 1):
            raise ValueError(
                f"--retain_floor {self.retain_floor}: a fraction from 0 to 1 is expected, together with score_every "
                "(steps between two scorings)."
            )

    def _check_method(self, objective: objectives.Objective) -> None:
        for name in ("reference_model", "precompute_reference"):
            if getattr(self, name) and not objective.uses_reference:
                raise ValueError(f"--{name}: method {self.method} compares with no reference model. Leave it out.")
        if self.precompute_reference:
            check_served(objective)
        if self.pack_by_profile and objective.settings.get("published_form"):
            raise ValueError(
                "--pack_by_profile with published_form: the published forms average over the columns of a padded "
                "batch. Leave pack_by_profile off."
            )
        if self.phases == "sequential" and not (objective.in_phases and objective.uses_retain):
            raise ValueError(
                f"--phases sequential: method {self.method} needs forget and retain rows in one step. Use gd with a "
                "gamma above 0, or leave phases at together."
            )
        if self.max_forget_loss is not None and "forget" not in objective.passes:
            raise ValueError(f"--max_forget_loss: method {self.method} never computes the forget loss. Leave it out.")
        if self.clip_multimodal is not None and (
            self.modality != "mix" or self.world_size > 1 or self.gradient_accumulation_steps > 1
        ):
            raise ValueError(
                "--clip_multimodal: for --modality mix, one process and gradient_accumulation_steps 1 only. Use "
                "max_grad_norm instead."
            )

    def objective(self) -> objectives.Objective:
        """Return the method's loss function with its settings."""
        kwargs = self.method_kwargs
        if isinstance(kwargs, str):
            raise ValueError(f"method_kwargs: a mapping of names to values is expected, found {kwargs!r}.")
        own = dict(kwargs or {})
        if self.npo_beta is not None:
            own["npo_beta"] = self.npo_beta
        return objectives.find(self.method, gamma=self.gamma, method_kwargs=own)

    @property
    def retain_halves(self) -> tuple[Half, ...]:
        """The halves of the retain set that are trained on, unimodal first."""
        return HALVES["mix"] if self.retain_modality == "mix" else self.halves

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

    shows_all = False  # whether the help lists the settings that are rarely needed

    def _add_dataclass_arguments(self, dtype: Any) -> None:
        inherited = {one.name for one in dataclasses.fields(SFTConfig)}
        hints = get_type_hints(dtype)
        fields = {one.name: one for one in dataclasses.fields(dtype)}
        shared = CommonArguments.__annotations__
        groups = {
            "this script's settings": [name for name in fields if name not in {*inherited, *shared}],
            "settings of both scripts": [name for name in fields if name in shared],
            "often used settings of transformers": [name for name in OFTEN_USED if name not in shared],
        }
        named = {name for names in groups.values() for name in names}
        groups["all other settings of TRL and transformers"] = [name for name in fields if name not in named]
        for title, names in groups.items():
            group = self.add_argument_group(title)
            is_shown = self.shows_all or not title.startswith("all other")
            for name in names:
                fields[name].type = hints[name]
                if is_shown:
                    self._parse_dataclass_field(group, fields[name])
                else:
                    self._parse_dataclass_field(group, _without_help(fields[name]))


def _without_help(one: Any) -> Any:
    """Return a field that the parser takes and the help leaves out."""
    quiet = copy.copy(one)
    quiet.metadata = {**one.metadata, "help": argparse.SUPPRESS}
    return quiet


def parse(arguments: type[Arguments], description: str, argv: Sequence[str] | None = None) -> Arguments:
    """Return the settings from `--config FILE …` and the flags of `argv` (None: the process's).

    Of several files a later one wins, and a flag wins over all of them.
    """
    # TRL's own default; the new name does not exist yet in all versions we support.
    warnings.filterwarnings("ignore", message="`gradient_checkpointing` is deprecated", category=FutureWarning)
    files, rest = split_configs(sys.argv[1:] if argv is None else argv)
    ArgumentParser.shows_all = "--help_all" in rest
    parser = ArgumentParser(
        arguments,
        usage="%(prog)s --config FILE.yaml [FILE.yaml ...] [--SETTING VALUE ...]",  # all settings would be 150 lines
        description=f"{description} Settings come from --config FILE.yaml … (a later file wins) and from the flags "
        "below (a flag wins over the files).",
        allow_abbrev=False,  # a misspelt flag must not be taken for another one
    )
    parser.add_argument("--help_all", action="help", help="show all settings, those of TRL and transformers too")
    parser.set_defaults_with_config(**read_configs(files, {one.name for one in dataclasses.fields(arguments)}))
    (parsed,) = parser.parse_args_into_dataclasses(rest)
    return parsed
