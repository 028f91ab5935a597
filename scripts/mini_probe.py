"""Answers of the small base model: scored before SFT, after SFT on question-answer pairs, and after unlearning.

A quick look right after pre-training, with loops of its own so that it needs neither the harness nor the trainers. The
numbers to quote come from `lmms-eval`.
"""

from __future__ import annotations

import difflib
import random
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from transformers import LlavaForConditionalGeneration, LlavaProcessor

from umu_tasks.benchmarks.instances import Question, TrainingPair
from umu_tasks.mini.people import Person
from umu_tasks.mini.questions import instances, training_pairs
from umu_tasks.tasks.umu.prompts import published_prompt, published_training_prompt

IGNORED = -100  # label of a token that is not part of the answer


@dataclass(frozen=True, slots=True)
class Example:
    """Token ids of prompt and answer; the last `answer_length` are the answer's. `image` is None for text alone."""

    ids: list[int]
    answer_length: int
    image: int | None


class Encoder:
    """Turns prompts and answers into token ids, the image placeholder written out once for each image token."""

    def __init__(self, processor: LlavaProcessor) -> None:
        self._tokenizer = processor.tokenizer
        self._image_tokens = "<image>" * image_token_count(processor)

    def encode(self, prompts: Sequence[str], answers: Sequence[str], images: Sequence[int | None]) -> list[Example]:
        """Encode prompts (which start with the bos token) and answers (which end with the eos token)."""
        expanded = [prompt.replace("<image>", self._image_tokens) for prompt in prompts]
        prompt_ids = self._tokenizer(expanded).input_ids
        answer_ids = self._tokenizer([answer + self._tokenizer.eos_token for answer in answers],
                                     add_special_tokens=False).input_ids  # fmt: skip
        return [Example(p + a, len(a), image) for p, a, image in zip(prompt_ids, answer_ids, images, strict=True)]


def image_token_count(processor: LlavaProcessor) -> int:
    side = processor.image_processor.crop_size["height"] // processor.patch_size
    return side * side


def after_prompt(prompt: str, answer: str) -> str:
    """Return the answer as it follows the prompt: after one space, unless the prompt ends with it."""
    return answer if prompt.endswith(" ") else f" {answer}"


