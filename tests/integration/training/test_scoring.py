"""Scoring while training: a sample by the benchmark's rule, a floor that ends a run, the best step as the result."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pyarrow
import pytest
import torch
from pyarrow import parquet
from transformers import GenerationConfig

from umu_tasks.backend.arguments import BackendArguments
from umu_tasks.backend.checkpoint import load_checkpoint
from umu_tasks.backend.generation import GenerationSettings, generate
from umu_tasks.benchmarks.sources import open_source
from umu_tasks.scoring.answers import is_correct
from umu_tasks.tasks.documents import to_question
from umu_tasks.tasks.mllmu import rules as mllmu
from umu_trainers import run, unlearn
from umu_trainers.guards import TrainingStopped
from umu_trainers.scoring import Asked, SampleScorer, Score, sample_questions

MLLMU = Path(__file__).parents[2] / "fixtures" / "mllmu_small" / "data"


@pytest.fixture
def scores(monkeypatch):
    """Give the model made-up figures: a tiny random model knows nothing, so it has nothing to lose."""

    def give(*values):
        given = iter(values)
        monkeypatch.setattr(SampleScorer, "score", lambda self, step: Score(step, *next(given)))

    return give


SETTINGS = {"method": "ga", "max_steps": 6, "score_every": 2, "learning_rate": 1e-2, "score_sample": 4}


def test_the_best_scored_step_is_saved(flags, scores, weights, record, tmp_path):
    unlearn.main(flags(method="ga", max_steps=6, learning_rate=1e-2, save_strategy="steps", save_steps=2))
    steps = {step: weights(tmp_path / "run" / f"checkpoint-{step}") for step in (2, 4, 6)}
    scores((0.9, 0.9), (0.8, 0.9), (0.2, 0.8), (0.1, 0.3))
    unlearn.main(flags(**SETTINGS, output_dir=tmp_path / "best"))
    found = weights(tmp_path / "best")
    assert all(torch.equal(one, found[name]) for name, one in steps[4].items())
    assert not torch.equal(next(iter(steps[6].values())), next(iter(steps[4].values())))
    result = record(tmp_path / "best")["result"]
    assert result["saved_step"] == {"step": 4, "forget": 0.2, "retain": 0.8}
    assert [one["score/retain"] for one in result["log"] if "score/retain" in one] == [0.9, 0.8, 0.3]
    assert not (tmp_path / "best" / "best").exists()


def test_scored_steps_keep_their_loss_in_the_log(flags, scores, record, tmp_path):
    """With a score at each step there would be no training curve at all, and the others' parts would move."""
    settings = {**SETTINGS, "score_every": 0, "save_strategy": "no"}
    unlearn.main(flags(**settings, output_dir=tmp_path / "unscored"))
    scores(*[(0.5, 0.5)] * 7)
    unlearn.main(flags(**{**settings, "score_every": 1}, output_dir=tmp_path / "scored"))
    curves = [
        [{name: one[name] for name in one if name.startswith(("step", "loss", "nll"))} for one in log if "loss" in one]
        for log in (record(tmp_path / name)["result"]["log"] for name in ("unscored", "scored"))
    ]
    assert len(curves[0]) == 6
    assert "nll/forget_uni" in curves[0][0]
    assert curves[0] == curves[1]


def test_below_the_floor_the_run_ends_with_the_step_before(flags, scores, record, tmp_path, capsys):
    scores((0.9, 0.9), (0.8, 0.9), (0.1, 0.4))
    unlearn.main(flags(**SETTINGS, retain_floor=0.5))
    result = record(tmp_path / "run")["result"]
    assert (result["steps"], result["saved_step"]["step"]) == (4, 2)
    assert result["stopped"] == "the retain accuracy 0.400 is below retain_floor 0.5"
    assert "training ends here and step 2 is saved" in capsys.readouterr().out


def test_nothing_is_saved_when_the_first_scoring_is_below_the_floor(flags, scores, tmp_path):
    scores((0.9, 0.9), (0.1, 0.4))
    with pytest.raises(TrainingStopped, match=r"step 2: the retain accuracy 0.400 is below retain_floor 0.5"):
        unlearn.main(flags(**SETTINGS, retain_floor=0.5))
    assert not (tmp_path / "run" / "training_record.json").exists()


