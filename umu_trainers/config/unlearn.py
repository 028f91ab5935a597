"""Settings of `unlearn.py`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from trl import SFTConfig

from umu_tasks.benchmarks.splits import FORGET_RATIOS, retain_split
from umu_trainers import objectives
from umu_trainers.config.choices import HALVES, Half
from umu_trainers.config.common import CommonArguments
from umu_trainers.config.unlearn_checks import check_unlearning


@dataclass
class UnlearnArguments(CommonArguments):
    """Settings of `unlearn.py`."""

    examples: ClassVar[str] = """\
examples:
  a first run on a laptop, after `umu_trainers/sft.py --config configs/sft/mini.yaml`:
    accelerate launch umu_trainers/unlearn.py --config configs/unlearn/mini/gd.yaml
  NPO on LLaVA-1.5-7B, the 10 % forget set, text questions only:
    accelerate launch umu_trainers/unlearn.py --config configs/unlearn/npo.yaml --forget_ratio 10 --modality uni
  the same on another model; a setting that only this method has:
    accelerate launch umu_trainers/unlearn.py --config configs/unlearn/npo.yaml configs/models/qwen2.5-vl-7b.yaml
    accelerate launch umu_trainers/unlearn.py --config configs/unlearn/wga.yaml --method_kwargs '{"wga_alpha": 2.0}'
  on after a crash:
    accelerate launch umu_trainers/unlearn.py --config configs/unlearn/gd.yaml --resume_from_checkpoint last
docs/objectives.md has the methods, docs/training.md the settings, docs/multi-gpu.md several GPUs."""

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
        check_unlearning(self)

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
