"""What is known about the evaluation that is going on in this process; lmms-eval has one at a time."""

from __future__ import annotations

import logging
import math
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from umu_tasks.results.provenance import build_provenance
from umu_tasks.results.stock import StockModel
from umu_tasks.results.validity import judge
from umu_tasks.scoring.summary import summarize

logger = logging.getLogger(__name__)

FORMAT = 1


class Backend(Protocol):
    """What our own backend offers here."""

    def provenance(self) -> dict[str, Any]: ...


class Run:
    """Collects, from the start of an evaluation to its results file, what the ``"umu"`` block says.

    Attributes:
        summaries: leaf task -> `scoring.summary.summarize`.
        problems: what went wrong besides empty and failed outputs, one sentence each.
        unscored: leaf task -> split, of tasks that were asked and, as was wanted, not scored (``--predict_only``).
    """

    def __init__(self) -> None:
        self.summaries: dict[str, dict[str, Any]] = {}
        self.problems: list[str] = []
        self.unscored: dict[str, str] = {}
        self._announced: weakref.ref[Backend] | None = None
        self._own: dict[str, Any] | None = None
        self._stock: StockModel | None = None

    def announce(self, backend: Backend) -> None:
        """Called by our backend when it is ready; the evaluation that starts next is its own.

        It is not kept alive: lmms-eval may drop a model, and its memory, before it saves results.
        """
        self._announced = weakref.ref(backend)

    def start(self, backend: str, model_args: str | Mapping[str, Any] | None) -> None:
        """Begin anew. lmms-eval has built the model by then."""
        self.summaries, self.problems, self.unscored = {}, [], {}
        own = self._announced() if self._announced is not None else None
        self._own = None if own is None else own.provenance()
        self._announced = None
        self._stock = StockModel.note(backend, model_args)

    def summarize(self, task: str, records: Iterable[Mapping[str, Any]]) -> dict[str, Any] | None:
        """Summarize a leaf task's records and keep the summary; None if that fails, which makes the run invalid."""
        try:
            self.summaries[task] = summarize(list(records))
        except Exception as error:
            logger.exception("umu-bench: task %s can't be summarized.", task)
            self.problems.append(f"{task} can't be summarized ({type(error).__name__}: {error})")
        return self.summaries.get(task)

    def block(self, results: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the ``"umu"`` block of lmms-eval's results; None if no task of ours was evaluated."""
        if not self.summaries and not self.problems and not self.unscored:
            return None
        provenance = self._provenance(results)
        return {
            "format": FORMAT,
            "tasks": plain(self.summaries),
            "validity": judge(self.summaries, self.problems, self.unscored),
            "provenance": plain(provenance),
        }

    def _provenance(self, results: Mapping[str, Any]) -> dict[str, Any]:
        try:
            stock = self._stock or StockModel.note(str(results.get("config", {}).get("model")), None)
            model = stock.provenance() if self._own is None else self._own
            scored = {task: summary["split"] for task, summary in self.summaries.items()}
            return build_provenance(results, stock.backend, model, {**scored, **self.unscored})
        except Exception as error:
            logger.exception("umu-bench: the results file will lack its provenance.")
            self.problems.append(f"the run's provenance is not known ({type(error).__name__}: {error})")
            return {}


def plain(value: Any) -> Any:
    """Return `value` as JSON has it: numbers that are none become null, tuples lists."""
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


RUN = Run()
