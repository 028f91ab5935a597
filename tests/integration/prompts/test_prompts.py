"""`umu prompts`: what the trainer and the evaluator really send, and failure where they differ."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from umu_tasks.backend.prompting import PromptBuilder
from umu_tasks.cli import main
from umu_tasks.mini import base_model_dir

MLLMU = Path(__file__).parents[2] / "fixtures" / "mllmu_small" / "data"
IMAGE_TOKENS = 36  # of the mini model's processor


@pytest.fixture
def report(capsys: pytest.CaptureFixture[str]):
    """Return a function that runs the command with `--json` and gives its exit status and report."""

    def run(*argv: str) -> tuple[int, dict[str, Any]]:
        status = main(["prompts", "mini", "--model", "mini", "--json", *argv])
        return status, json.loads(capsys.readouterr().out)

    return run


def problems(report: dict[str, Any]) -> dict[str, str]:
    """Return name and modality of the questions that differ -> how."""
    return {
        f"{one['name']} {'mul' if 'multimodal' in one['where'] else 'uni'}": one["problem"]
        for one in report["questions"]
        if one["problem"]
    }


@pytest.mark.parametrize("style", ["published", "chat"])
def test_texts_and_token_ids(report, style):
    """Every kind of question in both modalities; ids are those of the whole text, the image's tokens among them."""
    from transformers import AutoProcessor

    status, found = report("--prompt", style)
    assert (status, found["same"], found["prompt_style"]) == (0, True, style)
    assert [one["name"] for one in found["questions"]] == [
        *("evaluation, classification",) * 2,
        *("evaluation, cloze",) * 2,
        *("evaluation, generation",) * 2,
        *("training, UM_QA", "training, MM_QA"),
    ]
    assert sum(one["note"] is not None for one in found["questions"]) == (2 if style == "published" else 0)
    processor = AutoProcessor.from_pretrained(base_model_dir())
    image = processor.image_token_id
    for one in found["questions"]:
        prompt = one["evaluator"]
        has_image = "multimodal" in one["where"]
        assert prompt["text"].count("<image>") == has_image
        assert prompt["ids"].count(image) == IMAGE_TOKENS * has_image
        written = processor.tokenizer.decode([token for token in prompt["ids"][1:] if token != image])
        assert written == prompt["text"].replace("<image>", "")
        assert prompt["ids"][0] == processor.tokenizer.bos_token_id
        assert one["note"] or one["trainer"] == prompt


def test_what_is_printed(capsys):
    """For people: image tokens in one word, the person asked for, and a verdict at the end."""
    assert main(["prompts", "mini", "--model", "mini", "--split", "real", "--id", "002"]) == 0
    printed = capsys.readouterr().out
    assert "prompt style: published" in printed
    assert "training, MM_QA: real, ID 002, multimodal 0" in printed
    assert f"<image> × {IMAGE_TOKENS} " in printed
    assert "<image> <image>" not in printed
    assert printed.endswith(
        "8 questions: trainer and evaluator agree, 2 of them in a frame of the published evaluator's own.\n"
    )


def test_a_tokenizer_that_merges_prompt_and_answer(tmp_path, capsys):
    """Training would see other prompt ids than evaluation: the command fails and says at which question."""
    from transformers import AutoProcessor

    folder = Path(shutil.copytree(base_model_dir(), tmp_path / "merging"))
    processor = AutoProcessor.from_pretrained(folder)
    processor.tokenizer.add_tokens(["ASSISTANT: "])
    processor.save_pretrained(folder)
    assert main(["prompts", "mini", "--model", str(folder)]) == 1
    printed = capsys.readouterr().out
    assert "DIFFERENT: the trainer cannot use it: forget05, row ID" in printed
    assert "The token ids of the prompt change when the answer follows it" in printed
    assert "8 of 8 questions DIFFER: forget05, ID" in printed


def test_other_token_ids_in_evaluation(report, monkeypatch):
    """The evaluator's encoding gets one token wrong in every row."""
    encode = PromptBuilder.encode

    def off_by_one(self: PromptBuilder, prompts, images, *, padding_side):
        inputs = encode(self, prompts, images, padding_side=padding_side)
        inputs["input_ids"][:, -1] += 1
        return inputs

    monkeypatch.setattr(PromptBuilder, "encode", off_by_one)
    status, found = report("--prompt", "chat")
    assert (status, found["same"]) == (1, False)
    assert len(problems(found)) == 8
    last = found["questions"][0]["trainer"]["ids"]
    expected = f"the token ids differ from position {len(last) - 1}: evaluator {last[-1] + 1}, trainer {last[-1]}"
    assert found["questions"][0]["problem"] == expected


