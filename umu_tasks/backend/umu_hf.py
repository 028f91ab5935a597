"""The lmms-eval model `umu_hf` (and `llava`, where LLaVA-NeXT's own package isn't installed).

    lmms-eval --model umu_hf --model_args pretrained=DIR_OR_ID,batch_size=16 --tasks umu05

Any Hugging Face image-text-to-text checkpoint; `arguments.BackendArguments` lists the settings. Which questions go
through the model together is decided in `answering`. Nothing is scored here, and no error becomes an answer.
With `cache=DIR` (or the command's `--use_cache DIR`) finished answers are kept: see `answer_cache`.
"""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from accelerate import Accelerator
from lmms_eval.api.instance import GenerationResult, Instance, TokenCounts
from lmms_eval.api.model import lmms
from lmms_eval.models.model_utils.gen_metrics import log_metrics
from lmms_eval.protocol import ChatMessages
from loguru import logger
from tqdm import tqdm

from umu_tasks.backend.answer_cache import AnswerCache, question_key
from umu_tasks.backend.answering import Answering
from umu_tasks.backend.arguments import ArgumentError, BackendArguments, make_arguments, parse_arguments
from umu_tasks.backend.checkpoint import CheckpointError, load_checkpoint
from umu_tasks.backend.generation import Answer, GenerationError, GenerationSettings
from umu_tasks.backend.identity import model_identity
from umu_tasks.backend.low_rank import shorten_adapter
from umu_tasks.backend.memory import fitting_rows
from umu_tasks.backend.prompting import IMAGE_PLACEHOLDER, PromptBuilder
from umu_tasks.backend.system_prompts import chat_with_instruction, read_system_prompt
from umu_tasks.backend.trained import trained_style
from umu_tasks.benchmarks.errors import DataError
from umu_tasks.results.run import RUN
from umu_tasks.tasks.abort import EvaluationAborted
from umu_tasks.tasks.documents import is_document

if TYPE_CHECKING:
    from PIL.Image import Image


AUTO_TOKENS = 1024  # length of a row that batch_size=auto reckons with: image, question and answer


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
        """Sorts requests as `Answering` likes them: one person's questions with an image together, the others by
        settings and length, the longest first."""
        if is_document(self.document) and self.document["modality"] == "multimodal":
            return (0, self.document["split"], self.document["profile_id"], self.settings, self.index)
        return (1, "", "", self.settings, -len(self.context), self.index)


