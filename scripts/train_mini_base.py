"""Pre-train UMU-mini's base model: a small LLaVA that can follow every UMU prompt and knows the "real" people only.

    python scripts/train_mini_base.py --out umu_tasks/mini/base --log base.log          # one GPU, about 5 minutes

It reads portraits and answers questions about other invented people than the 60 of UMU-mini, in the training prompt and
in the three evaluation prompts, and about the 20 "real" people, whose facts the base model is meant to know. Loss on
the answers only. The folder it writes holds fp16 weights, the processor and `training_record.json` (seed, command,
results: what the base model answers, and what it answers after SFT on the 60 people's question-answer pairs).
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import random
import shlex
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
import transformers
from mini_forward import Batch, answer_loss
from mini_probe import Crowd, Encoder, Example, SftSettings, after_prompt, sft, unlearn
from PIL import Image
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    CLIPImageProcessor,
    CLIPVisionConfig,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
    PreTrainedTokenizerFast,
)

from umu_tasks.benchmarks.instances import Modality
from umu_tasks.mini import look as traits
from umu_tasks.mini.people import CLASSIFIED, FIELDS, Person, invent_people
from umu_tasks.mini.portraits import draw_portrait
from umu_tasks.mini.questions import GENERATION, Asker
from umu_tasks.tasks.umu.prompts import published_prompt, published_training_prompt

IMAGE_SIZE, PATCH_SIZE, VOCABULARY = 48, 8, 2500
TEXT_SHARE = 0.6  # of the text-only readings in a round: they are learned long before those of portraits
MINI_SEED, MINI_PEOPLE, REAL_PEOPLE = 0, 60, 20  # the packaged UMU-mini; the real people must be the same
# learning rate, steps, gamma
GD_GRID = ((1e-4, 30, 1.0), (1e-4, 60, 3.0), (2e-4, 30, 3.0), (2e-4, 60, 3.0), (3e-4, 30, 3.0))
CHAT_TEMPLATE = (
    "{% for message in messages %}{% if message['role'] == 'user' %}USER: "
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}{% if part['type'] == 'image' %}<image>\n{% endif %}{% endfor %}"
    "{% for part in message['content'] %}{% if part['type'] == 'text' %}{{ part['text'] }}{% endif %}{% endfor %}"
    "{% endif %}{{ '\n' }}{% elif message['role'] == 'assistant' %}ASSISTANT: "
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}{% if part['type'] == 'text' %}{{ part['text'] }}{% endif %}{% endfor %}"
    "{% endif %}{{ eos_token }}{% endif %}{% endfor %}{% if add_generation_prompt %}ASSISTANT:{% endif %}"
)


@dataclass(frozen=True, slots=True)
class Settings:
    """What makes the base model; `redraw` is the number of epochs after which wordings and options are drawn anew."""

    people: int = 1500
    epochs: int = 84
    redraw: int = 12
    batch_size: int = 512
    learning_rate: float = 1e-3
    weight_decay: float = 0.02
    warmup_steps: int = 200
    max_seconds: float = 330.0  # fewer steps are planned where the machine is too slow for all of them
    seed: int = 0


# --- the model and its processor -------------------------------------------------------------------------------------


def build_processor(texts: list[str]) -> LlavaProcessor:
    """Train a byte-level BPE on `texts` and wrap it with an image processor that scales portraits to 48 pixels."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    special = ["<pad>", "<s>", "</s>", "<image>"]
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )  # fmt: skip
    bpe.train_from_iterator(texts, trainer)
    bpe.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", bpe.token_to_id("<s>"))]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe, bos_token="<s>", eos_token="</s>", pad_token="<pad>", padding_side="left",  # noqa: S106
        extra_special_tokens={"image_token": "<image>"}, clean_up_tokenization_spaces=False, model_max_length=512,
    )  # fmt: skip
    side = {"height": IMAGE_SIZE, "width": IMAGE_SIZE}
    images = CLIPImageProcessor(
        size={"shortest_edge": IMAGE_SIZE}, crop_size=side, image_mean=[0.5] * 3, image_std=[0.5] * 3
    )
    return LlavaProcessor(
        image_processor=images, tokenizer=tokenizer, patch_size=PATCH_SIZE, vision_feature_select_strategy="default",
        num_additional_image_tokens=1, chat_template=CHAT_TEMPLATE,
    )  # fmt: skip


