"""Scores a sample of questions while training, ends it below a floor, and keeps the best step."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import GenerationConfig, TrainerCallback

from umu_tasks.backend.prompting import PromptBuilder
from umu_tasks.benchmarks.instances import MODALITIES, Profile, Question
from umu_tasks.benchmarks.profiles import ProfileSet
from umu_tasks.scoring.answers import is_correct
from umu_trainers.guards import TrainingStopped, note_stop

BEST = "best"  # folder of the best step, in the output folder, until training ends
SCORE_FILE = "score.json"
MAX_NEW_TOKENS = 50  # as the benchmark's classification and cloze tasks
BATCH_SIZE = 16


@dataclass(frozen=True)
class Score:
    """Shares of sampled questions answered right: classification and cloze, both modalities, the default rule."""

    step: int
    forget: float
    retain: float

    @property
    def gap(self) -> float:
        """What the best step has most of: retain accuracy minus forget accuracy."""
        return self.retain - self.forget


@dataclass(frozen=True)
class Asked:
    """A sampled question with the person it is about."""

    question: Question
    profile: Profile


def sample_questions(profiles: ProfileSet, count: int, seed: int) -> list[Asked]:
    """Return `count` questions or a few more: whole knowledge instances, so that both modalities weigh the same."""
    known = [
        (instance, profile) for profile in profiles for instance in profile.instances if instance.unimodal.task != "gen"
    ]
    chosen = random.Random(f"{seed}-score-{profiles.split}").sample(known, min(len(known), -(-count // 2)))
    return [Asked(question, profile) for instance, profile in chosen for question in instance]


class SampleScorer(TrainerCallback):
    """Every `every` steps and at the last one: scores both samples on all processes together.

    Args:
        forget, retain: people whose questions are asked.
        builder: the model's prompts.
        every: optimizer steps between two scorings.
        sample: questions of each set.
        floor: retain accuracy, a fraction, below which training ends; None for none.
        seed: of the sample.
    """

    def __init__(
        self,
        forget: ProfileSet,
        retain: ProfileSet,
        builder: PromptBuilder,
        *,
        every: int,
        sample: int,
        floor: float | None = None,
        seed: int = 0,
    ) -> None:
        self.samples = {"forget": forget, "retain": retain}
        self.questions = {name: sample_questions(one, sample, seed) for name, one in self.samples.items()}
        self.builder = builder
        self.every = every
        self.floor = floor
        self.start: Score | None = None
        self.best: Score | None = None
        self.trainer: Any = None

    @property
    def folder(self) -> Path:
        return Path(self.trainer.args.output_dir) / BEST

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step:
            self.best = _read(self.folder)
            return
        self.start = self.score(0)
        self._say(args, f"start: {_text(self.start)}")
        if self.floor is not None and self.start.retain < self.floor:
            raise TrainingStopped(
                f"--retain_floor {self.floor}: the model that training starts from is below it already "
                f"({_text(self.start)}). Lower it."
            )

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        is_last = state.global_step >= state.max_steps or control.should_training_stop
        if state.global_step % self.every and not is_last:
            return
        score = self.score(state.global_step)
        self._say(args, f"step {score.step}: {_text(score)}")
        waiting = control.should_log  # an entry of the log ends the wait for one: the step's loss would get none
        self.trainer.log_alone({"score/forget": score.forget, "score/retain": score.retain})
        control.should_log = waiting
        if self.floor is not None and score.retain < self.floor:
            self._stop(args, state, control, score)
        elif self.best is None or score.gap > self.best.gap:
            self.trainer.check_weights()
            self.trainer.save_model(str(self.folder), _internal_call=True)
            self.best = score
            if args.should_save:
                partial = self.folder / f"{SCORE_FILE}.partial"
                partial.write_text(json.dumps(asdict(score)) + "\n", encoding="utf-8")
                partial.replace(self.folder / SCORE_FILE)

    def _stop(self, args: Any, state: Any, control: Any, score: Score) -> None:
        reason = f"the retain accuracy {score.retain:.3f} is below retain_floor {self.floor}"
        if self.best is None:
            raise TrainingStopped(
                f"step {score.step}: {reason}, and no step before it was scored. Nothing was saved. Lower "
                "learning_rate or score_every."
            )
        control.should_training_stop = True
        note_stop(state, reason)
        self._say(args, f"step {score.step}: {reason}; training ends here and step {self.best.step} is saved.")

    @torch.no_grad()
    def score(self, step: int) -> Score:
        """Return the accuracies of the model as it is."""
        model = self.trainer.model_wrapped
        was_training = model.training
        model.eval()
        try:
            shares = {name: self._accuracy(asked, self.samples[name].split) for name, asked in self.questions.items()}
        finally:
            model.train(was_training)
        return Score(step, shares["forget"], shares["retain"])

    def _accuracy(self, asked: Sequence[Asked], split: str) -> float:
        from accelerate.utils import gather_object

        args = self.trainer.args
        right: list[bool] = []
        for group in _groups(asked, BATCH_SIZE * args.world_size):
            mine = group[args.process_index * BATCH_SIZE :][:BATCH_SIZE]
            # Under ZeRO-3 every process runs every batch, with or without a question of its own.
            outputs = self._answers(mine or group[:1])
            right += [
                is_correct(output, one.question, split=split, rule="default")
                for one, output in zip(mine, outputs, strict=False)
            ]
        everywhere: list[bool] = gather_object(right)
        return sum(everywhere) / len(everywhere)

    def _answers(self, asked: Sequence[Asked]) -> list[str]:
        """Return the model's greedy answers to questions of one modality."""
        trainer, tokenizer = self.trainer, self.builder.processor.tokenizer
        prompts = [self.builder.evaluation(one.question) for one in asked]
        images = [[one.profile.open_image()] if one.question.has_image else [] for one in asked]
        inputs = trainer._prepare_inputs(self.builder.encode(prompts, images, padding_side="left"))
        dtype = trainer.model.dtype
        ends = {tokenizer.eos_token_id, self.builder.end_token_id} - {None}
        ids = trainer.model.generate(
            **{name: one.to(dtype) if one.is_floating_point() else one for name, one in inputs.items()},
            generation_config=GenerationConfig(
                max_new_tokens=MAX_NEW_TOKENS,
                do_sample=False,
                eos_token_id=sorted(ends),
                pad_token_id=self.builder.pad_token_id,
            ),
        )[:, inputs["input_ids"].shape[1] :]
        texts: list[str] = tokenizer.batch_decode(ids, skip_special_tokens=True)
        return texts

    def _say(self, args: Any, text: str) -> None:
        if args.process_index == 0:
            print(text, flush=True)


def _groups(asked: Sequence[Asked], size: int) -> Iterator[Sequence[Asked]]:
    """Yield the questions, `size` at a time, those of one modality after those of the other."""
    for modality in MODALITIES:
        own = [one for one in asked if one.question.modality == modality]
        for start in range(0, len(own), size):
            yield own[start : start + size]


def _text(score: Score) -> str:
    return f"accuracy on the sample: forget {score.forget:.3f}, retain {score.retain:.3f}"


def _read(folder: Path) -> Score | None:
    file = folder / SCORE_FILE
    return Score(**json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else None


def take_best(output: Path) -> None:
    """Copy the best step's files into the output folder; a run that is killed meanwhile must find them again."""
    for file in (output / BEST).iterdir():
        if file.name != SCORE_FILE:
            shutil.copy2(file, output / file.name)


def drop_best(output: Path) -> None:
    """Delete the best step's own folder, once the run has ended."""
    shutil.rmtree(output / BEST, ignore_errors=True)
