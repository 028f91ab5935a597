"""The lmms-eval model `umu_hf` (and `llava`, where LLaVA-NeXT's own package isn't installed).

    lmms-eval --model umu_hf --model_args pretrained=DIR_OR_ID,batch_size=16 --tasks umu05

Any Hugging Face image-text-to-text checkpoint; `arguments.BackendArguments` lists the settings. Requests are asked in
batches that may mix questions with and without an image. Nothing is scored here, and no error becomes an answer.
"""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from accelerate import Accelerator
from lmms_eval.api.instance import GenerationResult, Instance, TokenCounts
from lmms_eval.api.model import lmms
from lmms_eval.models.model_utils.gen_metrics import log_metrics
from lmms_eval.protocol import ChatMessages
from tqdm import tqdm

from umu_tasks.backend.arguments import ArgumentError, BackendArguments, make_arguments, parse_arguments
from umu_tasks.backend.checkpoint import CheckpointError, load_checkpoint
from umu_tasks.backend.generation import Answer, GenerationError, GenerationSettings, generate
from umu_tasks.backend.prompting import PromptBuilder
from umu_tasks.tasks.abort import EvaluationAborted
from umu_tasks.tasks.documents import is_document

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True, slots=True)
class Request:
    """One request of lmms-eval.

    Attributes:
        index: its place in what lmms-eval handed over.
        context: the task's description, examples and question as plain text.
        to_messages: document -> conversation, with images.
    """

    index: int
    context: str
    to_messages: Any
    document: Mapping[str, Any]
    settings: GenerationSettings
    task: str

    @property
    def order(self) -> tuple[Any, ...]:
        """Sorts requests so that a batch has like settings, like modality and like length; the longest come first, so
        that a batch too large for memory fails at once."""
        has_image = self.document["modality"] == "multimodal" if is_document(self.document) else True
        return (self.settings, not has_image, -len(self.context), self.index)


class UmuHf(lmms):
    """See the module's docstring; the keyword arguments are those of `BackendArguments`."""

    is_simple = False  # lmms-eval: takes conversations, not a text and a list of images

    def __init__(self, **arguments: Any) -> None:
        super().__init__()
        self.arguments: BackendArguments = make_arguments(arguments)
        self.accelerator = Accelerator()
        self._rank = self.accelerator.process_index
        self._world_size = self.accelerator.num_processes
        started = int(os.environ.get("WORLD_SIZE", "1"))
        if started != self._world_size:
            raise ArgumentError(
                f"{started} processes were started, but accelerate sees {self._world_size}, so each would ask all the "
                "questions. Without a GPU set ACCELERATE_USE_CPU=true; else start with accelerate launch."
            )
        self.device = self._choose_device()
        self.checkpoint = load_checkpoint(self.arguments, self.device)
        self.batch_size = self.arguments.batch_size

    @classmethod
    def create_from_arg_string(cls, arg_string: str, additional_config: dict[str, Any] | None = None) -> UmuHf:
        """Build the model from `--model_args`; what is wrong with them ends the program (see `tasks.abort`)."""
        flags = {name: value for name, value in (additional_config or {}).items() if name != "max_batch_size"}
        try:
            arguments = parse_arguments(arg_string, flags)
            return cls(**{name: getattr(arguments, name) for name in BackendArguments.__slots__})
        except (ArgumentError, CheckpointError) as error:
            raise EvaluationAborted(str(error)) from error
        except Exception as error:
            traceback.print_exc()
            raise EvaluationAborted(f"the model could not be loaded: {type(error).__name__}: {error}") from error

    def _choose_device(self) -> torch.device:
        wanted = self.arguments.device
        if wanted is None or (self._world_size > 1 and wanted.startswith("cuda")):
            return self.accelerator.device
        return torch.device(wanted)

    # ---- what lmms-eval calls -----------------------------------------------------------------------------------

    def generate_until(self, requests: list[Instance]) -> list[GenerationResult]:
        """Answer all requests, in their order. An error ends the program: it is never an empty answer."""
        try:
            return self._generate_until(requests)
        except torch.OutOfMemoryError as error:
            raise EvaluationAborted(
                f"out of memory with batch_size={self.batch_size}. Give a smaller batch_size in --model_args. ({error})"
            ) from error
        except Exception as error:
            traceback.print_exc()
            raise EvaluationAborted(f"generation failed: {type(error).__name__}: {error}") from error

    def loglikelihood(self, requests: list[Instance]) -> NoReturn:
        """Not supported."""
        self._unsupported("loglikelihood (multiple-choice tasks)")

    def generate_until_multi_round(self, requests: list[Instance]) -> NoReturn:
        """Not supported."""
        self._unsupported("generate_until_multi_round")

    def _unsupported(self, what: str) -> NoReturn:
        message = f"umu_hf doesn't support {what}; it answers generate_until tasks. Use another --model for this task."
        raise EvaluationAborted(message) from NotImplementedError(message)

    @property
    def chat_template(self) -> NoReturn:
        """What `--apply_chat_template` asks for; it would put the template around our prompts twice."""
        raise EvaluationAborted(
            "umu_hf takes no --apply_chat_template: the prompt style is set by prompt=published|chat."
        )

    # ---- batches ------------------------------------------------------------------------------------------------

    def _generate_until(self, requests: list[Instance]) -> list[GenerationResult]:
        queue = sorted((self._read(index, one) for index, one in enumerate(requests)), key=lambda one: one.order)
        answers: dict[int, Answer] = {}
        started = time.perf_counter()
        with tqdm(total=len(queue), desc="umu_hf", unit=" questions", disable=self.rank != 0) as progress:
            for batch in batches(queue, self.batch_size):
                prompts, images = zip(*(self._prompt(request) for request in batch), strict=True)
                found = generate(self.checkpoint, prompts, images, batch[0].settings)
                answers.update(zip((request.index for request in batch), found, strict=True))
                progress.update(len(batch))
        self._log_speed(answers, time.perf_counter() - started)
        return [_result(answers[index]) for index in range(len(requests))]

    def _read(self, index: int, instance: Instance) -> Request:
        context, to_messages, kwargs, doc_id, task, split = instance.args
        document = self.task_dict[task][split][doc_id]
        return Request(index, context, to_messages, document, GenerationSettings.from_task(kwargs), task)

    def _prompt(self, request: Request) -> tuple[str, list[Image]]:
        """Return the prompt and its images; images are read here, when their batch is due."""
        builder = self.checkpoint.builder
        conversation = ChatMessages(messages=request.to_messages(request.document))
        images, videos, audios = conversation.extract_media()
        if videos or audios:
            raise GenerationError(f"task {request.task} sends video or audio; umu_hf answers text and image questions.")
        if not is_document(request.document):
            return _chat(builder, conversation, request.task), [_image(one) for one in images]
        # `context` is the document's prompt, unless a task adds a description or the command a system instruction.
        if builder.style == "published":
            text = request.document["published_prompt"].replace(request.document["prompt"], request.context, 1)
        else:
            text = _chat(builder, conversation, request.task, {request.document["prompt"]: request.context})
            _require_question(text, request)
        return text, list(images)

    def _log_speed(self, answers: Mapping[int, Answer], seconds: float) -> None:
        tokens = sum(answer.output_tokens for answer in answers.values())
        log_metrics(
            total_elapsed_time=seconds,
            total_gen_tokens=tokens,
            avg_speed=tokens / seconds,
            additional_metrics={"total_requests": len(answers), "questions_per_second": len(answers) / seconds},
        )


