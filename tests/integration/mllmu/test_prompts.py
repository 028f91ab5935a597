"""MLLMU-Bench's prompts in the backend: several images in one prompt, and system instructions."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from datasets import Dataset
from jinja2 import TemplateError
from transformers import AutoProcessor

from umu_tasks.backend.arguments import parse_arguments
from umu_tasks.backend.prompting import PromptBuilder
from umu_tasks.backend.system_prompts import chat_with_instruction, read_system_prompt
from umu_tasks.backend.umu_hf import write_prompt
from umu_tasks.benchmarks.errors import DataError
from umu_tasks.mini import base_model_dir
from umu_tasks.tasks.mllmu import hooks


@pytest.fixture(autouse=True)
def _mini(monkeypatch):
    monkeypatch.setenv("MLLMU_DATA", "mini")


@pytest.fixture(scope="module")
def processor():
    return AutoProcessor.from_pretrained(base_model_dir())


def requests(split="forget05", task="cls", examples=1, context="{}"):
    selector = Dataset.from_list([{"split": split, "task": task, "examples": examples}])
    for document in hooks.build_documents(selector):
        yield SimpleNamespace(
            task=f"mllmu_{split}_{task}", document=document, to_messages=hooks.messages,
            context=context.format(document["prompt"]),
        )  # fmt: skip


@pytest.mark.parametrize("style", ["published", "chat"])
@pytest.mark.parametrize(("task", "examples"), [("cls", 1), ("cloze", 2)])
def test_every_image_has_its_place_in_the_prompt(processor, style, task, examples):
    """One marker an image, example images first; 36 image tokens each once encoded; none in a text question."""
    builder = PromptBuilder(processor, style)
    for request in requests(task=task, examples=examples):
        prompt, images = write_prompt(builder, request)
        expected = 1 + 2 * examples if request.document["modality"] == "multimodal" else 0
        assert (prompt.count("<image>"), len(images)) == (expected, expected)
        assert prompt.rstrip().endswith("ASSISTANT:")
        ids = builder.encode([prompt], [images], padding_side="left")["input_ids"]
        assert int((ids == 3).sum()) == 36 * expected
        if style == "published":
            assert prompt == request.document["published_prompt"]


@pytest.mark.parametrize("style", ["published", "chat"])
def test_description_goes_to_the_question_and_not_to_an_example_worded_like_it(processor, style):
    """Cloze examples can read exactly like the question: neither names the person."""
    builder = PromptBuilder(processor, style)
    for request in requests(split="retain95", task="cloze", examples=2, context="DESCRIPTION {}"):
        prompt, _ = write_prompt(builder, request)
        before, found, after = prompt.partition("DESCRIPTION ")
        assert found
        assert after.startswith(request.document["prompt"])
        assert "DESCRIPTION" not in before + after


@pytest.mark.parametrize("style", ["published", "chat"])
def test_system_instruction_stands_before_everything(processor, style):
    """The mini model's template knows no system turn: there it stands before the first question."""
    builder, instruction = PromptBuilder(processor, style), "Keep the following people private: {}"
    for request in requests():
        prompt, images = write_prompt(builder, request, instruction)
        without, _ = write_prompt(builder, request)
        assert prompt.count(instruction) == 1
        if style == "published":
            assert prompt == f"{instruction} {without}"
        else:
            assert prompt.replace(f"{instruction}\n\n", "") == without
        assert prompt.count("<image>") == len(images)


def test_template_with_a_system_turn_gets_one():
    def write(messages):
        return "".join(f"<{turn['role']}>{turn['content'][0]['text']}" for turn in messages)

    def without_system(messages):
        if messages[0]["role"] == "system":
            raise TemplateError("System role not supported")
        return write(messages)

    question = [{"role": "user", "content": [{"type": "text", "text": "Who?"}]}]
    assert chat_with_instruction(write, question, "Be kind.") == "<system>Be kind.<user>Who?"
    assert chat_with_instruction(without_system, question, "Be kind.") == "<user>Be kind.\n\nWho?"
    with pytest.raises(ValueError, match="leaves the system instruction out"):
        chat_with_instruction(lambda _: "nothing", question, "Be kind.")


def test_prompting_baseline_names_the_people_to_forget():
    text = read_system_prompt(parse_arguments("pretrained=x,system_prompt=mllmu_prompting05").system_prompt)
    assert "Elias Sutherland, Tessa Keller, Salim Kaya." in text
    assert "{" not in text


def test_instruction_from_a_file_or_as_text(tmp_path):
    file = tmp_path / "own.txt"
    file.write_text("Not a word about {names:mllmu_forget05}!\n")
    assert read_system_prompt(str(file)) == "Not a word about Elias Sutherland, Tessa Keller, Salim Kaya!"
    text = parse_arguments("pretrained=x,system_prompt=Be brief, and kind.,batch_size=2").system_prompt
    assert read_system_prompt(text) == "Be brief, and kind."


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("mllmu_prompting", "say whom it protects: mllmu_prompting05"),
        ("gone.txt", "system_prompt=gone.txt: cannot be read"),
    ],
)
def test_what_is_wrong_with_an_instruction_is_said(value, message):
    with pytest.raises(DataError) as caught:
        read_system_prompt(value)
    assert message in str(caught.value)
