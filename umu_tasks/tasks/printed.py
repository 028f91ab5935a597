"""Which of our two dozen metrics lmms-eval prints: what a reader looks for first. The results file has them all."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from typing import Any

_HIDDEN_ENDINGS = ("_official", "_strict")
_HIDDEN_STARTS = ("rouge1_", "rouge2_", "bleu_")
_MARK = "record,none"  # what only our tasks' results have


def is_printed(name: str) -> bool:
    """Return whether the terminal shows a metric: the default rule's, ROUGE-L, the gap, what may have gone wrong."""
    return name != "record" and not name.endswith(_HIDDEN_ENDINGS) and not name.startswith(_HIDDEN_STARTS)


def printed(results: Mapping[str, Any]) -> dict[str, Any]:
    """Return lmms-eval's results with fewer rows for our tasks, to make a table of; other tasks' rows are untouched."""
    rows = {task: _own_rows(row) if _MARK in row else dict(row) for task, row in results["results"].items()}
    return {**results, "results": rows}


def _own_rows(row: Mapping[str, Any]) -> dict[str, Any]:
    """Drop hidden metrics from ``{"acc_mul,none": 0.5, "acc_mul_stderr,none": 0.1, "alias": …}``."""
    return {key: value for key, value in row.items() if is_printed(key.partition(",")[0].partition("_stderr")[0])}


def legend(results: Mapping[str, Any]) -> str:
    """Return what to say under the table: which of our metrics it leaves out. MLLMU-Bench has no `_official` rule."""
    names = {key.partition(",")[0] for row in results["results"].values() if _MARK in row for key in row}
    rules = [ending for ending in _HIDDEN_ENDINGS if any(name.endswith(ending) for name in names)]
    scores = [f"the scores under the {' and '.join(rules)} rule{'s' * (len(rules) > 1)}"] if rules else []
    if any(name.startswith(_HIDDEN_STARTS) for name in names):
        scores += ["ROUGE-1", "ROUGE-2", "BLEU"]
    return f"umu-bench: the results file also has {', '.join([*scores, 'intervals'])}."


def shorten_tables() -> None:
    """Have lmms-eval's command print the short form. Its two modes look `make_table` up in two modules."""
    for name in ("lmms_eval.evaluator", "lmms_eval.__main__"):
        module = sys.modules.get(name)
        make_table = getattr(module, "make_table", None)
        if module is not None and make_table is not None and not hasattr(make_table, "by_umu_bench"):
            module.make_table = _shortened(make_table)  # type: ignore[attr-defined]


def _shortened(make_table: Callable[..., str]) -> Callable[..., str]:
    @functools.wraps(make_table)
    def table(results: Mapping[str, Any], column: str = "results", *args: Any, **kwargs: Any) -> str:
        if column != "results" or not any(_MARK in row for row in results["results"].values()):
            return make_table(results, column, *args, **kwargs)
        return f"{make_table(printed(results), column, *args, **kwargs)}\n{legend(results)}"

    table.by_umu_bench = True  # type: ignore[attr-defined]
    return table
