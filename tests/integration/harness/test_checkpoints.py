"""`umu_hf` on real (tiny) checkpoints through lmms-eval's command."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

FAST = ("--gen_kwargs", "max_new_tokens=6")


def answers(run, task):
    """Return a task's outputs by question."""
    records = [sample["record"] for sample in run.samples(task)]
    return {(one["profile_id"], one["key"], one["modality"]): one["output"] for one in records}


@pytest.fixture(scope="module")
def forget05(lmms_eval, bin_folder, tiny):
    """The documented command, started from scratch: no environment variable but the data, no include path."""
    model_args = f"pretrained={tiny},batch_size=5"
    command = ("--model", "umu_hf", "--model_args", model_args, "--tasks", "umu_forget05", *FAST)
    run = lmms_eval.in_new_process([str(bin_folder / "lmms-eval")], *command)
    assert run.finished, run.log
    return run


def test_documented_command_scores_every_task(forget05):
    """With the package installed, `--tasks umu_forget05` needs nothing else."""
    assert set(forget05.metrics("umu_forget05_cls")) >= {"acc_mul", "acc_uni", "acc_any", "acc_all", "acc_f"}
    assert set(forget05.metrics("umu_forget05_gen")) >= {"rl_mul", "rl_uni", "rl_f"}
    assert "questions" in forget05.log  # the progress bar's unit
    assert len(set(answers(forget05, "umu_forget05_cls").values())) > 6  # each question has its own answer
    counts = [sample["token_counts"][0] for sample in forget05.samples("umu_forget05_cls")]
    assert all(0 < count["output_tokens"] <= 6 < count["input_tokens"] for count in counts)


def test_llava_reaches_the_backend_and_the_folder_name_says_nothing(forget05, lmms_eval, tiny, copy_of):
    """The same weights under another folder name, asked through `--model llava`, next to a batch size of 1."""
    other = copy_of(tiny, "llava-x, a copy")
    command = ("--model", "llava", "--model_args", f"pretrained={other}", "--tasks", "umu_forget05", *FAST)
    run = lmms_eval(*command)
    assert run.finished, run.log
    for task in ("umu_forget05_cls", "umu_forget05_cloze", "umu_forget05_gen"):
        assert answers(run, task) == answers(forget05, task)
        assert run.metrics(task) == forget05.metrics(task)


@pytest.fixture
def package_copy(tmp_path):
    """A copy of the package in a path with spaces, to be imported in place of the installed one."""
    import umu_tasks

    folder = tmp_path / "site packages"
    skipped = shutil.ignore_patterns("__pycache__", "base")
    shutil.copytree(umu_tasks.__path__[0], folder / "umu_tasks", ignore=skipped)
    return folder


def test_two_processes_give_the_same_numbers(forget05, lmms_eval, tiny, package_copy):
    """Under `accelerate launch` the questions are dealt out to the processes and paired again by key.

    `--num_processes 2` starts two processes on GPUs only (with `--cpu` it starts one, unless MPI does); the flag and
    the variable are how the same launcher starts two without a GPU. The package lies in a path with spaces here.
    """
    launch = [
        sys.executable,
        "-m",
        "accelerate.commands.launch",
        "--multi_gpu",
        "--num_processes",
        "2",
        "-m",
        "lmms_eval",
    ]
    command = ("--model", "umu_hf", "--model_args", f"pretrained={tiny},batch_size=2", "--tasks", "umu_forget05", *FAST)
    run = lmms_eval.in_new_process(launch, *command, ACCELERATE_USE_CPU="true", PYTHONPATH=str(package_copy))
    assert run.finished, run.log
    assert "Running on rank 1" in run.log
    selectors = run.results()["configs"]["umu_forget05_cls"]["dataset_kwargs"]["data_files"]["test"]
    assert Path(selectors).is_relative_to(package_copy)
    for task in ("umu_forget05_cls", "umu_forget05_cloze", "umu_forget05_gen"):
        assert answers(run, task) == answers(forget05, task)
        assert run.metrics(task) == pytest.approx(forget05.metrics(task), abs=1e-12)
        assert len(run.samples(task)) == len(forget05.samples(task))