@dataclass(frozen=True, slots=True)
class Prompted:
    """A request whose prompt is written and whose images are read: it is asked next.

    Attributes:
        key: what its answer is kept under, None if it is not kept.
    """

    request: Request
    prompt: str
    images: Sequence[Image]
    key: str | None

    @property
    def settings(self) -> GenerationSettings:
        return self.request.settings


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
        own_prompt = self.arguments.system_prompt
        self.system_prompt = None if own_prompt is None else read_system_prompt(own_prompt)
        self.checkpoint = load_checkpoint(self.arguments, self.device)
        shorten_adapter(self.checkpoint.model)
        self.batch_size = self.arguments.batch_size or fitting_rows(self.checkpoint.model, AUTO_TOKENS)
        logger.info("umu_hf: prompt style {}{}.", self.checkpoint.builder.style, self._style_reason())
        self.identity = model_identity(self.checkpoint)
        self.cache: AnswerCache | None = None
        if self.arguments.cache is not None:
            self.keep_answers(Path(self.arguments.cache))
        RUN.announce(self)

    @classmethod
    def create_from_arg_string(cls, arg_string: str, additional_config: dict[str, Any] | None = None) -> UmuHf:
        """Build the model from `--model_args`; what is wrong with them ends the program (see `tasks.abort`)."""
        flags = {name: value for name, value in (additional_config or {}).items() if name != "max_batch_size"}
        try:
            arguments = parse_arguments(arg_string, flags)
            return cls(**{name: getattr(arguments, name) for name in BackendArguments.__slots__})
        except (ArgumentError, CheckpointError, DataError) as error:
            raise EvaluationAborted(str(error)) from error
        except Exception as error:
            traceback.print_exc()
            raise EvaluationAborted(f"the model could not be loaded: {type(error).__name__}: {error}") from error

    def _choose_device(self) -> torch.device:
        wanted = self.arguments.device
        if wanted is None or (self._world_size > 1 and wanted.startswith("cuda")):
            return self.accelerator.device
        return torch.device(wanted)

    def _style_reason(self) -> str:
        location = self.checkpoint.location
        if self.arguments.prompt is not None:
            return ""
        recorded = trained_style(location.adapter, location.base) is not None
        return ", which the model was trained with; prompt= sets another" if recorded else ", the model family's"

    def keep_answers(self, folder: Path) -> None:
        """Keep finished answers in `folder` and use those that are there."""
        if self.cache is not None:
            return
        if self.identity["weights"] is None:
            raise ArgumentError(f"cache={folder}: the checkpoint's weight files were not found; leave cache out.")
        try:
            self.cache = AnswerCache(folder, self.identity, rank=self.rank)
        except OSError as error:
            raise ArgumentError(f"cache={folder}: answers can't be kept there: {error}") from error
        logger.info("umu_hf: {} answers of this model in {}.", len(self.cache), self.cache.folder)

    def provenance(self) -> dict[str, Any]:
        """Return what the result file says about the model."""
        location = self.checkpoint.location
        return {
            "weights_fingerprint": self.identity["weights"],
            "adapter_hash": self.identity["adapter"],
            "base": location.base,
            "adapter": location.adapter,
            "processor": location.processor,
            **{name: self.identity[name] for name in ("prompt_style", "dtype", "attn_implementation")},
            "system_prompt": self.system_prompt,
            "batch_size": self.batch_size,
            "device": _device_name(self.device),
        }

    # ---- what lmms-eval calls -----------------------------------------------------------------------------------

    def generate_until(self, requests: list[Instance]) -> list[GenerationResult]:
        """Answer all requests, in their order. An error ends the program: it is never an empty answer."""
        try:
            return self._generate_until(requests)
        except torch.OutOfMemoryError as error:
            raise EvaluationAborted(
                "out of memory: not even one question fits beside the model. Use a larger GPU or a smaller model. "
                f"({error})"
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
        asked: list[Answer] = []
        started = time.perf_counter()
        with tqdm(total=len(queue), desc="umu_hf", unit=" questions", disable=self.rank != 0) as progress:
            answering = Answering(self.checkpoint, self.batch_size, share_images=self.arguments.share_images)
            for batch in answering.answers(self._to_ask(queue, answers, progress)):
                if self.cache is not None:
                    self.cache.put({one.key: answer for one, answer in batch})
                answers |= {one.request.index: answer for one, answer in batch}
                asked += [answer for _, answer in batch]
                progress.update(len(batch))
        logger.info("umu_hf: asked {} questions, found {} answers in the cache.", len(asked), len(queue) - len(asked))
        self._log_speed(asked, time.perf_counter() - started)
        return [_result(answers[index]) for index in range(len(requests))]

    def _to_ask(self, queue: Sequence[Request], answers: dict[int, Answer], progress: Any) -> Iterator[Prompted]:
        """Yield what has to be asked; what the cache knows goes straight into `answers`."""
        for request in queue:
            prompt, images = write_prompt(self.checkpoint.builder, request, self.system_prompt)
            key = None if self.cache is None else question_key(prompt, images, request.settings)
            kept = None if self.cache is None else self.cache.get(key)
            if kept is None:
                yield Prompted(request, prompt, images, key)
            else:
                answers[request.index] = kept
                progress.update(1)

    def _read(self, index: int, instance: Instance) -> Request:
        context, to_messages, kwargs, doc_id, task, split = instance.args
        document = self.task_dict[task][split][doc_id]
        return Request(index, context, to_messages, document, GenerationSettings.from_task(kwargs), task)

    def _log_speed(self, answers: Sequence[Answer], seconds: float) -> None:
        tokens = sum(answer.output_tokens for answer in answers)
        log_metrics(
            total_elapsed_time=seconds,
            total_gen_tokens=tokens,
            avg_speed=tokens / seconds,
            additional_metrics={"total_requests": len(answers), "questions_per_second": len(answers) / seconds},
        )


def write_prompt(builder: PromptBuilder, request: Request, system_prompt: str | None = None) -> tuple[str, list[Image]]:
    """Return the prompt and its images; images are read here, when their batch is due."""
    conversation = ChatMessages(messages=request.to_messages(request.document))
    images, videos, audios = conversation.extract_media()
    if videos or audios:
        raise GenerationError(f"task {request.task} sends video or audio; umu_hf answers text and image questions.")
    if not is_document(request.document):
        text = _chat(builder, conversation, request.task, system_prompt=system_prompt)
        return text, [_image(one) for one in images]
    # `context` is the document's prompt, unless a task adds a description or the command a system instruction.
    if builder.style == "published":
        # The question stands last; an example before it may be worded like it.
        before, _, after = request.document["published_prompt"].rpartition(request.document["prompt"])
        text = f"{before}{request.context}{after}"
        text = f"{system_prompt} {text}" if system_prompt else text
        _require_markers(text, len(images), request)
    else:
        text = _chat(builder, conversation, request.task, request.context, system_prompt)
        _require_question(text, request)
    return text, list(images)


def _require_markers(text: str, images: int, request: Request) -> None:
    """The published frame marks an image by a word that a question could hold too."""
    found = text.count(IMAGE_PLACEHOLDER)
    if found != images:
        person, task, key = (request.document[name] for name in ("profile_id", "task", "key"))
        raise GenerationError(
            f"the prompt for ID {person}, {task} {key} marks {found} images and has {images}: the question itself "
            f"holds {IMAGE_PLACEHOLDER}. Take it out of the data. Prompt: {text[:300]!r}"
        )


def _chat(
    builder: PromptBuilder,
    conversation: Any,
    task: str,
    last_text: str | None = None,
    system_prompt: str | None = None,
) -> str:
    """Return the chat template's prompt for a conversation; `last_text` stands in place of its last turn's text."""
    if not getattr(builder.processor, "chat_template", None):
        raise GenerationError(
            f"task {task} sends a conversation, and this checkpoint's processor has no chat template to write it with. "
            "Save one with the processor (chat_template.jinja), or leave this task out."
        )
    messages: list[dict[str, Any]] = [
        {"role": message.role, "content": [_content(part) for part in message.content]}
        for message in conversation.messages
    ]
    if last_text is not None:
        images = [part for part in messages[-1]["content"] if part["type"] == "image"]
        messages[-1]["content"] = [*images, {"type": "text", "text": last_text}]
    return chat_with_instruction(builder.chat, messages, system_prompt) if system_prompt else builder.chat(messages)


def _content(part: Any) -> dict[str, str]:
    return {"type": "text", "text": part.text} if part.type == "text" else {"type": "image"}


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


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
