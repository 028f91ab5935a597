"""Scores a sample of questions while training, ends it below a floor, and keeps the best step."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import TrainerCallback

from umu_tasks.backend.checkpoint import plain_generation_config
from umu_tasks.backend.generation import GenerationSettings, cut
from umu_tasks.backend.prompting import PromptBuilder
from umu_tasks.benchmarks.errors import DataError, NoQuestionsError
from umu_tasks.benchmarks.instances import MODALITIES, TASKS
from umu_tasks.benchmarks.profiles import ProfileSet
from umu_tasks.tasks.asking import OpenTask, open_task
from umu_tasks.tasks.files import our_tasks
from umu_trainers.guards import TrainingStopped, note_stop

if TYPE_CHECKING:
    from transformers import GenerationConfig

BEST = "best"  # folder of the best step, in the output folder, until training ends
SCORE_FILE = "score.json"
BATCH_SIZE = 16  # questions with at most one image


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
    """A sampled question with the task it is of."""

    task: OpenTask
    document: Mapping[str, Any]

    def is_right(self, output: str) -> bool:
        """Return whether the output is right by the benchmark's default rule."""
        return bool(self.task.record(self.document, output)["correct"]["default"])


def sample_questions(benchmark: str, people: ProfileSet, spec: str, count: int, seed: int) -> list[Asked]:
    """Return about `count` questions of classification and cloze about a split's people.

    Whole facts are drawn, with the question in each modality that asks for them: where a benchmark pairs its questions,
    both modalities weigh the same.

    Raises:
        ValueError: there is no such question about this split, or its tasks' data cannot be used.
    """
    facts = [fact for task in _tasks(benchmark, people.split, spec) for fact in _facts(task)]
    place = {profile_id: number for number, profile_id in enumerate(people.ids)}
    facts.sort(key=lambda fact: place[fact[0].document["profile_id"]])  # stable: one person's stay in the tasks' order
    wanted = -(-count * len(facts) // sum(map(len, facts)))
    chosen = random.Random(f"{seed}-score-{people.split}").sample(facts, min(len(facts), wanted))
    return [question for fact in chosen for question in fact]


def _tasks(benchmark: str, split: str, spec: str) -> list[OpenTask]:
    """Return the tasks to sample from: those of the two that the benchmark has for the split, and the data questions
    for."""
    known, tasks = our_tasks(), []
    for name in (f"{benchmark}_{split}_{task}" for task in TASKS if task != "gen"):
        try:
            tasks += [open_task(name, spec)] if name in known else []
        except NoQuestionsError:
            continue
        except DataError as error:
            raise ValueError(f"--score_every: {error}") from error
    if not tasks:
        raise ValueError(
            f"--score_every: {benchmark} has no classification or cloze question about {split}. Leave it at 0 and "
            "score the saved model."
        )
    return tasks


def _facts(task: OpenTask) -> list[list[Asked]]:
    """Return a task's questions, those that ask for one fact together."""
    facts: dict[tuple[str, str], list[Asked]] = {}
    for document in task.documents:
        facts.setdefault((document["profile_id"], document["key"]), []).append(Asked(task, document))
    return list(facts.values())


class SampleScorer(TrainerCallback):
    """Every `every` steps and at the last one: scores both samples on all processes together.

    Args:
        questions: ``forget`` and ``retain`` -> the questions asked (`sample_questions`).
        builder: the model's prompts.
        every: optimizer steps between two scorings.
        floor: retain accuracy, a fraction, below which training ends; None for none.
    """

    def __init__(
        self,
        questions: Mapping[str, Sequence[Asked]],
        builder: PromptBuilder,
        *,
        every: int,
        floor: float | None = None,
    ) -> None:
        self.questions = questions
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
            shares = {name: self._accuracy(asked) for name, asked in self.questions.items()}
        finally:
            model.train(was_training)
        return Score(step, shares["forget"], shares["retain"])

    def _accuracy(self, asked: Sequence[Asked]) -> float:
        from accelerate.utils import gather_object

        args = self.trainer.args
        right: list[bool] = []
        for group in _groups(asked, args.world_size):
            mine = group[args.process_index :: args.world_size]
            # Under ZeRO-3 every process runs every batch, with or without a question of its own.
            outputs = self._answers(mine or group[:1])
            right += [one.is_right(output) for one, output in zip(mine, outputs, strict=False)]
        everywhere: list[bool] = gather_object(right)
        return sum(everywhere) / len(everywhere)

    def _answers(self, asked: Sequence[Asked]) -> list[str]:
        """Return the model's answers to questions of one task and modality."""
        trainer, tokenizer = self.trainer, self.builder.processor.tokenizer
        settings = GenerationSettings.from_task(asked[0].task.settings["generation_kwargs"])
        prompts = [self.builder.of_document(one.document, one.task.messages(one.document)) for one in asked]
        texts, images = [text for text, _ in prompts], [own for _, own in prompts]
        inputs = trainer._prepare_inputs(self.builder.encode(texts, images, padding_side="left"))
        dtype = trainer.model.dtype
        with _decoding_plainly(trainer.model, self.builder) as plain:
            ids = trainer.model.generate(
                **{name: one.to(dtype) if one.is_floating_point() else one for name, one in inputs.items()},
                generation_config=settings.config(plain),
            )[:, inputs["input_ids"].shape[1] :]  # (batch, new_tokens)
        answers = tokenizer.batch_decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return [cut(answer, settings.until) for answer in answers]

    def _say(self, args: Any, text: str) -> None:
        if args.process_index == 0:
            print(text, flush=True)


@contextmanager
def _decoding_plainly(model: Any, builder: PromptBuilder) -> Iterator[GenerationConfig]:
    """Put the checkpoint's own generation config aside, which is saved with the model: what `generate` is not told (a
    repetition penalty) it would take from there, and evaluation does not."""
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    own = base.generation_config
    base.generation_config = plain = plain_generation_config(own, builder)
    try:
        yield plain
    finally:
        base.generation_config = own


def _groups(asked: Sequence[Asked], processes: int) -> Iterator[Sequence[Asked]]:
    """Yield questions of one task and modality that all processes together ask in one batch each.

    Fewer where each shows several images (few-shot examples): all images of a batch are in memory at once.
    """
    for modality in MODALITIES:
        for task in dict.fromkeys(one.task.name for one in asked):
            own = [one for one in asked if (one.task.name, one.document["modality"]) == (task, modality)]
            rows = max(1, BATCH_SIZE // max(1, _images(own[0]))) if own else BATCH_SIZE
            for start in range(0, len(own), rows * processes):
                yield own[start : start + rows * processes]


def _images(asked: Asked) -> int:
    """Return how many images a question shows."""
    messages = asked.task.messages(asked.document)
    return sum(part["type"] == "image" for turn in messages for part in turn["content"])


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