def test_an_adapter_folder_is_scored_as_it_is(forget05, lmms_eval, tiny, adapter):
    """`pretrained=ADAPTER` and `pretrained=BASE,peft=ADAPTER` are the same model, and not the base."""
    command = ("--tasks", "umu_forget05_cls", *FAST)
    alone = lmms_eval("--model", "umu_hf", "--model_args", f"pretrained={adapter},batch_size=4", *command)
    both = lmms_eval("--model", "umu_hf", "--model_args", f"pretrained={tiny},peft={adapter}", *command)
    assert alone.finished, alone.log
    assert both.finished, both.log
    assert answers(alone, "umu_forget05_cls") == answers(both, "umu_forget05_cls")
    assert answers(alone, "umu_forget05_cls") != answers(forget05, "umu_forget05_cls")


@pytest.fixture
def pope(tmp_path):
    """Three rows in the shape of the hub data set of lmms-eval's own task `pope`.

    Every built-in task that generates needs the hub; `datasets` takes a folder of the hub id's name instead if the
    working directory has one.
    """
    import lmms_eval
    from datasets import Dataset, Features, Image, Value
    from PIL import Image as Pillow

    from umu_tasks.tasks.files import read_task_file

    hub_id = read_task_file(Path(lmms_eval.__path__[0]) / "tasks" / "pope" / "pope.yaml")["dataset_path"]
    columns = ("id", "question_id", "question", "answer", "image_source", "category")
    rows = [
        {**dict.fromkeys(columns, str(n)), "question": f"Is there a cat? {n}", "answer": "yes", "category": "random"}
        for n in range(3)
    ]
    features = Features({**{name: Value("string") for name in columns}, "image": Image()})
    images = [{"image": Pillow.new("RGB", (30, 30), (80 * n, 10, 10))} for n in range(3)]
    folder = tmp_path / hub_id
    folder.mkdir(parents=True)
    Dataset.from_list([row | image for row, image in zip(rows, images, strict=True)], features=features).to_parquet(
        folder / "test.parquet"
    )
    return tmp_path


def test_next_to_a_built_in_task(lmms_eval, tiny, pope):
    """One command with one of lmms-eval's own tasks, which reaches the checkpoint through its chat template."""
    run = lmms_eval(
        *("--model", "umu_hf", "--model_args", f"pretrained={tiny},batch_size=4"),
        *("--tasks", "umu_real_cls,pope", *FAST),
        cwd=pope,
    )
    assert run.finished, run.log
    assert set(run.metrics("umu_real_cls")) >= {"acc_mul", "acc_uni", "acc_any", "acc_all", "acc_r"}
    assert "pope_accuracy" in run.metrics("pope")
    assert len(run.samples("pope")) == 3


def test_task_lists(lmms_eval, bin_folder):
    """The command's own list and `lmms-eval tasks list` with the printed include path show the same names as ours."""
    import subprocess

    from umu_tasks.tasks.files import our_tasks

    names = our_tasks().keys()
    listed = lmms_eval("--tasks", "list")
    assert names <= set(listed.log.replace("\n - ", " ").split())
    path = subprocess.run([bin_folder / "umu", "tasks", "--path"], capture_output=True, text=True, check=True)
    found = lmms_eval("tasks", "list", "--include-path", path.stdout.strip())
    assert names <= set(found.log.split())


def test_settings_are_in_the_result_file(forget05):
    """Token limits, stop strings and rules can be read from the results, where they matter for a comparison."""
    config = forget05.results()["configs"]["umu_forget05_gen"]
    assert config["generation_kwargs"]["until"] == ["ASSISTANT:"]
    assert config["metadata"] == {"version": 1.0, "scoring_rules": ["default", "official", "strict"]}
    assert json.dumps(config)
