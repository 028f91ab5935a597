"""Questions per second: the published evaluator's loop and umu_hf's, on the same model and questions, in one run.

    python scripts/bench_eval.py --shape llava-1.5-7b --device cuda --json bench_eval.json
    python scripts/bench_eval.py --shape mini --device cpu --people 60 --real 20

The published loop asks one question at a time: open the image, run the processor, `generate`, decode. It is timed on a
sample of each kind of question and scaled up to all; ours is timed on all of them. Answers never end early, so both
write `--short` new tokens for classification and cloze and `--long` for generation. The published scripts merge an
adapter before it is asked; ours need not, and `--lora 64` shows what that takes.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from measuring import clock, machine, measured_flops, peak_gib, reset_peak, seconds_of
from PIL.Image import Image
from shapes import SHAPES, checkpoint_of, with_adapter
from tqdm import tqdm

from umu_tasks.backend.answering import Answering
from umu_tasks.backend.checkpoint import Checkpoint
from umu_tasks.backend.generation import GenerationSettings
from umu_tasks.backend.low_rank import shorten_adapter
from umu_tasks.backend.memory import fitting_rows, state_bytes
from umu_tasks.benchmarks.instances import TASKS, Question
from umu_tasks.benchmarks.profiles import ProfileSet
from umu_tasks.benchmarks.sources import open_source
from umu_tasks.mini.build import build_mini
from umu_tasks.tasks.documents import in_asking_order


@dataclass(frozen=True, slots=True)
class Asked:
    """A question; its portrait is read when it is asked."""

    kind: str
    person: str
    prompt: str
    settings: GenerationSettings
    read: Callable[[], Image] | None


@dataclass(frozen=True, slots=True)
class Ready:
    """A question as `Answering` takes it."""

    prompt: str
    settings: GenerationSettings
    images: list[Image]

    @classmethod
    def of(cls, one: Asked) -> Ready:
        return cls(one.prompt, one.settings, [] if one.read is None else [one.read()])


def main() -> None:
    """Run both ways, print the table."""
    options = _options()
    device = torch.device(options.device)
    dtype = torch.float32 if device.type == "cpu" else torch.bfloat16
    checkpoint = checkpoint_of(options.shape, device, dtype)
    with tempfile.TemporaryDirectory() as folder:
        build_mini(Path(folder), options.people, options.real, 0)
        questions = _questions(checkpoint, Path(folder), options)
        result = _measure(checkpoint, questions, options)
    result["floor"] = _floor(checkpoint, questions, device, dtype)
    result["machine"] = machine(device)
    _print(result)
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").split("\n", 1)[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--shape", choices=SHAPES, default="mini", help="sizes of the model")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--people", type=int, default=500, help="invented people")
    parser.add_argument("--real", type=int, default=153, help='"real" people')
    parser.add_argument("--short", type=int, default=8, help="new tokens, classification and cloze")
    parser.add_argument("--long", type=int, default=60, help="new tokens, generation")
    parser.add_argument("--batch_size", type=int, default=0, help="ours; 0: what fits into the memory")
    parser.add_argument("--sample", type=int, default=6, help="questions of each kind asked the published way")
    parser.add_argument("--lora", type=int, default=0, metavar="RANK", help="ask an adapter of this rank too")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    return parser.parse_args()


def _questions(checkpoint: Checkpoint, folder: Path, options: argparse.Namespace) -> list[Asked]:
    """Return the questions of full and real, one person's together, as the backend asks them."""
    source = open_source(str(folder))
    asked: list[Asked] = []
    for split in ("full", "real"):
        people = source.load(split)
        for task in TASKS:
            tokens = options.long if task == "gen" else options.short
            settings = GenerationSettings(max_new_tokens=tokens)
            asked += [_asked(checkpoint, people, one, settings) for one in in_asking_order(people, task)]
    return asked


def _asked(checkpoint: Checkpoint, people: ProfileSet, question: Question, settings: GenerationSettings) -> Asked:
    read = people.by_id(question.profile_id).open_image if question.has_image else None
    kind = f"{question.task} {question.modality}"
    person = f"{people.split} {question.profile_id}"
    return Asked(kind, person, checkpoint.builder.evaluation(question), settings, read)


# ---- the two ways -----------------------------------------------------------------------------------------------


def _measure(checkpoint: Checkpoint, questions: Sequence[Asked], options: argparse.Namespace) -> dict[str, Any]:
    device = checkpoint.model.device
    kinds = sorted({one.kind for one in questions})
    counts = {kind: sum(one.kind == kind for one in questions) for kind in kinds}
    _published(checkpoint, next(one for one in questions if one.read))  # warm-up
    seconds: dict[str, float] = {}
    reset_peak(device)
    for kind in tqdm(kinds, desc="published loop"):
        sample = [one for one in questions if one.kind == kind][: options.sample]
        started = clock(device)
        for one in sample:
            _published(checkpoint, one)
        seconds[kind] = (clock(device) - started) / len(sample)
    published_peak = peak_gib(device)
    longest = max(_tokens(checkpoint, one) for one in questions[:50])
    batch_size = options.batch_size or fitting_rows(checkpoint.model, longest)
    ours = _ours(checkpoint, questions, batch_size)
    total = sum(counts[kind] * seconds[kind] for kind in kinds)
    published = {"seconds": total, "seconds_a_question": seconds, "counts": counts, "peak_GiB": published_peak}
    result = {"questions": len(questions), "published": published, "ours": ours, "ratio": total / ours["seconds"]}
    if options.lora:
        adapted = replace(checkpoint, model=with_adapter(checkpoint.model, options.lora))
        result["adapter_peft_layers"] = _ours(adapted, questions, batch_size)
        shorten_adapter(adapted.model)
        result["adapter"] = _ours(adapted, questions, batch_size)
    return result


