"""What UMU-Bench's task files call.

A task file names its line of `selectors.json` (`{"split": "forget05", "task": "cls"}`); `build_documents` gets that
line as lmms-eval's data set and puts the questions in its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from datasets import Dataset

from umu_tasks.backend.preflight import check_backend
from umu_tasks.benchmarks.errors import DataError
from umu_tasks.benchmarks.sources import open_source
from umu_tasks.tasks.abort import aborts_on_error
from umu_tasks.tasks.documents import build_dataset, documents_of
from umu_tasks.tasks.records import Number, Record, score
from umu_tasks.tasks.umu import prompts

if TYPE_CHECKING:
    from PIL.Image import Image

BENCHMARK = "umu"


@aborts_on_error
def build_documents(selector: Dataset) -> Dataset:
    """Return the questions of the split and task that the selector names, from the source `UMU_DATA` names."""
    (row,) = selector
    source = open_source(benchmark=BENCHMARK)
    documents = documents_of(
        source.load(row["split"]),
        row["task"],
        row["split"],
        prompt=prompts.user_text,
        published_prompt=prompts.published_prompt,
    )
    if not documents:
        raise DataError(
            f"split {row['split']} has no {row['task']} question. Check the data with `umu data check`.",
            file=source.spec,
        )
    return build_dataset(documents)


def text(document: Mapping[str, Any]) -> str:
    """Return the user's text: the question and its instruction. Refuses a backend known to answer wrongly."""
    check_backend()
    return str(document["prompt"])


@aborts_on_error
def images(document: Mapping[str, Any]) -> list[Image]:
    """Return the portrait of a multimodal question, nothing for a unimodal one."""
    if document["modality"] == "unimodal":
        return []
    return [_portrait(open_source(benchmark=BENCHMARK).spec, document["split"], document["profile_id"])]


@lru_cache(maxsize=16)  # one person's questions come one after the other
def _portrait(spec: str, split: str, profile_id: str) -> Image:
    return open_source(spec, benchmark=BENCHMARK).load(split).by_id(profile_id).open_image()


def messages(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the question as a conversation: image and text, or text alone.

    Our own builder and not lmms-eval's automatic one, which some of its versions let drop the task's instructions.
    """
    content: list[dict[str, Any]] = [{"type": "image", "url": image} for image in images(document)]
    return [{"role": "user", "content": [*content, {"type": "text", "text": document["prompt"]}]}]


def target(document: Mapping[str, Any]) -> str:
    """Return the right answer."""
    return str(document["gold"])


@aborts_on_error
def score_answer(document: Mapping[str, Any], outputs: Sequence[str]) -> dict[str, Record | Number]:
    """Return one answered question's record, and metric name -> its number."""
    return score(document, outputs)
