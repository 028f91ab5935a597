"""Tiny checkpoints, the fixture's data, and lmms-eval's command."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
FIXTURE = HERE.parents[1] / "fixtures" / "umu_small"
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] | upper }}: {% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>{% else %}{{ part['text'] }}{% endif %}{% endfor %}{{ '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}ASSISTANT:{% endif %}"
)


# ---- checkpoints ------------------------------------------------------------------------------------------------


def make_processor(image_size: int = 24, patch_size: int = 8) -> Any:
    """LLaVA's processor with a byte-level vocabulary: knows every text, and takes the code paths of the real one."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import CLIPImageProcessor, LlavaProcessor, PreTrainedTokenizerFast

    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<pad>", "<s>", "</s>", "<image>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator(["USER: what is ASSISTANT: hello there"], trainer)
    core.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        **{"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"},
        extra_special_tokens={"image_token": "<image>"},
    )
    return LlavaProcessor(
        image_processor=CLIPImageProcessor(
            size={"shortest_edge": image_size}, crop_size={"height": image_size, "width": image_size}
        ),
        tokenizer=tokenizer,
        patch_size=patch_size,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=CHAT_TEMPLATE,
    )


def make_model(processor: Any, seed: int = 0) -> Any:
    """A LLaVA of 70 thousand random weights, wide enough apart that its answers differ between prompts and images."""
    import torch
    from transformers import CLIPVisionConfig, LlamaConfig, LlavaConfig, LlavaForConditionalGeneration

    torch.manual_seed(seed)
    size = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = LlavaConfig(
        vision_config=CLIPVisionConfig(**size, image_size=24, patch_size=8, projection_dim=32, initializer_range=0.3),
        text_config=LlamaConfig(
            **size,
            vocab_size=len(processor.tokenizer),
            max_position_embeddings=4096,
            initializer_range=0.3,
            bos_token_id=1,
            eos_token_id=2,
            pad_token_id=0,
        ),
        image_token_id=processor.tokenizer.convert_tokens_to_ids("<image>"),
        vision_feature_layer=-2,
    )
    return LlavaForConditionalGeneration(config)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny LLaVA checkpoint, in a folder whose name says nothing about it."""
    folder = tmp_path_factory.mktemp("checkpoints") / "run_17"
    processor = make_processor()
    make_model(processor).save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def adapter(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A LoRA adapter for `tiny`, with the processor beside it as training leaves it; it changes the answers."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import LlavaForConditionalGeneration, LlavaProcessor

    folder = tmp_path_factory.mktemp("adapters") / "lora"
    model = get_peft_model(
        LlavaForConditionalGeneration.from_pretrained(tiny), LoraConfig(r=4, target_modules=["q_proj", "v_proj"])
    )
    torch.manual_seed(1)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.5)
    model.save_pretrained(folder)
    LlavaProcessor.from_pretrained(tiny).save_pretrained(folder)
    return folder


@pytest.fixture
def copy_of(tmp_path: Path) -> Callable[[Path, str], Path]:
    """Copy a checkpoint, to break it."""

    def copy(folder: Path, name: str = "copy") -> Path:
        return Path(shutil.copytree(folder, tmp_path / name))

    return copy


# ---- the command ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """A finished run of the command."""

    status: int
    log: str
    output: Path

    @property
    def finished(self) -> bool:
        """Whether all was asked and saved. Random weights may write marks alone, which makes a run not valid."""
        return self.status == 0 or (self.status == 1 and "the run is not valid" in self.log)

    def results(self) -> dict[str, Any]:
        """Return the one results file."""
        (file,) = self.output.rglob("*_results.json")
        return json.loads(file.read_text(encoding="utf-8"))

    def metrics(self, task: str) -> dict[str, float]:
        """Return a task's metrics by name."""
        scores = self.results()["results"][task]
        return {name.removesuffix(",none"): value for name, value in scores.items() if is_metric(name)}

    def samples(self, task: str) -> list[dict[str, Any]]:
        """Return the task's sample lines."""
        (file,) = self.output.rglob(f"*_samples_{task}.jsonl")
        return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def is_metric(name: str) -> bool:
    return name.endswith(",none") and "_stderr" not in name


