"""Built data in the tasks and the trainers, with the packaged base model."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from umu_tasks.mini import base_model_dir

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_teach_unlearn_and_score(build, example, tmp_path):
    """The commands of docs/your-own-people.md, some steps each: nobody's own data may end in an error half-way."""
    assert build(real=None) == 0
    data, bin_folder = example / "data", Path(sys.executable).parent
    environment = {**os.environ, "UMU_DATA": str(data), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}

    def run(*command: object, status: int = 0) -> str:
        done = subprocess.run(
            [str(part) for part in command],
            cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    few = ("--max_steps", 2, "--per_device_train_batch_size", 4, "--data", data)
    target, unlearned = tmp_path / "target", tmp_path / "unlearned"
    sft = (sys.executable, "umu_trainers/sft.py", "--config", "configs/sft/mini.yaml", *few, "--output_dir", target)
    run(*sft, "--replay_real", 0)
    run(
        sys.executable, "umu_trainers/unlearn.py", "--config", "configs/unlearn/mini/gd.yaml", *few,
        "--model", target, "--output_dir", unlearned, "--forget_ratio", 5,
    )  # fmt: skip
    assert (unlearned / "training_record.json").exists()
    score = (bin_folder / "lmms-eval", "--model", "umu_hf", "--batch_size", 8, "--limit", 4, "--model_args")
    saved = ("--output_path", tmp_path / "results", "--log_samples")
    printed = run(*score, f"pretrained={base_model_dir()}", "--tasks", "umu_forget05,umu_retain95", *saved)
    assert "umu_forget05_cloze" in printed
    assert "no split 'real' here" in run(*score, f"pretrained={base_model_dir()}", "--tasks", "umu05", status=1)