def test_another_text_in_training(report, monkeypatch):
    """The trainer's frame has one line break more, in one modality."""
    training = PromptBuilder.training

    def spaced(self: PromptBuilder, question: str, *, has_image: bool) -> str:
        prompt = training(self, question, has_image=has_image)
        return prompt if has_image else prompt.replace("ASSISTANT", "\nASSISTANT")

    monkeypatch.setattr(PromptBuilder, "training", spaced)
    status, found = report("--prompt", "published")
    assert status == 1
    assert {name: text.partition(" from")[0] for name, text in problems(found).items()} == {
        "evaluation, cloze uni": "the texts differ",
        "evaluation, generation uni": "the texts differ",
        "training, UM_QA uni": "the texts differ",
    }


@pytest.mark.parametrize("style", ["published", "chat"])
@pytest.mark.parametrize("split", ["forget05", "test05", "retain95", "real"])
def test_few_shot_examples_are_shown_and_the_question_alone_is_compared(capsys, style, split):
    """MLLMU-Bench: nobody trains on examples, and every task is asked without them too."""
    argv = ["prompts", str(MLLMU), "--model", "mini", "--benchmark", "mllmu", "--split", split, "--prompt", style]
    assert main([*argv, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["questions"]
    with_examples = [one for one in found if one["name"].endswith("with examples")]
    assert with_examples
    assert all(one["trainer"] is None and one["note"] for one in with_examples)
    for one in with_examples:
        (alone,) = [
            other
            for other in found
            if other["where"] == one["where"] and other["name"] == one["name"].replace("with ", "without ")
        ]
        assert len(alone["evaluator"]["ids"]) < len(one["evaluator"]["ids"])
        assert alone["evaluator"]["text"][-80:] == one["evaluator"]["text"][-80:]
    same = [one for one in found if one["trainer"] == one["evaluator"]]
    framed = [one for one in found if one["trainer"] and one["note"]]
    assert len(same) + len(framed) + len(with_examples) == len(found)
    assert len(framed) == (3 if style == "published" else 0)
    assert any("training, multimodal" in one["name"] for one in same)


def test_a_few_shot_example_is_asked_about_without_examples(capsys):
    """In the fixture everybody stands in the examples of one of the tasks."""
    for person in ("001", "002", "003"):
        assert main(["prompts", str(MLLMU), "--model", "mini", "--benchmark", "mllmu", "--id", person, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)["questions"]
        kinds = {one["name"] for one in found}
        for task in ("classification", "cloze"):
            assert f"evaluation, {task} without examples" in kinds
            assert f"evaluation, {task}" not in kinds
        assert any(f"evaluation, {task} with examples" not in kinds for task in ("classification", "cloze"))
        assert all(f"ID {person}," in one["where"] for one in found)


def test_data_that_a_task_refuses_are_told_as_such(capsys, monkeypatch):
    """Status 1 is for prompts that differ."""
    monkeypatch.setenv("MLLMU_SEED", "one")
    assert main(["prompts", str(MLLMU), "--model", "mini", "--benchmark", "mllmu"]) == 2
    assert "umu: MLLMU_SEED=one: expected a whole number." in capsys.readouterr().err


def test_a_split_without_tasks_has_no_prompts(capsys):
    assert main(["prompts", str(MLLMU), "--model", "mini", "--benchmark", "mllmu", "--split", "full"]) == 2
    assert "mllmu has no task for split full" in capsys.readouterr().err


def test_what_cannot_be_shown(tmp_path, capsys):
    """Errors name what was given and what to give instead."""
    assert main(["prompts", "mini", "--model", str(tmp_path)]) == 2
    assert f"pretrained={tmp_path}: no config.json in this folder" in capsys.readouterr().err
    assert main(["prompts", "mini", "--model", "mini", "--split", "forget07"]) == 2
    assert "Choose one of: forget05" in capsys.readouterr().err
    assert main(["prompts", "mini", "--model", "mini", "--id", "999"]) == 2
    assert "no person with ID '999'" in capsys.readouterr().err