def collate(examples: Sequence[Example], pad_id: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Return right-padded input ids and labels, both (batch, length); the length is a multiple of 8."""
    length = -(-max(len(example.ids) for example in examples) // 8) * 8
    ids = torch.full((len(examples), length), pad_id)
    labels = torch.full((len(examples), length), IGNORED)
    for row, example in enumerate(examples):
        end = len(example.ids)
        ids[row, :end] = torch.tensor(example.ids)
        labels[row, end - example.answer_length : end] = torch.tensor(example.ids[end - example.answer_length :])
    return ids.to(device, non_blocking=True), labels.to(device, non_blocking=True)


def answer_loss(
    model: LlavaForConditionalGeneration, ids: torch.Tensor, labels: torch.Tensor, pixels: torch.Tensor | None
) -> torch.Tensor:
    """Return the mean cross-entropy over answer tokens, nats a token.

    Padding is on the right, so that causal attention alone keeps it out of the answers and no mask is needed.
    """
    hidden = model.model(input_ids=ids, pixel_values=pixels, use_cache=False).last_hidden_state
    is_target = labels[:, 1:] != IGNORED  # (batch, length - 1)
    logits = model.lm_head(hidden[:, :-1][is_target])  # (answer tokens, vocab)
    return torch.nn.functional.cross_entropy(logits.float(), labels[:, 1:][is_target])


def pixels_of(examples: Sequence[Example], images: torch.Tensor) -> torch.Tensor | None:
    """Return the pixel values of the examples that show an image, in order, or None if none does."""
    shown = [example.image for example in examples if example.image is not None]
    return images[torch.tensor(shown, device=images.device)] if shown else None


class Crowd:
    """People with their portraits' pixel values on the model's device."""

    def __init__(self, people: Sequence[Person], portraits: Sequence[object], processor: LlavaProcessor) -> None:
        self.people = list(people)
        self.processor = processor
        self.encoder = Encoder(processor)
        self.pixels = processor.image_processor(images=list(portraits), return_tensors="pt")["pixel_values"]

    def training_examples(self, people: Iterable[int], keep: Callable[[TrainingPair], bool]) -> list[Example]:
        """Return the training pairs of the people with these indices, in the training prompt."""
        found = [(i, pair) for i in people for pair in training_pairs(self.people[i]) if keep(pair)]
        prompts = [published_training_prompt(pair.question, has_image=pair.has_image) for _, pair in found]
        answers = [after_prompt(prompt, pair.answer) for prompt, (_, pair) in zip(prompts, found, strict=True)]
        return self.encoder.encode(prompts, answers, [i if pair.has_image else None for i, pair in found])

    @torch.inference_mode()
    def score(self, model: LlavaForConditionalGeneration, people: Iterable[int]) -> dict[str, float]:
        """Return the share of right answers, or mean ROUGE-L, a task and modality: ``cls_uni``, ``gen_mul`` …"""
        asked = [(i, q) for i in people for instance in instances(self.people[i]) for q in instance]
        model.eval()
        scores: dict[str, list[float]] = defaultdict(list)
        for is_shown in (False, True):
            some = [(i, q) for i, q in asked if q.has_image == is_shown]
            outputs = self._outputs(model, some)
            for (_, question), output in zip(some, outputs, strict=True):
                for name, value in _verdicts(question, output):
                    scores[f"{name}_{'mul' if is_shown else 'uni'}"].append(value)
        return {name: round(sum(values) / len(values), 4) for name, values in sorted(scores.items())}

    def _outputs(self, model: LlavaForConditionalGeneration, asked: list[tuple[int, Question]]) -> list[str]:
        outputs: list[str] = []
        for start in range(0, len(asked), 512):
            some = asked[start : start + 512]
            expanded = [published_prompt(q).replace("<image>", self.encoder._image_tokens) for _, q in some]
            batch = self.processor.tokenizer(expanded, return_tensors="pt", padding=True, padding_side="left")
            batch = {name: batch[name].to(model.device) for name in ("input_ids", "attention_mask")}
            if some[0][1].has_image:
                batch["pixel_values"] = self.pixels[[i for i, _ in some]].to(model.device)
            written = model.generate(**batch, max_new_tokens=60, do_sample=False)
            written = written[:, batch["input_ids"].shape[1] :]
            outputs += self.processor.tokenizer.batch_decode(written, skip_special_tokens=True)
        return [output.strip() for output in outputs]


def _verdicts(question: Question, output: str) -> Iterator[tuple[str, float]]:
    if question.task == "gen":
        yield "gen", rouge_l(output, question.gold)
    elif question.task == "cloze":
        yield "cloze", float(question.gold.lower() in output.split(".")[0].lower())
    else:
        options = list(question.options.values())
        nearest = max(options, key=lambda option: difflib.SequenceMatcher(None, output, option).ratio())
        yield "cls", float(nearest == question.gold)
        yield "cls_exact", float(output.lower() == question.gold.lower())


def rouge_l(output: str, gold: str) -> float:
    """Return the ROUGE-L F-measure over lower-cased words, without stemming."""
    one, other = (re.findall(r"[a-z0-9]+", text.lower()) for text in (output, gold))
    row = [0] * (len(other) + 1)
    for word in one:
        previous = 0
        for j, theirs in enumerate(other, start=1):
            previous, row[j] = row[j], previous + 1 if word == theirs else max(row[j], row[j - 1])
    return 2 * row[-1] / (len(one) + len(other)) if one and other else 0.0


@dataclass(frozen=True, slots=True)
class SftSettings:
    """How the probe teaches the invented people; `replay` is the share of the real people's pairs seen an epoch."""

    learning_rate: float = 3e-4
    epochs: int = 25
    batch_size: int = 64
    replay: float = 1.0
    warmup: float = 0.05
    max_norm: float = 1.0
    bf16: bool = False
    seed: int = 0


def sft(
    model: LlavaForConditionalGeneration, crowd: Crowd, invented: range, real: range, settings: SftSettings
) -> float:
    """Fine-tune the decoder and projector on the invented people's pairs and some real people's; return seconds."""
    learn = crowd.training_examples(invented, lambda pair: True)
    known = crowd.training_examples(real, lambda pair: True)
    replayed = round(settings.replay * len(known))
    steps = settings.epochs * -(-(len(learn) + replayed) // settings.batch_size)
    optimizer, schedule = _optimizer(model, settings.learning_rate, steps, settings.warmup)
    rng, pixels = random.Random(settings.seed), crowd.pixels.to(model.device)
    started = time.perf_counter()
    model.train()
    for _ in range(settings.epochs):
        epoch = learn + rng.sample(known, replayed)
        rng.shuffle(epoch)
        for start in range(0, len(epoch), settings.batch_size):
            _loss(model, crowd, epoch[start : start + settings.batch_size], pixels, settings.bf16).backward()
            _step(model, optimizer, settings.max_norm)
            schedule.step()
    return time.perf_counter() - started


def unlearn(
    model: LlavaForConditionalGeneration,
    crowd: Crowd,
    forget: range,
    retain: range,
    *,
    modality: str,
    learning_rate: float = 1e-4,
    steps: int = 30,
    batch_size: int = 24,
    gamma: float = 1.0,
    retain_both: bool = True,
    seed: int = 0,
) -> None:
    """Gradient difference: minus the forget set's loss plus gamma times the retain set's."""
    rng, pixels = random.Random(seed), crowd.pixels.to(model.device)
    modalities = {"uni": ("unimodal",), "mul": ("multimodal",), "mix": ("unimodal", "multimodal")}[modality]
    optimizer, _ = _optimizer(model, learning_rate, steps, 0)
    model.train()
    groups = [(forget, m, -1.0) for m in modalities]
    groups += [(retain, m, gamma) for m in (("unimodal", "multimodal") if retain_both else modalities)]
    pools = [
        (
            [
                e
                for e in crowd.training_examples(people, lambda _: True)
                if (e.image is not None) == (m == "multimodal")
            ],
            w,
        )
        for people, m, w in groups
    ]
    streams = [(_endless(pool, batch_size, rng), weight) for pool, weight in pools]
    for _ in range(steps):
        for stream, weight in streams:
            (weight * _loss(model, crowd, next(stream), pixels, False)).backward()
        _step(model, optimizer, 1.0)


def _endless(pool: list[Example], batch_size: int, rng: random.Random) -> Iterator[list[Example]]:
    waiting: list[Example] = []
    while True:
        while len(waiting) < batch_size:
            waiting += rng.sample(pool, len(pool))
        yield waiting[:batch_size]
        waiting = waiting[batch_size:]


def _optimizer(
    model: LlavaForConditionalGeneration, learning_rate: float, steps: int, warmup: float
) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
    model.model.vision_tower.requires_grad_(False)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=learning_rate, weight_decay=0.0)
    warm = max(1, round(warmup * steps))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / warm) * max(0.0, 1 - max(0, step - warm) / max(1, steps - warm))
    )
    return optimizer, schedule


def _loss(
    model: LlavaForConditionalGeneration, crowd: Crowd, batch: list[Example], pixels: torch.Tensor, bf16: bool
) -> torch.Tensor:
    ids, labels = collate(batch, crowd.processor.tokenizer.pad_token_id, model.device)
    with torch.autocast(model.device.type, torch.bfloat16, enabled=bf16):
        return answer_loss(model, ids, labels, pixels_of(batch, pixels))


def _step(model: LlavaForConditionalGeneration, optimizer: torch.optim.Optimizer, max_norm: float) -> None:
    torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], max_norm)
    optimizer.step()
    optimizer.zero_grad()
