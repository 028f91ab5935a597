"""Refuses lmms-eval's own backends that are known to answer our questions wrongly, before weights are loaded.

Half of our questions show no image. Some backends then send the question before, an empty string or nothing, and what
comes back would be scored as forgetting. What is listed here was read in the source of lmms-eval 0.7.3, or run; see
`docs/models.md`. A backend is named by its model id and its interface: ``chat`` takes conversations, ``simple`` (all
that have no chat class, or with `--force_simple`) a text and a list of images.
"""

from __future__ import annotations

import functools
import logging
import re
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from umu_tasks.tasks.abort import EvaluationAborted

logger = logging.getLogger(__name__)

Backend = tuple[str, str]  # model id, "chat" or "simple"

_EMPTY_LIST = (
    "it gives the processor an empty list of images for a question without an image, which every processor of "
    "transformers 5 refuses"
)
_NO_HEAD = f"it loads image-text-to-text checkpoints with AutoModel, which has no language head; and {_EMPTY_LIST}"
_ONE_IMAGE = "it takes exactly one image a question"
_FIRST_IMAGE = "it looks at the first image of a question before it checks that there is one"
_REPEATS = f"{_ONE_IMAGE}, and after an error it repeats the answer of the question before"

REFUSED: dict[Backend, str] = {
    ("llava_hf", "chat"): f"on questions without an image {_EMPTY_LIST}",
    ("llava_hf", "simple"): "for a question without an image it sends the prompt of the question before",
    ("huggingface", "chat"): _NO_HEAD,
    ("async_hf_model", "chat"): _NO_HEAD,
    ("llama_vision", "simple"): _EMPTY_LIST,
    ("idefics2", "simple"): _FIRST_IMAGE,
    ("instructblip", "simple"): f"{_ONE_IMAGE}, and turns errors into empty answers",
    ("minicpm_v", "simple"): _REPEATS,
    ("cogvlm2", "simple"): _REPEATS,
    ("minimonkey", "simple"): _ONE_IMAGE,
    ("aria", "simple"): "it reads the pixels of every question",
    ("llava_sglang", "simple"): _FIRST_IMAGE,
    ("longva", "simple"): _FIRST_IMAGE,
    ("llava_vid", "simple"): _FIRST_IMAGE,
    ("oryx", "simple"): _FIRST_IMAGE,
    ("video_llava", "simple"): "it takes exactly one video a question",
}

# They ask the questions of a batch wrongly, or stop, unless there is one question a batch.
ONE_QUESTION_A_BATCH: dict[Backend, str] = {
    ("internvl_hf", "chat"): "it asks the first question of a batch only and leaves the others without an answer",
    ("internvl", "simple"): "it asks the first question of a batch only and leaves the others without an answer",
    ("llava", "simple"): "in a batch that mixes them, questions without an image get a line break in front",
    ("llava_onevision", "simple"): "it stops with an assertion",
    ("internvl2", "simple"): "it stops with an assertion",
    ("internvl3", "simple"): "it asks one question at a time",
}

# Text-only questions reach the model alone and whole, as far as the source says or a run showed.
SOUND: frozenset[Backend] = frozenset(
    {(name, "chat") for name in ("openai", "async_openai", "litellm", "gemini", "vllm", "vllm_generate", "sglang")}
    | {(name, "chat") for name in ("qwen2_5_vl", "qwen3_vl", "llava_onevision1_5")}
    | {(name, "simple") for name in ("openai", "gemini", "claude", "gpt4v", "vllm", "qwen_vl", "glm4v", "llama4_scout")}
    | {(name, "simple") for name in ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "gemma3", "llava_onevision1_5")}
    | ONE_QUESTION_A_BATCH.keys()
)

_INSTEAD = "Use --model umu_hf with the same pretrained=, or a backend that docs/models.md lists as sound."


class _State:
    """What this process evaluates, as far as lmms-eval has told."""

    asks_our_tasks: bool = False  # set as soon as the command's task names are known, before the model is looked up
    backend: Backend | None = None


def refusal(backend: Backend) -> str | None:
    """Return why a backend can't be asked our questions, None if it is not known to be unfit."""
    reason = REFUSED.get(backend)
    name = f"--model {backend[0]}" + (" --force_simple" if backend[1] == "simple" else "")
    return f"{name} can't answer questions without an image: {reason}. {_INSTEAD}" if reason else None


