"""Whoever asks outside lmms-eval sends the model what `umu_hf` sends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from umu_tasks.backend.generation import GenerationSettings
from umu_tasks.backend.prompting import PromptBuilder
from umu_tasks.backend.umu_hf import Request, write_prompt
from umu_tasks.mini import base_model_dir
from umu_tasks.tasks.asking import REASONING_TAGS, open_task

MLLMU = str(Path(__file__).parents[2] / "fixtures" / "mllmu_small" / "data")


@pytest.mark.parametrize("style", ["published", "chat"])
@pytest.mark.parametrize(
    ("name", "spec"),
    [(f"umu_forget05_{task}", "mini") for task in ("cls", "cloze", "gen")]
    + [(f"mllmu_{split}_{task}", MLLMU) for split in ("forget05", "test05") for task in ("cls", "cloze", "gen")],
)
def test_prompts_and_images_are_those_of_the_backend(name, spec, style):
    from transformers import AutoProcessor

    builder = PromptBuilder(AutoProcessor.from_pretrained(base_model_dir()), style)
    task = open_task(name, spec)
    documents = [document for _, document in zip(range(8), task.documents, strict=False)]
    assert {document["modality"] for document in documents} == {"unimodal", "multimodal"}
    for document in documents:
        request = Request(0, document["prompt"], task.messages, document, GenerationSettings(), name)
        text, images = write_prompt(builder, request)
        ours, own = builder.of_document(document, task.messages(document))
        assert ours == text
        assert [image.tobytes() for image in own] == [image.tobytes() for image in images]
        assert task.record(document, document["gold"])["gold"] == document["gold"]


def test_reasoning_is_cut_out_of_an_answer_as_lmms_eval_does(monkeypatch):
    from lmms_eval.__main__ import parse_eval_args

    monkeypatch.setattr("sys.argv", ["lmms-eval"])
    _, arguments = parse_eval_args()
    assert json.loads(arguments.reasoning_tags) == [list(pair) for pair in REASONING_TAGS]
    task = open_task("umu_forget05_cls", "mini")
    document = task.documents[0]
    plain = task.record(document, document["gold"])
    assert plain["correct"]["default"] == 1
    for start, end in REASONING_TAGS:
        assert task.record(document, f"{start}It can't be {document['gold']}.{end} {document['gold']}\n") == plain
        assert task.record(document, f"{start}{document['gold']}{end} no idea")["output"] == "no idea"
