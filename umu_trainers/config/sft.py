"""Settings of `sft.py`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from umu_tasks.benchmarks.sources import row_parser
from umu_trainers.config.choices import Half
from umu_trainers.config.common import CommonArguments


@dataclass
class SFTArguments(CommonArguments):
    """Settings of `sft.py`."""

    examples: ClassVar[str] = """\
examples:
  a target model on a laptop, in minutes:
    accelerate launch umu_trainers/sft.py --config configs/sft/mini.yaml
  LLaVA-1.5-7B on one GPU, then the same without the forget set:
    accelerate launch umu_trainers/sft.py --config configs/sft/llava-1.5-7b.yaml
    accelerate launch umu_trainers/sft.py --config configs/sft/llava-1.5-7b.yaml configs/sft/retain-only.yaml
docs/training.md explains the settings, docs/multi-gpu.md several GPUs."""
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