def batches(queue: Sequence[Request], size: int) -> Iterator[Sequence[Request]]:
    """Yield the sorted requests in batches of at most `size` that share their settings."""
    start = 0
    while start < len(queue):
        stop = start + 1
        while stop < min(start + size, len(queue)) and queue[stop].settings == queue[start].settings:
            stop += 1
        yield queue[start:stop]
        start = stop


def _chat(builder: PromptBuilder, conversation: Any, task: str, replace: Mapping[str, str] | None = None) -> str:
    """Return the chat template's prompt for a conversation; texts in `replace` are exchanged."""
    if not getattr(builder.processor, "chat_template", None):
        raise GenerationError(
            f"task {task} sends a conversation, and this checkpoint's processor has no chat template to write it with. "
            "Save one with the processor (chat_template.jinja), or leave this task out."
        )
    messages = [
        {"role": message.role, "content": [_content(part, replace or {}) for part in message.content]}
        for message in conversation.messages
    ]
    return builder.chat(messages)


def _content(part: Any, replace: Mapping[str, str]) -> dict[str, str]:
    return {"type": "text", "text": replace.get(part.text, part.text)} if part.type == "text" else {"type": "image"}


def _image(source: Any) -> Image:
    """Return an image of another task: given as such or as a path."""
    from PIL import Image

    if isinstance(source, str):
        with Image.open(source) as image:
            return image.convert("RGB")
    return source.convert("RGB")


def _require_question(prompt: str, request: Request) -> None:
    question = request.document["question"].strip()
    if question not in prompt:
        raise GenerationError(
            f"the checkpoint's chat template leaves the question out of the prompt. Question: {question!r}. Prompt: "
            f"{prompt!r}. Use prompt=published, or repair the template: a message's content is a list of parts."
        )


def _result(answer: Answer) -> GenerationResult:
    counts = TokenCounts(input_tokens=answer.input_tokens, output_tokens=answer.output_tokens)
    return GenerationResult(text=answer.text, token_counts=counts)
