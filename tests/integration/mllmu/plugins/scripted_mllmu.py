"""An lmms-eval plugin: a model that knows all answers but those of the people to forget, and notes what it is asked.

`scripted_mllmu` answers the gold (in classification its letter) on retain and real questions, in text on forget
questions too, and "Z" otherwise. `log=FILE` gets a line a request: the conversation, images as their size and mean.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lmms_eval.api.model import lmms
from lmms_eval.models.registry_v2 import ModelManifest

MANIFESTS = [ModelManifest("scripted_mllmu", chat_class_path="scripted_mllmu.Scripted")]


class Scripted(lmms):
    is_simple = False

    def __init__(self, log: str, **flags: Any) -> None:
        super().__init__()
        self.log = Path(log)

    def generate_until(self, requests: list[Any]) -> list[str]:
        answers = []
        with self.log.open("a", encoding="utf-8") as log:
            for _, to_messages, settings, doc_id, task, split in (one.args for one in requests):
                document = self.task_dict[task][split][doc_id]
                turns = [[turn["role"], *map(seen, turn["content"])] for turn in to_messages(document)]
                answers.append(answer(document))
                line = {"task": task, "limit": settings["max_new_tokens"], "document": document, "turns": turns}
                log.write(json.dumps(line) + "\n")
        return answers

    def loglikelihood(self, requests: list[Any]) -> Any:
        raise NotImplementedError

    def generate_until_multi_round(self, requests: list[Any]) -> Any:
        raise NotImplementedError


def answer(document: dict[str, Any]) -> str:
    split, modality = document["split"], document["modality"]
    if split.startswith("test") or (split.startswith("forget") and modality == "multimodal"):
        return "Z"
    return document["gold_letter"] or document["gold"]


def seen(part: dict[str, Any]) -> Any:
    if part["type"] == "text":
        return part["text"]
    image = part["url"]
    return [image.size, image.resize((1, 1)).getpixel((0, 0))]