def require_sound(backend: Backend) -> None:
    """End the program on a backend that is known to be unfit, warn of one that nobody has checked.

    Raises:
        EvaluationAborted: names the backend, what it does, and what to use.
    """
    message = refusal(backend)
    if message is not None:
        raise EvaluationAborted(message)
    if backend not in SOUND:
        logger.warning(
            "umu-bench: nobody has checked that --model %s (%s) asks questions without an image rightly: look at a few "
            "outputs of both modalities before you trust its scores.", *backend,
        )  # fmt: skip


def require_one_question(backend: Backend, batch_size: str) -> None:
    """End the program on a batch size above 1 for a backend that can only do 1.

    Raises:
        EvaluationAborted: names the backend and what to do.
    """
    reason = ONE_QUESTION_A_BATCH.get(backend)
    if reason is not None and batch_size != "1":
        raise EvaluationAborted(
            f"--model {backend[0]} with batch size {batch_size}: {reason}. Use --batch_size 1, or --model umu_hf, "
            "which answers in batches."
        )


# ---- where lmms-eval meets our tasks --------------------------------------------------------------------------------


def expect_our_tasks() -> None:
    """Say that this evaluation asks our tasks."""
    _State.asks_our_tasks = True


def check_backend() -> None:
    """End the program if our tasks are about to be asked of an unfit backend; for programs that call lmms-eval's
    functions instead of its command, and so load the model before they name a task."""
    if _State.backend is not None:
        message = refusal(_State.backend)
        if message is not None:
            raise EvaluationAborted(message)


def install() -> None:
    """Have lmms-eval's model registry check a backend before it imports it.

    Also make what goes wrong in it end the program: a missing package (many want `decord`), a checkpoint that can't be
    opened, an error in the middle. lmms-eval's command reports these and exits with success.
    """
    from lmms_eval.models.registry_v2 import ModelRegistryV2

    get_model_class = ModelRegistryV2.get_model_class
    if not hasattr(get_model_class, "checks_backends"):
        ModelRegistryV2.get_model_class = _checking(get_model_class)


def _checking(get_model_class: Callable[..., type]) -> Callable[..., type]:
    @functools.wraps(get_model_class)
    def checked(self: Any, model_name: str, force_simple: bool = False) -> type:
        resolved = self.resolve(model_name, force_simple=force_simple)
        if not resolved.class_path.startswith("lmms_eval."):  # ours, or another package's
            _State.backend = None
            return get_model_class(self, model_name, force_simple=force_simple)
        backend = _State.backend = (resolved.model_id, resolved.model_type)
        if not _State.asks_our_tasks:
            return get_model_class(self, model_name, force_simple=force_simple)
        require_sound(backend)
        try:
            return _guarded(get_model_class(self, model_name, force_simple=force_simple), backend)
        except ImportError as error:
            raise EvaluationAborted(
                f"--model {model_name} can't be imported: {error}. Install what it needs, or use --model umu_hf."
            ) from error

    checked.checks_backends = True  # type: ignore[attr-defined]
    return checked


def _guarded(model_class: Any, backend: Backend) -> type:
    """Have a model's class look at its batch size before it loads anything, and end the program on an error."""
    create = model_class.create_from_arg_string

    def create_checked(arg_string: str, additional_config: Mapping[str, Any] | None = None) -> Any:
        named = re.search(r"(?:^|,)batch_size=([^,]*)", arg_string)
        given = named.group(1) if named else (additional_config or {}).get("batch_size")
        require_one_question(backend, str(given or 1).strip())
        return _ends_the_program(create, f"--model {backend[0]} could not be loaded")(arg_string, additional_config)

    model_class.create_from_arg_string = staticmethod(create_checked)
    model_class.generate_until = _ends_the_program(model_class.generate_until, f"--model {backend[0]} failed")
    guarded: type = model_class
    return guarded


def _ends_the_program(function: Callable[..., Any], what: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def ending(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            traceback.print_exc()
            raise EvaluationAborted(f"{what}: {type(error).__name__}: {error}") from error

    return ending