def test_a_floor_above_the_start_is_refused(flags, scores):
    scores((0.9, 0.4))
    with pytest.raises(TrainingStopped, match=r"--retain_floor 0.5: the model that training starts from is below it"):
        unlearn.main(flags(**SETTINGS, retain_floor=0.5))


def test_a_floor_needs_scoring(flags):
    with pytest.raises(ValueError, match=r"--retain_floor 0.5: .*together with score_every"):
        unlearn.main(flags(method="ga", retain_floor=0.5))


RULES = {
    "umu": lambda output, document: is_correct(output, to_question(document), split=document["split"], rule="default"),
    "mllmu": lambda output, document: bool(mllmu.verdicts(output, to_question(document))["default"]),
}
BENCHMARKS = {"umu": [], "mllmu": ["--data", str(MLLMU), "--benchmark", "mllmu", "--modality", "mul"]}


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_the_sample_is_scored_by_the_benchmark_s_rule(flags, monkeypatch, capsys, benchmark):
    """Each answer with its own question: an answer shifted by one row would look like forgetting."""
    answers, scorers = SampleScorer._answers, {}

    def answer(self, asked):
        scorers[id(self)] = self
        assert all(isinstance(text, str) for text in answers(self, asked)), "the model itself can be asked"
        return [one.document["gold"] if one.document["task"] == "cloze" else "" for one in asked]

    monkeypatch.setattr(SampleScorer, "_answers", answer)
    unlearn.main([*flags(method="ga", max_steps=1, score_every=1, score_sample=6), *BENCHMARKS[benchmark]])
    (scorer,) = scorers.values()
    expected = []
    for name, asked in scorer.questions.items():
        outputs = [one.document["gold"] if one.document["task"] == "cloze" else "" for one in asked]
        right = [RULES[benchmark](text, one.document) for text, one in zip(outputs, asked, strict=True)]
        assert len(asked) == 6 if benchmark == "umu" else len(asked) > 3
        assert {one.document["modality"] for one in asked} == {"unimodal", "multimodal"}
        expected.append(f"{name} {sum(right) / len(right):.3f}")
    first = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("start: "))
    assert first.endswith(", ".join(expected))


@pytest.mark.parametrize("use_lora", [False, True])
def test_answers_are_those_that_evaluation_gets(flags, checkpoint, tmp_path, monkeypatch, use_lora):
    """A checkpoint's own habits in decoding (Qwen2.5-VL's repetition penalty) are left out, and are saved with it."""
    own = tmp_path / "model"
    shutil.copytree(checkpoint, own)
    habits = {"repetition_penalty": 5.0, "eos_token_id": [2, 100], "pad_token_id": 0}
    GenerationConfig.from_dict(habits).save_pretrained(own)
    answers, given = SampleScorer._answers, {}

    def answer(self, asked):
        found = answers(self, asked)
        prompts = [self.builder.of_document(one.document, one.task.messages(one.document)) for one in asked]
        given.update(zip((text for text, _ in prompts), zip(asked, prompts, found, strict=True), strict=True))
        return found

    monkeypatch.setattr(SampleScorer, "_answers", answer)
    settings = {"learning_rate": 1e-9, "max_steps": 1, "score_every": 1, "score_sample": 2, "use_lora": use_lora}
    unlearn.main(flags(method="ga", model=own, **settings))
    opened = load_checkpoint(BackendArguments(str(tmp_path / "run")), torch.device("cpu"))
    for asked, (text, images), found in given.values():
        how = GenerationSettings.from_task(asked.task.settings["generation_kwargs"])
        assert generate(opened, [text], [images], how)[0].text == found
    if not use_lora:
        saved = GenerationConfig.from_pretrained(tmp_path / "run")
        assert (saved.repetition_penalty, set(saved.eos_token_id)) == (5.0, {2, 100})


