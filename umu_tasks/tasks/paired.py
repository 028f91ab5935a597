"""What a benchmark's task files call, for benchmarks whose facts are each asked in both modalities.

A benchmark's `hooks.py` makes one `PairedHooks` of its name and its prompts. A task file names its line of
`selectors.json` (`{"split": "forget05", "task": "cls"}`); `build_documents` gets that line as lmms-eval's data set and
puts the questions in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from datasets import Dataset

from umu_tasks.backend.preflight import check_backend
from umu_tasks.benchmarks.errors import NoQuestionsError
from umu_tasks.benchmarks.instances import Question
from umu_tasks.benchmarks.sources import open_source, variable_of
from umu_tasks.tasks.abort import aborts_on_error
from umu_tasks.tasks.documents import build_dataset, documents_of
from umu_tasks.tasks.records import Number, Record, score

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True)
class PairedHooks:
    """The functions that a benchmark's task files name.

    Attributes:
        benchmark: name of its folder.
        user_text: what the user says in a question: no image placeholder, no role names.
        published_prompt: the whole prompt of the frame that the benchmark's evaluator has for LLaVA-1.5.
    """

    benchmark: str
    user_text: Callable[[Question], str]
    published_prompt: Callable[[Question], str]

    @aborts_on_error
    def build_documents(self, selector: Dataset) -> Dataset:
        """Return the questions of the split and task that the selector names, from the benchmark's source."""
        (row,) = selector
        source = open_source(benchmark=self.benchmark)
        documents = documents_of(
            source.load(row["split"]),
            row["task"],
            row["split"],
            prompt=self.user_text,
            published_prompt=self.published_prompt,
        )
        if not documents:
            raise NoQuestionsError(
                f"split {row['split']} has no {row['task']} question. Check the data that "
                f"{variable_of(self.benchmark)} names with `umu data check`.",
                file=source.spec,
            )
        return build_dataset(documents)

    def text(self, document: Mapping[str, Any]) -> str:
        """Return the user's text: the question and its instruction. Refuses a backend known to answer wrongly."""
        check_backend()
        return str(document["prompt"])

    @aborts_on_error
    def images(self, document: Mapping[str, Any]) -> list[Image]:
        """Return the portrait of a multimodal question, nothing for a unimodal one."""
        if document["modality"] == "unimodal":
            return []
        spec = open_source(benchmark=self.benchmark).spec
        return [portrait(self.benchmark, spec, document["split"], document["profile_id"])]

    def messages(self, document: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the question as a conversation: image and text, or text alone.

        Our own builder and not lmms-eval's automatic one, which some of its versions let drop the task's instructions.
        """
        content: list[dict[str, Any]] = [{"type": "image", "url": image} for image in self.images(document)]
        return [{"role": "user", "content": [*content, {"type": "text", "text": document["prompt"]}]}]

    @staticmethod
    def target(document: Mapping[str, Any]) -> str:
        """Return the right answer."""
        return str(document["gold"])

    @staticmethod
    @aborts_on_error
    def score_answer(document: Mapping[str, Any], outputs: Sequence[str]) -> dict[str, Record | Number]:
        """Return one answered question's record, and metric name -> its number."""
        return score(document, outputs)


@lru_cache(maxsize=16)  # one person's questions come one after the other
def portrait(benchmark: str, spec: str, split: str, profile_id: str) -> Image:
    """Return a person's portrait."""
    return open_source(spec, benchmark=benchmark).load(split).by_id(profile_id).open_image()
