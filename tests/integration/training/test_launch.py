"""The scripts as a user starts them: `accelerate launch` in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from umu_trainers import sft, unlearn

ROOT = Path(__file__).parents[3]
LAUNCH = (sys.executable, "-m", "accelerate.commands.launch")


def start(command, arguments, **environment):
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", **environment}
    return subprocess.run(
        [*command, *arguments], cwd=ROOT, env=env, capture_output=True, text=True, timeout=300, check=False
    )


def launch(processes, script, arguments):
    # `--cpu` starts one process whatever --num_processes says; `--multi_gpu` starts several, on the CPU without GPUs.
    kind = "--cpu" if processes == 1 else "--multi_gpu"
    settings = ("--num_processes", str(processes), "--mixed_precision", "no", "--main_process_port", "0")
    command = (*LAUNCH, kind, *settings, f"umu_trainers/{script}.py")
    return start(command, arguments)


def test_sft_under_accelerate_launch(flags, tmp_path):
    done = launch(1, "sft", flags(max_steps=2))
    assert done.returncode == 0, done.stderr[-2000:]
    assert (tmp_path / "run" / "model.safetensors").is_file()
    assert "5 people, 15 multimodal, 15 unimodal rows" in done.stdout


@pytest.mark.parametrize(
    ("script", "settings"),
    [
        (unlearn, {"method": "gd"}),
        pytest.param(sft, {"replay_real": 0.5}, marks=pytest.mark.slow),
        pytest.param(unlearn, {"method": "dpo", "modality": "uni", "retain_modality": "mix"}, marks=pytest.mark.slow),
        pytest.param(unlearn, {"method": "rmu", "method_kwargs": '{"hidden_layer": 1}'}, marks=pytest.mark.slow),
        pytest.param(unlearn, {"method": "gd", "phases": "sequential"}, marks=pytest.mark.slow),
        pytest.param(
            unlearn, {"method": "kl", "pack_by_profile": True, "cache_image_features": True}, marks=pytest.mark.slow
        ),
    ],
)
def test_two_processes_equal_one(flags, weights, record, tmp_path, script, settings):
    """Same rows, same losses, same weights: the number of processes is not a setting of the experiment.

    Six forget rows in steps of four leave one process without a row at the end of an epoch.
    """
    settings = {**settings, "num_train_epochs": 2, "learning_rate": 1e-3}
    script.main(flags(**settings, per_device_train_batch_size=4, output_dir=tmp_path / "1"))
    name = script.__name__.rpartition(".")[2]
    done = launch(2, name, flags(**settings, per_device_train_batch_size=2, output_dir=tmp_path / "2"))
    assert done.returncode == 0, done.stderr[-3000:]
    one, two = (record(tmp_path / processes)["result"]["log"] for processes in ("1", "2"))
    assert len(one) == len(two) > 3
    for expected, found in zip(one, two, strict=True):
        losses = {part: value for part, value in expected.items() if part.startswith(("loss", "nll"))}
        assert {part: found[part] for part in losses} == pytest.approx(losses, rel=1e-4, abs=1e-5)
    torch.testing.assert_close(weights(tmp_path / "2"), weights(tmp_path / "1"), rtol=1e-3, atol=1e-5)


@pytest.mark.slow
def test_vision_tower_is_trained_on_two_processes(flags, tmp_path):
    """Text-only rows leave the tower without gradient; DDP must neither hang nor count it twice."""
    arguments = [*flags(method="gd", per_device_train_batch_size=2), "--train", "vision_tower", "language_model"]
    done = launch(2, "unlearn", arguments)
    assert done.returncode == 0, done.stderr[-3000:]


def test_a_wrong_setting_exits_with_one_line(flags):
    done = start((sys.executable, "-m", "umu_trainers.unlearn"), flags(forget_ratio=7))
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last == "error: --forget_ratio 7: UMU-Bench has 5, 10, 15. Choose one of these."
    assert "Traceback" not in done.stderr