def environment(data: Path = FIXTURE / "data", **more: str) -> dict[str, str]:
    own = {"UMU_DATA": str(data), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    path = os.pathsep.join([str(HERE / "plugins"), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, **own, "PYTHONPATH": path, **more}


class LmmsEval:
    """lmms-eval's command, in a process of its own each time; see cli_server.py for how that is fast."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs = 0
        self.ready = False
        self.server = subprocess.Popen(
            [sys.executable, str(HERE / "cli_server.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(folder / "server.log").open("w"),
            text=True,
            env=environment(),
        )

    def __call__(
        self,
        *argv: str,
        data: Path | str = FIXTURE / "data",
        env: dict[str, str] | None = None,
        cwd: Path | None = None,
        saving: tuple[str, ...] = ("--output_path", "--log_samples"),
    ) -> Run:
        """Run `lmms-eval ARGV`; an evaluation writes results and samples to the run's `output`."""
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        if not self.ready:
            assert self.server.stdout.readline() == "ready\n", (self.folder / "server.log").read_text()
            self.ready = True
        self.runs += 1
        output, log = self.folder / f"out {self.runs}", self.folder / f"{self.runs}.log"
        given = [f"{one}={output}" if one == "--output_path" else one for one in saving]
        job = {
            "argv": [*argv, *(given if argv[0].startswith("--") else ())],
            "env": {"UMU_DATA": str(data), **(env or {})},
            "cwd": str(cwd or self.folder),
            "log": str(log),
        }
        print(json.dumps(job), file=self.server.stdin, flush=True)
        return Run(int(self.server.stdout.readline()), log.read_text(encoding="utf-8", errors="replace"), output)

    def in_new_process(self, command: list[str], *argv: str, data: Path | str = FIXTURE / "data", **env: str) -> Run:
        """Run `COMMAND ARGV` from scratch, as a user does."""
        self.runs += 1
        output = self.folder / f"out {self.runs}"
        done = subprocess.run(
            [*command, *argv, "--output_path", str(output), "--log_samples"],
            env=environment(Path(data), **env),
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        return Run(done.returncode, done.stdout + done.stderr, output)

    def close(self) -> None:
        assert self.server.stdin is not None
        self.server.stdin.close()
        self.server.wait(timeout=30)


@pytest.fixture(scope="session")
def lmms_eval(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LmmsEval]:
    """lmms-eval's command."""
    command = LmmsEval(tmp_path_factory.mktemp("lmms eval"))
    yield command
    command.close()


Batches = list[list[str]]


@pytest.fixture(scope="session")
def spied(lmms_eval: LmmsEval, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[Run, Batches]]:
    """Run the command; return the run and the prompts of each batch the model was asked (plugins/generation_spy.py).

    `kill_at` kills the process when it asks that batch, counted from 1.
    """
    folder = tmp_path_factory.mktemp("spied")

    def run(*argv: str, kill_at: int = 0) -> tuple[Run, Batches]:
        calls = folder / f"{lmms_eval.runs}.jsonl"
        done = lmms_eval(*argv, env={"GENERATION_SPY_FILE": str(calls), "GENERATION_SPY_KILL": str(kill_at)})
        lines = calls.read_text(encoding="utf-8").splitlines() if calls.exists() else []
        return done, [json.loads(line) for line in lines]

    return run


@pytest.fixture(scope="session")
def bin_folder() -> Path:
    """Where this environment's commands are."""
    return Path(sys.executable).parent


@pytest.fixture(scope="session")
def umu_small() -> Path:
    """The scored fixture: data, outputs.jsonl, expected.json."""
    return FIXTURE
