"""DeepSpeed with two processes, one of which has image rows only and the other text rows only: on the CPU, for real.

Each process runs the same modules in the same order, or ZeRO-3 would wait for ever; and a step is its rows, however
they are divided, so one process is the measure.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import LlavaForConditionalGeneration

from umu_trainers import sft, unlearn

pytest.importorskip("deepspeed")
pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]
APART = ROOT / "scripts" / "apart.py"
STEP = 4  # rows of a step, two a process
SETTINGS = {"num_train_epochs": 2, "lora_r": 4, "lora_dropout": 0, "gradient_checkpointing": True}


def two_processes(config, arguments):
    """Run `apart.py` under `accelerate launch`; the longest such run takes a minute, most of it imports."""
    settings = (
        "--config_file",
        f"configs/accelerate/{config}.yaml",
        "--num_processes",
        "2",
        "--main_process_port",
        "0",
    )
    command = (sys.executable, "-m", "accelerate.commands.launch", *settings, str(APART), str(STEP // 2))
    env = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "DS_ACCELERATOR": "cpu",
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [*command, *arguments], cwd=ROOT, env=env, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.fixture
def one_process(monkeypatch):
    """Run the same rows in this process."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("apart", APART)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    draw = unlearn.UnlearnPlan.draw
    monkeypatch.setattr(
        unlearn.UnlearnPlan, "draw", lambda self, generator: module.apart(draw(self, generator), STEP // 2)
    )
    return unlearn.main


@pytest.mark.parametrize(
    ("config", "settings", "starts_from_adapter"),
    [
        ("zero2", {"method": "npo", "use_lora": True, "precompute_reference": True}, False),
        ("zero3", {"method": "kl", "use_lora": True}, False),
        ("zero3", {"method": "npo", "use_lora": True}, True),
        ("zero3", {"method": "kl", "use_lora": False}, False),
    ],
    ids=["zero2 adapter", "zero3 adapter", "zero3 adapter trained on", "zero3 all weights"],
)
def test_two_processes_equal_one(flags, one_process, weights, record, tmp_path, config, settings, starts_from_adapter):
    """No hang, the same losses, and weights saved whole: an empty adapter would show up only when someone loads it."""
    if starts_from_adapter:
        target = tmp_path / "target"
        sft.main(flags(use_lora=True, lora_r=4, lora_dropout=0, max_steps=2, learning_rate=1e-2, output_dir=target))
        settings = {**settings, "model": target}
    settings = {**SETTINGS, **settings}
    one_process(flags(**settings, per_device_train_batch_size=STEP, output_dir=tmp_path / "1"))
    saving = {"save_strategy": "steps", "save_steps": 3, "use_cpu": None, "output_dir": tmp_path / "2"}
    two_processes(config, flags(**settings, per_device_train_batch_size=STEP // 2, **saving))

    logs = [
        [{name: value for name, value in one.items() if name.startswith(("loss", "nll", "grad_norm"))} for one in log]
        for log in (record(tmp_path / processes)["result"]["log"] for processes in ("1", "2"))
    ]
    assert len(logs[0]) == len(logs[1]) > 5
    for expected, found in zip(*logs, strict=True):
        assert found == pytest.approx(expected, rel=1e-3, abs=1e-5)
    read = weights if settings["use_lora"] else opened
    expected, found = read(tmp_path / "1"), read(tmp_path / "2")
    assert expected.keys() == found.keys()
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-5)
    halfway = read(tmp_path / "2" / "checkpoint-3")
    assert {name: one.shape for name, one in halfway.items()} == {name: one.shape for name, one in expected.items()}
    same_logits(tmp_path / "1", tmp_path / "2")


def opened(folder):
    """All weights, as transformers opens them: it has more than one name for LLaVA's in files."""
    return LlavaForConditionalGeneration.from_pretrained(folder).state_dict()


def same_logits(*folders):
    """What was saved opens as evaluation opens it, and answers alike."""
    from umu_tasks.backend.arguments import BackendArguments
    from umu_tasks.backend.checkpoint import load_checkpoint

    ids = torch.arange(10, 30).unsqueeze(0)
    found = []
    for folder in folders:
        model = load_checkpoint(BackendArguments(pretrained=str(folder)), torch.device("cpu")).model
        with torch.no_grad():
            found.append(model(input_ids=ids).logits)
    torch.testing.assert_close(found[1], found[0], rtol=1e-3, atol=1e-4)


def test_deepspeed_on_a_cpu_is_not_taken_for_ddp(flags, monkeypatch):
    """With use_cpu, accelerate leaves DeepSpeed out without a word."""
    monkeypatch.setenv("ACCELERATE_USE_DEEPSPEED", "true")
    monkeypatch.delenv("DS_ACCELERATOR", raising=False)
    with pytest.raises(ValueError, match=r"--use_cpu with DeepSpeed: set the variable DS_ACCELERATOR=cpu"):
        unlearn.main(flags())
