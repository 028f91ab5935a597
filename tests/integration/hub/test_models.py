"""Checkpoints and adapters by their hub ids, against a server on this machine that answers as the hub does."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from umu_tasks.mini import base_model_dir

HUB_ID = "linbojunzi/UMU-bench"
BASE_ID, ADAPTER_ID = "someone/llava-mini", "someone/llava-mini-forget"


@pytest.fixture(scope="module")
def adapter_folder(tmp_path_factory) -> Path:
    """A LoRA adapter of UMU-mini's base model that changes its answers."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import LlavaForConditionalGeneration

    model = LlavaForConditionalGeneration.from_pretrained(base_model_dir())
    adapted = get_peft_model(model, LoraConfig(r=4, target_modules=r".*language_model.*\.(q_proj|v_proj)"))
    torch.manual_seed(1)
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.5)
    folder = tmp_path_factory.mktemp("adapter")
    adapted.save_pretrained(folder)
    name_base(folder, BASE_ID)
    (folder / "training_record.json").write_text('{"prompt_style": "chat"}')
    return folder


def name_base(adapter: Path, base: str) -> None:
    """Write the base model's name into an adapter's config."""
    file = adapter / "adapter_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "base_model_name_or_path": base}))


@pytest.fixture
def models(hub, adapter_folder, tmp_path) -> Iterator[Any]:
    """The base model and the adapter on the hub; returns the adapter's repository."""
    hub.add("models", BASE_ID, base_model_dir())
    return hub.add("models", ADAPTER_ID, Path(shutil.copytree(adapter_folder, tmp_path / "adapter")))


# Prints, for each job, a digest of the logits of one question with an image. "train ID": as training starts from it.
ASK = """
import hashlib, json, logging, sys
import torch
from PIL import Image
from umu_tasks.backend.arguments import parse_arguments
from umu_tasks.backend.checkpoint import CheckpointError, load_checkpoint
from umu_trainers.model import load_start
logging.basicConfig(stream=sys.stderr)

def ask(job):
    if job.startswith("train "):
        start = load_start(job.removeprefix("train "), use_lora=True)
        model, builder = start.model.eval(), start.builder
    else:
        opened = load_checkpoint(parse_arguments(job), torch.device("cpu"))
        model, builder = opened.model, opened.builder
    prompt = builder.training("Where does this person live?", has_image=True)
    inputs = builder.encode([prompt], [[Image.new("RGB", (96, 96), (90, 30, 10))]], padding_side="left")
    with torch.no_grad():
        logits = model(**inputs).logits
    return builder.style, hashlib.sha256(logits.numpy().tobytes()).hexdigest()

answers = []
for job in sys.argv[1:]:
    try:
        answers.append(ask(job))
    except (CheckpointError, ValueError) as error:
        answers.append(str(error))
print(json.dumps(answers))
"""


@pytest.fixture
def ask(run):
    """Return a function that opens models and gives each one's prompt style and answer, or its error."""

    def start(*jobs: str, **variables: str) -> list[Any]:
        done = run(sys.executable, "-c", ASK, *jobs, **variables)
        assert done.status == 0, done.log
        return json.loads(done.output.splitlines()[-1])

    return start


def test_ids_give_what_the_folders_give(hub, models, ask, adapter_folder):
    """A checkpoint and an adapter by their ids, in evaluation and as the start of training; later without network.

    The training record lies beside the adapter there too: asked in another style than it was trained in, a model looks
    as if it had forgotten.
    """
    ids = (f"pretrained={BASE_ID},peft={ADAPTER_ID}", f"pretrained={ADAPTER_ID}", f"train {ADAPTER_ID}")
    plain = (f"pretrained={BASE_ID}", f"train {BASE_ID}")
    online = ask(*ids, *plain)
    asked = len(hub.requests)
    base = base_model_dir()
    offline = ask(*ids, *plain, f"pretrained={base},peft={adapter_folder}", f"pretrained={base}", HF_HUB_OFFLINE="1")
    assert len(hub.requests) == asked
    *by_id, adapted, unadapted = offline
    assert adapted[1] != unadapted[1], "the adapter changes the answer"
    assert [adapted[0], unadapted[0]] == ["chat", "published"]
    assert online == by_id == [adapted] * 3 + [unadapted] * 2


def test_a_whole_model_with_an_adapter_beside_it_is_refused(models, ask):
    """transformers would put the adapter on top; one with only its base's config beside it is a plain adapter."""
    shutil.copy(base_model_dir() / "config.json", models.folder)
    (answer,) = ask(f"pretrained={ADAPTER_ID}")
    assert answer[0] == "chat", "the style its training record names"
    shutil.copy(base_model_dir() / "model.safetensors", models.folder)
    (message,) = ask(f"pretrained={ADAPTER_ID}")
    assert message.startswith(f"pretrained={ADAPTER_ID}: found a whole model (model.safetensors) and an adapter")


def test_ids_that_cannot_be_opened(models, ask):
    """Each error names the option and the id, and says that the hub was asked."""
    models.gate = 403
    wrong, gated, adapter = ask(
        "pretrained=nobody/nothing", f"pretrained={ADAPTER_ID}", f"pretrained={BASE_ID},peft=x/y"
    )
    assert wrong.startswith("pretrained=nobody/nothing can't be opened. There is no such folder here")
    assert gated.startswith(f"pretrained={ADAPTER_ID} can't be opened. There is no such folder here")
    assert "gated" in gated
    assert adapter.startswith("peft=x/y can't be opened. There is no such folder here")


@pytest.fixture
def score(run, tmp_path):
    """Return a function that asks four questions through the documented command: the outputs, and the log."""

    def start(model_args: str, name: str, **variables: str) -> tuple[list[Any], str]:
        out = tmp_path / name
        command = ("lmms_eval", "--model", "umu_hf", "--model_args", model_args, "--tasks", "umu_forget05_cls")
        options = ("--limit", "4", "--gen_kwargs", "max_new_tokens=6", "--log_samples", "--output_path", str(out))
        done = run(sys.executable, "-m", *command, *options, UMU_DATA="mini", **variables)
        assert done.status == 0, done.log
        (samples,) = out.rglob("*_samples_*.jsonl")
        return [json.loads(line)["filtered_resps"] for line in samples.read_text().splitlines()], done.log

    return start


@pytest.mark.slow
def test_ids_through_the_documented_command(hub, models, score):
    """`lmms-eval … pretrained=ID,peft=ID` from the first download to the table."""
    found, _ = score(f"pretrained={BASE_ID},peft={ADAPTER_ID}", "ids")
    assert len(found) == 4
    asked = len(hub.requests)
    name_base(models.folder, str(base_model_dir()))
    expected, _ = score(f"pretrained={base_model_dir()},peft={models.folder}", "folders")
    assert found == expected
    assert [one.path for one in hub.requests[asked:]] == [], "with model and data in folders the hub is not asked"


@pytest.mark.slow
def test_prompts_of_ids(hub, models, repository, run):
    """`umu prompts ID --model ID` fetches one split and the processor, and no weights."""
    done = run(sys.executable, "-m", "umu_tasks.cli", "prompts", HUB_ID, "--model", ADAPTER_ID)
    assert done.status == 0, done.log
    assert "prompt style: chat" in done.output
    assert "8 questions: trainer and evaluator agree." in done.output
    assert len(hub.downloads(".parquet")) == 1
    assert not hub.downloads(".safetensors")