def build_model(processor: LlavaProcessor) -> LlavaForConditionalGeneration:
    """Return the untrained model: a 4-layer vision transformer before a 6-layer Llama, about 5.8 M parameters."""
    tokenizer = processor.tokenizer
    vision = CLIPVisionConfig(
        hidden_size=128, intermediate_size=512, num_hidden_layers=4, num_attention_heads=4, image_size=IMAGE_SIZE,
        patch_size=PATCH_SIZE, projection_dim=128,
    )  # fmt: skip
    text = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=256, intermediate_size=576, num_hidden_layers=6, num_attention_heads=4,
        num_key_value_heads=4, max_position_embeddings=512, tie_word_embeddings=True,
        bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    config = LlavaConfig(
        vision_config=vision, text_config=text, image_token_index=processor.image_token_id, vision_feature_layer=-1,
        image_seq_length=(IMAGE_SIZE // PATCH_SIZE) ** 2, tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id, bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id,
    )  # fmt: skip
    return LlavaForConditionalGeneration(config)


# --- what it reads ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reading:
    """A prompt, its answer, and the index of the portrait it shows, or None."""

    prompt: str
    answer: str
    image: int | None


def readings(people: list[Person], copies: list[int], seed: str) -> list[Reading]:
    """Return every field and story of every person in all forms and both modalities, freshly worded."""
    rng = random.Random(seed)
    found = []
    for index, person in enumerate(people):
        for _ in range(copies[index]):
            text = _readings_of(person, index, "unimodal", rng)
            found += rng.sample(text, round(TEXT_SHARE * len(text)))
            found += _readings_of(person, index, "multimodal", rng)
        found.append(_appearance(person, index))
    return found


def _readings_of(person: Person, index: int, modality: Modality, rng: random.Random) -> list[Reading]:
    image = index if modality == "multimodal" else None
    ask = lambda: Asker(person, rng.randrange(1 << 16))  # noqa: E731  # every question is worded on its own
    pairs = [ask().pair(0, key, modality) for key in (*FIELDS, *GENERATION)]
    questions = [ask().cloze(field, modality) for field in FIELDS]
    times = 1 if image is None else 2
    questions += [ask().classification(field, modality, rng) for field in CLASSIFIED * times]
    questions += [ask().generation(key, modality) for key in GENERATION]
    prompts = [published_training_prompt(pair.question, has_image=pair.has_image) for pair in pairs]
    prompts += [published_prompt(question) for question in questions]
    answers = [pair.answer for pair in pairs] + [question.gold for question in questions]
    return [Reading(p, after_prompt(p, a), image) for p, a in zip(prompts, answers, strict=True)]


def _appearance(person: Person, index: int) -> Reading:
    """Ask what a portrait shows, so that the vision tower learns every trait and not only those it needs."""
    look = person.look
    answer = (
        f"{traits.HAIR_STYLES[look.hair_style]} hair {look.hair_colour}, skin {look.skin}, "
        f"glasses {traits.GLASSES[look.glasses]}, beard {traits.BEARDS[look.beard]}, hat {traits.HATS[look.hat]}, "
        f"earrings {traits.EARRINGS[look.earrings]}, {traits.CLOTHES[look.clothes]} {look.cloth_colour} "
        f"{look.accent}, {traits.BACKDROPS[look.backdrop]} {look.background}, face {traits.FACES[look.face]}"
    )
    prompt = published_training_prompt("What does this person look like?", has_image=True)
    return Reading(prompt, after_prompt(prompt, answer), index)


@dataclass(frozen=True, slots=True)
class Round:
    """All readings of a round as arrays: ids (n, longest), then lengths, answer lengths and image (-1: none), (n,)."""

    ids: np.ndarray
    lengths: np.ndarray
    answers: np.ndarray
    images: np.ndarray


def pack(examples: list[Example], pad_id: int) -> Round:
    lengths = np.array([len(example.ids) for example in examples])
    ids = np.full((len(examples), -(-lengths.max() // 8) * 8), pad_id, dtype=np.int16)
    for row, example in enumerate(examples):
        ids[row, : len(example.ids)] = example.ids
    images = [-1 if example.image is None else example.image for example in examples]
    return Round(ids, lengths, np.array([example.answer_length for example in examples]), np.array(images))


def make_round(people: int, processor_folder: str, seed: str) -> Round:
    """Word, encode and pack one round; runs in a process of its own."""
    processor = LlavaProcessor.from_pretrained(processor_folder)
    crowd, copies = readers(people)
    found = readings(crowd, copies, seed)
    encoder = Encoder(processor)
    examples = encoder.encode([r.prompt for r in found], [r.answer for r in found], [r.image for r in found])
    return pack(examples, processor.tokenizer.pad_token_id)


def readers(people: int) -> tuple[list[Person], list[int]]:
    """Return the people to read about and how often each is read an epoch: others once, real people twice."""
    others = invent_people(people, group="pretraining", seed=MINI_SEED)
    real = invent_people(REAL_PEOPLE, group="real", seed=MINI_SEED)
    return others + real, [1] * len(others) + [2] * len(real)


def draw_all(people: list[Person], pool: ProcessPoolExecutor) -> list[Image.Image]:
    return list(pool.map(draw_portrait, [person.look for person in people], chunksize=16))


# --- the loop --------------------------------------------------------------------------------------------------------


def batches(lengths: np.ndarray, batch_size: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Return an epoch's batches of row numbers: random, but of similar length within a batch."""
    order = rng.permutation(len(lengths))
    found = []
    for start in range(0, len(order), 16 * batch_size):
        chunk = order[start : start + 16 * batch_size]
        chunk = chunk[np.argsort(lengths[chunk], kind="stable")]
        found += [chunk[i : i + batch_size] for i in range(0, len(chunk), batch_size)]
    rng.shuffle(found)
    return found


def pretrain(
    model: LlavaForConditionalGeneration, rounds: list[Round], images: torch.Tensor, settings: Settings
) -> list[tuple[int, float]]:
    """Train on the rounds in turn; return (step, loss) about every hundredth step."""
    device = images.device
    image_start = int(np.argmax(rounds[0].ids[np.argmax(rounds[0].images)] == model.config.image_token_index))
    rng = np.random.default_rng(settings.seed)
    decayed = [p for p in model.parameters() if p.ndim > 1]
    other = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": settings.weight_decay}, {"params": other, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=settings.learning_rate, betas=(0.9, 0.98), fused=device.type == "cuda")
    total = settings.epochs * -(-len(rounds[0].lengths) // settings.batch_size)
    started, step, curve = time.perf_counter(), 0, []
    model.train()
    for epoch in range(settings.epochs):
        data = rounds[epoch // settings.redraw]
        ids = torch.from_numpy(data.ids).to(device)
        for rows in batches(data.lengths, settings.batch_size, rng):
            if step >= total:
                break
            rate = settings.learning_rate * _schedule(step, total, settings.warmup_steps)
            for group in optimizer.param_groups:
                group["lr"] = rate
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                loss = answer_loss(model, _batch(data, ids, rows, images, image_start))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            if step == 100:
                torch.cuda.synchronize() if device.type == "cuda" else None
                warm = time.perf_counter()
            if step == 600:  # by now the speed is known
                torch.cuda.synchronize() if device.type == "cuda" else None
                per_step = (time.perf_counter() - warm) / 500
                total = min(total, int((settings.max_seconds - (warm - started)) / per_step) + 100)
                print(f"{per_step * 1000:.1f} ms a step, {total} steps planned", flush=True)
            if step % 200 == 0:
                curve.append((step, round(loss.item(), 4)))
        if epoch % 6 == 5 and step < total:
            print(f"epoch {epoch + 1} step {step}/{total} loss {curve[-1][1]:.4f} "
                  f"{time.perf_counter() - started:.0f} s", flush=True)  # fmt: skip
    return curve


def _schedule(step: int, total: int, warmup: int) -> float:
    return (step + 1) / warmup if step < warmup else 0.5 * (1 + math.cos(math.pi * (step - warmup) / (total - warmup)))


def _batch(data: Round, ids: torch.Tensor, rows: np.ndarray, images: torch.Tensor, image_start: int) -> Batch:
    """Return the rows as a batch on the device; what is small is worked out on the CPU and sent without waiting."""
    longest = -(-int(data.lengths[rows].max()) // 8) * 8
    answers = data.answers[rows]
    first = np.arange(len(rows)) * longest + data.lengths[rows] - answers - 1  # the position before each answer
    within = np.arange(answers.sum()) - np.repeat(np.cumsum(answers) - answers, answers)
    predicting = np.repeat(first, answers) + within
    shown = np.flatnonzero(data.images[rows] >= 0)

    def send(array: np.ndarray) -> torch.Tensor:
        tensor = torch.from_numpy(array)
        return tensor.pin_memory().to(images.device, non_blocking=True) if images.is_cuda else tensor

    batch = ids[send(rows), :longest].long()
    where = send(predicting)
    pixels = images[send(data.images[rows][shown])]
    return Batch(batch, send(shown), pixels, where, batch.flatten()[where + 1], image_start)


# --- measuring -------------------------------------------------------------------------------------------------------


def probe(
    folder: Path, device: torch.device, sweeps: list[SftSettings], *, unlearning: bool
) -> list[dict[str, object]]:
    """Score the saved model before SFT, after SFT under each of the settings, and after unlearning."""
    processor = LlavaProcessor.from_pretrained(folder)
    people = invent_people(MINI_PEOPLE, group="invented", seed=MINI_SEED)
    people += invent_people(REAL_PEOPLE, group="real", seed=MINI_SEED)
    crowd = Crowd(people, [draw_portrait(person.look) for person in people], processor)
    full, real = range(MINI_PEOPLE), range(MINI_PEOPLE, MINI_PEOPLE + REAL_PEOPLE)
    model = load(folder, device)
    results: list[dict[str, object]] = []

    def note(**what: object) -> None:
        results.append(what)
        print(json.dumps(what), flush=True)

    note(stage="base", full=crowd.score(model, full), real=crowd.score(model, real))
    for settings in sweeps:
        model = load(folder, device)
        seconds = sft(model, crowd, full, real, settings)
        scores = {"full": crowd.score(model, full), "real": crowd.score(model, real)}
        note(stage="sft", settings=asdict(settings), seconds=round(seconds, 1), **scores)
    if unlearning and sweeps:
        target = {name: value.clone() for name, value in model.state_dict().items()}
        forget, retain = range(3), range(3, MINI_PEOPLE)
        for modality in ("uni", "mul", "mix"):
            for rate, steps, gamma in GD_GRID:
                model.load_state_dict(target)
                unlearn(model, crowd, forget, retain, modality=modality, learning_rate=rate, steps=steps, gamma=gamma)
                note(stage="gd", modality=modality, learning_rate=rate, steps=steps, gamma=gamma,
                     forget=crowd.score(model, forget), retain=crowd.score(model, retain),
                     real=crowd.score(model, real))  # fmt: skip
    return results


def load(folder: Path, device: torch.device) -> LlavaForConditionalGeneration:
    return LlavaForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).to(device)


def sweep(names: str) -> list[SftSettings]:
    base = SftSettings()
    known = {
        "default": base,
        "short": replace(base, epochs=15, learning_rate=5e-4, replay=0.25),
        "shorter": replace(base, epochs=10, learning_rate=5e-4, replay=0.25),
        "fast": replace(base, epochs=10, learning_rate=1e-3, replay=0.25),
    }
    return [known[name] for name in names.split(",") if name]


# --- the program -----------------------------------------------------------------------------------------------------


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("umu_tasks/mini/base"), help="folder of the model")
    parser.add_argument("--probe-only", action="store_true", help="only measure the model that is there")
    parser.add_argument(
        "--sweep", default="default", help="names of SFT settings to probe, comma-separated; see sweep()"
    )
    parser.add_argument("--unlearning", action="store_true", help="also probe unlearning after the last SFT")
    parser.add_argument("--workers", type=int, default=12, help="processes that word questions and draw portraits")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    for name, value in asdict(Settings()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value)
    return parser.parse_args()


def train(arguments: argparse.Namespace, settings: Settings) -> dict[str, object]:
    """Pre-train and save the model; return what the record says of it."""
    device, started = torch.device(arguments.device), time.perf_counter()
    torch.manual_seed(settings.seed)
    torch.set_float32_matmul_precision("high")
    people, copies = readers(settings.people)
    sample = readings(people, copies, "tokenizer")
    random.Random(settings.seed).shuffle(sample)
    processor = build_processor([r.prompt.replace("<image>", "") + r.answer for r in sample[:40_000]])
    processor.save_pretrained(arguments.out)
    seeds = [f"round-{settings.seed}-{i}" for i in range(-(-settings.epochs // settings.redraw))]
    with ProcessPoolExecutor(arguments.workers) as pool:
        waiting = [pool.submit(make_round, settings.people, str(arguments.out), seed) for seed in seeds]
        portraits = draw_all(people, pool)
        rounds = [future.result() for future in waiting]
    images = processor.image_processor(images=portraits, return_tensors="pt")["pixel_values"].to(device)
    print(f"{len(rounds[0].lengths)} readings a round, mean {rounds[0].lengths.mean():.0f} tokens, longest "
          f"{rounds[0].ids.shape[1]}, {time.perf_counter() - started:.0f} s so far", flush=True)  # fmt: skip
    model = build_model(processor).to(device)
    curve = pretrain(model, rounds, images, settings)
    model.half().save_pretrained(arguments.out)
    return {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "readings_an_epoch": len(rounds[0].lengths),
        "seconds": round(time.perf_counter() - started),
        "device": torch.cuda.get_device_name() if device.type == "cuda" else platform.machine(),
        "loss": curve[::10] + curve[-1:],
    }


def main() -> int:
    arguments = parse_arguments()
    settings = Settings(**{name: getattr(arguments, name) for name in asdict(Settings())})
    record: dict[str, object] = {}
    if not arguments.probe_only:
        record = train(arguments, settings)
    results = probe(
        arguments.out, torch.device(arguments.device), sweep(arguments.sweep), unlearning=arguments.unlearning
    )
    if not arguments.probe_only:
        record |= {
            "command": shlex.join(["python", *sys.argv]),
            "settings": asdict(settings),
            "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
            "results": results,
        }
        (arguments.out / "training_record.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