def _ours(checkpoint: Checkpoint, questions: Sequence[Asked], batch_size: int) -> dict[str, Any]:
    """Ask all questions as the backend does."""
    device = checkpoint.model.device
    list(Answering(checkpoint, batch_size).answers(map(Ready.of, questions[: 2 * batch_size])))  # warm-up
    reset_peak(device)
    started = clock(device)
    answering = Answering(checkpoint, batch_size)
    with tqdm(total=len(questions), desc="umu_hf") as progress:
        for batch in answering.answers(map(Ready.of, _by_person(questions))):
            progress.update(len(batch))
    if progress.n != len(questions):
        raise RuntimeError(f"{progress.n} of {len(questions)} questions were answered")
    return {"seconds": clock(device) - started, "batch_size": answering.batch_size, "peak_GiB": peak_gib(device)}


def _by_person(questions: Sequence[Asked]) -> list[Asked]:
    """Order as the backend does: one person's questions with an image together, then the rest."""
    return sorted(questions, key=lambda one: (one.read is None, one.person if one.read else ""))


@torch.inference_mode()
def _published(checkpoint: Checkpoint, one: Asked) -> str:
    """Ask one question as the published evaluator does: batch size 1, everything anew."""
    processor, model = checkpoint.builder.processor, checkpoint.model
    images = {"images": one.read()} if one.read else {}
    inputs = processor(text=one.prompt, return_tensors="pt", **images).to(model.device, model.dtype)
    output = model.generate(**inputs, max_new_tokens=one.settings.max_new_tokens, do_sample=False)
    text: str = processor.decode(output[0], skip_special_tokens=True)
    return text


# ---- what bounds it -----------------------------------------------------------------------------------------------


def _floor(
    checkpoint: Checkpoint, questions: Sequence[Asked], device: torch.device, dtype: torch.dtype
) -> dict[str, float]:
    """Estimate the least seconds: multiplications of every needed token, and weights read once a decoding step."""
    people = {one.person for one in questions}
    builder = checkpoint.builder
    text = sum(len(builder.tokenize(one.prompt)) for one in questions)
    image = _image_tokens(checkpoint, next(one for one in questions if one.read))
    new = sum(one.settings.max_new_tokens for one in questions)
    weights = sum(one.numel() for one in checkpoint.model.parameters())
    tokens = text + new + image * len(people)
    flops, bandwidth = measured_flops(device, dtype), _bandwidth(device)
    # Decoding reads each row's own attention states once a token, however large the batch.
    states = sum(_image_tokens_of(one, image) * one.settings.max_new_tokens for one in questions)
    return {
        "tokens": float(tokens),
        "compute_seconds": 2.0 * weights * tokens / flops,
        "states_seconds": states * state_bytes(checkpoint.model) / bandwidth,
        "measured_TFLOPs": flops / 1e12,
        "measured_GB_per_s": bandwidth / 1e9,
    }


def _image_tokens_of(one: Asked, image: int) -> int:
    return image if one.read else 0


def _image_tokens(checkpoint: Checkpoint, one: Asked) -> int:
    return _tokens(checkpoint, one) - one.settings.max_new_tokens - len(checkpoint.builder.tokenize(one.prompt)) + 1


def _tokens(checkpoint: Checkpoint, one: Asked) -> int:
    """Return the length of a row at its end."""
    ids = checkpoint.builder.encode([one.prompt], [Ready.of(one).images], padding_side="left")["input_ids"]
    return ids.shape[1] + one.settings.max_new_tokens


def _bandwidth(device: torch.device) -> float:
    """Measure bytes copied a second, read and written."""
    big = torch.empty(2**30 if device.type == "cuda" else 2**26, device=device, dtype=torch.uint8)
    return 2 * big.numel() / seconds_of(big.clone, device)


def _print(result: dict[str, Any]) -> None:
    published, ours, floor = result["published"], result["ours"], result["floor"]
    print(f"{result['questions']} questions on {result['machine']}")
    for kind, seconds in published["seconds_a_question"].items():
        print(f"  published, {kind:18} {seconds:8.4f} s a question x {published['counts'][kind]}")
    print(f"published loop  {published['seconds']:9.1f} s (scaled up)   peak {published['peak_GiB']} GiB")
    print(f"umu_hf          {ours['seconds']:9.1f} s   batch {ours['batch_size']}   peak {ours['peak_GiB']} GiB")
    print(f"ratio           {result['ratio']:9.1f}")
    for name, what in (("adapter", "its adapter"), ("adapter_peft_layers", "with PEFT's layers")):
        if name in result:
            print(f"{what:18}{result[name]['seconds']:9.1f} s   peak {result[name]['peak_GiB']} GiB")
    compute, states = floor["compute_seconds"], floor["states_seconds"]
    print(f"floor: {compute:.1f} s of multiplications, {states:.1f} s of reading attention states")


if __name__ == "__main__":
    main()
