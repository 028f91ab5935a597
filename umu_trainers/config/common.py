"""Settings that SFT and unlearning share."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from trl import SFTConfig

from umu_tasks.backend.prompting import PROMPT_STYLES
from umu_tasks.benchmarks.names import BENCHMARKS
from umu_trainers.config.checks import check_common
from umu_trainers.config.choices import DTYPES, HALVES, LABEL_SCOPES, LORA_INITS, Half, as_list
from umu_trainers.model import PARTS, QUANTIZATIONS


@dataclass
class CommonArguments(SFTConfig):
    """Settings that SFT and unlearning share."""

    examples: ClassVar[str] = ""  # at the end of the help

    # ---- what is trained -------------------------------------------------------------------------------------------
    model: str = field(
        default="llava-hf/llava-1.5-7b-hf",
        metadata={
            "help": "Where training starts: a hub id, a checkpoint folder, an adapter folder (its adapter is trained "
            "on), or `mini` for the packaged UMU-mini base model."
        },
    )
    trust_remote_code: bool = field(  # TRL has this setting since 1.7 only
        default=False, metadata={"help": "Run Python code that comes with the model."}
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
        default="umu", metadata={"help": f"Whose people to train on, one of: {', '.join(BENCHMARKS)}."}
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
        self.train = as_list(self.train)
        self.lora_modules = as_list(self.lora_modules) if self.lora_modules else None
        self.lora_target_modules = as_list(self.lora_target_modules) if self.lora_target_modules else None
        self._set_up_deepspeed_on_cpu()
        if self.bf16 is None and not self.fp16:
            # A CPU without bf16 units is many times slower in it.
            self.bf16 = torch.cuda.is_available() and not self.use_cpu
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
        check_common(self, {"train_sampling_strategy": self._sampling})
