"""An lmms-eval plugin of its own, with a model that answers without weights.

`scripted` writes what a file of outputs says (`outputs=FILE.jsonl`); enough to test all that lies between a model's
output and the result file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lmms_eval.api.model import lmms
from lmms_eval.models.registry_v2 import ModelManifest

MANIFESTS = [ModelManifest("scripted", chat_class_path="scripted_model.Scripted")]
SPLITS = {"forget": "forget05", "retain": "retain95", "real_person": "real"}
TASKS = {"classify": "cls", "cloze": "cloze", "generation": "gen"}


class Scripted(lmms):
    """Looks a question's output up by split, ID, task, key and modality."""

    is_simple = False

    def __init__(self, outputs: str, **flags: Any) -> None:
        super().__init__()
        lines = [json.loads(line) for line in Path(outputs).read_text(encoding="utf-8").splitlines()]
        self.outputs = {
            (SPLITS[one["split"]], one["id"], TASKS[one["task"]], one["key"], one["modality"]): one["output"]
            for one in lines
        }

    def generate_until(self, requests: list[Any]) -> list[str]:
        documents = [self.task_dict[task][split][doc_id] for *_, doc_id, task, split in (one.args for one in requests)]
        return [
            self.outputs[tuple(document[name] for name in ("split", "profile_id", "task", "key", "modality"))]
            for document in documents
        ]

    def loglikelihood(self, requests: list[Any]) -> Any:
        raise NotImplementedError

    def generate_until_multi_round(self, requests: list[Any]) -> Any:
        raise NotImplementedError