def test_the_sample_is_asked_and_scored_as_lmms_eval_does():
    """MLLMU-Bench: the task's few-shot examples stand before the question, and a letter is the answer."""
    people = open_source(str(MLLMU), benchmark="mllmu").load("forget05")
    sample = sample_questions("mllmu", people, str(MLLMU), 8, seed=0)
    by_kind = {(one.document["task"], one.document["modality"]): one for one in sample}
    asked = by_kind["cls", "multimodal"]
    assert [turn["role"] for turn in asked.task.messages(asked.document)][-3:] == ["user", "assistant", "user"]
    assert (asked.is_right(asked.document["gold_letter"]), asked.is_right(asked.document["gold"])) == (True, False)


def test_facts_are_drawn_whole():
    """The two questions of a fact come together, so that both modalities weigh the same."""
    source = open_source("mini")
    for count in (1, 5, 64):
        asked = sample_questions("umu", source.load("retain95"), "mini", count, seed=1)
        facts = Counter((one.task.name, one.document["profile_id"], one.document["key"]) for one in asked)
        assert set(facts.values()) == {2}
        assert len(asked) == count + count % 2


def test_processes_share_the_questions_of_each_batch(monkeypatch):
    """The default sample has 16 questions of each kind: one process could ask them all, and the others wait for it."""
    asked = sample_questions("umu", open_source("mini").load("retain95"), "mini", 66, seed=0)
    batches, counted = [[], []], []
    monkeypatch.setattr(
        SampleScorer,
        "_answers",
        lambda self, own: batches[self.trainer.args.process_index].append(len(own)) or [""] * len(own),
    )
    monkeypatch.setattr(Asked, "is_right", lambda self, output: counted.append(id(self)) or False)
    scorer = SampleScorer({}, None, every=1)
    for process in range(2):
        scorer.trainer = SimpleNamespace(args=SimpleNamespace(world_size=2, process_index=process))
        scorer._accuracy(asked)
    assert sorted(counted) == sorted(map(id, asked))
    assert all(abs(one - other) <= 1 for one, other in zip(*batches, strict=True))


def test_data_without_questions_of_a_task_are_scored_by_the_other(data, tmp_path):
    """`umu data check` warns of them, and training takes them."""
    people = tmp_path / "people"
    shutil.copytree(data, people)
    for file in people.rglob("*.parquet"):
        table = parquet.read_table(file)
        cells = pyarrow.array(['{"unimodal": {}, "multimodal": {}}'] * len(table))
        place = table.schema.get_field_index("Classify")
        parquet.write_table(table.set_column(place, "Classify", cells), file)
    asked = sample_questions("umu", open_source(str(people)).load("forget05"), str(people), 4, seed=0)
    assert [one.document["task"] for one in asked] == ["cloze"] * 4


def test_data_that_a_task_refuses_are_told_with_the_setting_and_before_the_model_is_loaded(flags, monkeypatch):
    monkeypatch.setenv("MLLMU_SEED", "one")
    monkeypatch.setattr(run, "open_start", lambda args: pytest.fail("the model is loaded"))
    with pytest.raises(ValueError, match=r"--score_every: MLLMU_SEED=one: expected a whole number"):
        unlearn.main([*flags(method="ga", score_every=1), *BENCHMARKS["mllmu"]])


def test_a_benchmark_without_right_and_wrong_answers_cannot_be_scored_while_training():
    people = open_source("mini").load("forget05")
    with pytest.raises(
        ValueError, match=r"--score_every: nothing has no classification or cloze question about forget05"
    ):
        sample_questions("nothing", people, "mini", 4, seed=0)


def test_the_score_is_read_again_when_resuming(flags, scores, record, tmp_path):
    scores((0.9, 0.9), (0.2, 0.9), (0.2, 0.3), (0.2, 0.3))
    saving = {"save_strategy": "steps", "save_steps": 2}
    monkey = pytest.MonkeyPatch()
    monkey.setattr(run, "save_run", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        unlearn.main(flags(**SETTINGS, **saving))
    monkey.undo()
    assert json.loads((tmp_path / "run" / "best" / "score.json").read_text())["step"] == 2
    unlearn.main(flags(**SETTINGS, **saving, resume_from_checkpoint="last"))
    assert record(tmp_path / "run")["result"]["saved_step"]["step"] == 2
