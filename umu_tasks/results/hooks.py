"""Where lmms-eval is made to call us. It has no events of its own, so a few of its methods are wrapped.

Each hook stands alone: where a version of lmms-eval lacks one of the methods, the log says what is lost, and the rest
works. Nothing here changes what lmms-eval computes for other people's tasks.
"""

from __future__ import annotations

import functools
import json
import logging
import math
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from umu_tasks.results.exit_status import fail_at_exit, watch_exit
from umu_tasks.results.provenance import data_provenance
from umu_tasks.results.run import RUN
from umu_tasks.results.stock import by_content
from umu_tasks.tasks.abort import EvaluationAborted
from umu_tasks.tasks.documents import is_document
from umu_tasks.tasks.printed import shorten_tables

logger = logging.getLogger(__name__)

Method = Callable[..., Any]
UNSCORED = "bypass"  # the metric that --predict_only puts in place of a task's own
LOST = {
    "summaries": 'the "umu" block of the results file, its intervals, standard errors, and the check for empty outputs',
    "start": "the note on which weights a stock backend loaded, in the results file's provenance",
    "saving": 'the "umu" block of the results file, and exit status 1 for runs that are not valid',
    "cache": "--use_cache by the weights' content: it goes by their path, so use cache=DIR in umu_hf's --model_args",
}


def install() -> None:
    """Wrap lmms-eval's methods, once; log what is lost where one of them is missing."""
    watch_exit()
    for name, place, method, wrap in (
        ("summaries", "lmms_eval.evaluator_utils:TaskOutput", "calculate_aggregate_metric", _summarizing),
        ("summaries", "lmms_eval.evaluator_utils:TaskOutput", "calculate_clt_aggregate_metric", _without_naive_errors),
        ("start", "lmms_eval.loggers.evaluation_tracker:GeneralConfigTracker", "log_experiment_args", _starting),
        ("saving", "lmms_eval.loggers.evaluation_tracker:EvaluationTracker", "save_results_aggregated", _saving),
        ("cache", "lmms_eval.caching.response_cache:ResponseCache", "create", _keyed_by_content),
        ("cache", "lmms_eval.caching.response_cache:ResponseCache", "execute", _asking_the_backend),
    ):
        try:
            _wrap_method(place, method, wrap)
        except (ImportError, AttributeError) as error:
            logger.error("umu-bench: this lmms-eval has no %s.%s (%s). Lost: %s.", place, method, error, LOST[name])


def _wrap_method(place: str, name: str, wrap: Callable[[Method], Method]) -> None:
    module, _, class_name = place.partition(":")
    owner = getattr(import_module(module), class_name)
    method = getattr(owner, name)
    if hasattr(method, "by_umu_bench"):
        return
    is_class_method = isinstance(vars(owner).get(name), classmethod)
    wrapped = functools.wraps(method)(wrap(method))
    wrapped.by_umu_bench = True  # type: ignore[attr-defined]
    setattr(owner, name, staticmethod(wrapped) if is_class_method else wrapped)


def guard_evaluation(is_ours: Callable[[str], bool]) -> None:
    """Have an error in an evaluation of our tasks end the program: lmms-eval prints it and exits with success.

    Called when the command has chosen its tasks, since lmms-eval's evaluator is still being imported when `install` is.

    Args:
        is_ours: tells our tasks and groups by their names.
    """
    evaluator: Any = import_module("lmms_eval.evaluator")
    evaluate = evaluator.simple_evaluate
    if hasattr(evaluate, "by_umu_bench"):
        return

    @functools.wraps(evaluate)
    def simple_evaluate(*args: Any, **kwargs: Any) -> Any:
        ours = any(isinstance(task, str) and is_ours(task) for task in kwargs.get("tasks") or ())
        if ours and kwargs.get("num_fewshot"):
            raise EvaluationAborted(
                f"--num_fewshot {kwargs['num_fewshot']}: our tasks have the number of examples in their names "
                "(MLLMU-Bench: few-shot as published, or _0shot; UMU-Bench: none). Leave the option out."
            )
        try:
            return evaluate(*args, **kwargs)
        except Exception as error:
            if not ours:
                raise
            traceback.print_exc()
            raise EvaluationAborted(f"the evaluation failed: {type(error).__name__}: {error}") from error

    simple_evaluate.by_umu_bench = True  # type: ignore[attr-defined]
    evaluator.simple_evaluate = simple_evaluate


# ---- scores -----------------------------------------------------------------------------------------------------


def _summarizing(aggregate: Method) -> Method:
    """After lmms-eval has aggregated a task of ours: summarize its records and put the standard errors in place."""

    def calculate_aggregate_metric(self: Any, *args: Any, **kwargs: Any) -> None:
        aggregate(self, *args, **kwargs)
        records = records_of(self.sample_metrics)
        summary = RUN.summarize(self.task_name, records) if records else None
        if not records and any(metric == UNSCORED for metric, _ in self.sample_metrics):
            RUN.unscored.update(_our_leaves({self.task_name: self.task}))
        for metric, key in self.sample_metrics if summary else ():
            spread = summary["metrics"].get(metric, {}).get("stderr", math.nan) if summary else math.nan
            if math.isfinite(spread):
                self.agg_metrics[f"{metric}_stderr,{key}"] = spread

    return calculate_aggregate_metric


def _without_naive_errors(calculate: Method) -> Method:
    """lmms-eval's formula takes all values of a metric for independent draws, and those of both modalities for one
    sample: neither is so for our tasks."""

    def calculate_clt_aggregate_metric(self: Any, *args: Any, **kwargs: Any) -> None:
        calculate(self, *args, **kwargs)
        if records_of(self.sample_metrics):
            for metric, key in self.sample_metrics:
                for kind in ("clt", "clustered"):
                    self.agg_metrics[f"{metric}_stderr_{kind},{key}"] = "N/A"

    return calculate_clt_aggregate_metric


def records_of(sample_metrics: Mapping[Any, Iterable[Any]]) -> list[Mapping[str, Any]]:
    """Return a task's records, each question's once; empty if the task isn't ours.

    Every metric of a task carries all of its records. lmms-eval keeps them for the aggregation whether or not samples
    are logged, and on several processes gathers them in the first one.
    """
    for values in sample_metrics.values():
        records = [value.record for value in values if hasattr(value, "record")]
        if records:
            return records
    return []


# ---- the run ----------------------------------------------------------------------------------------------------


def _starting(log: Method) -> Method:
    def log_experiment_args(self: Any, model_source: Any, model_args: Any, *args: Any, **kwargs: Any) -> None:
        log(self, model_source, model_args, *args, **kwargs)
        RUN.start(str(model_source), model_args)

    return log_experiment_args


def _saving(save: Method) -> Method:
    """Complete the results before they are written; afterwards, arrange for the exit status."""

    def save_results_aggregated(self: Any, results: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        block = RUN.block(results)
        if block is None:
            save(self, results, *args, **kwargs)
            return
        results["umu"] = block
        shorten_tables()
        save(self, results, *args, **kwargs)
        _judge(block, self)

    return save_results_aggregated


def _judge(block: Mapping[str, Any], tracker: Any) -> None:
    where = getattr(tracker, "output_path", None)
    saved = f"The results are saved in {where}." if where else "No --output_path was given, so nothing was saved."
    if where and not _is_saved(tracker):
        saved = f"The results could not be saved in {where}."
        fail_at_exit(f"{saved} lmms-eval's log says why.")
    as_wanted = RUN.unscored and not RUN.problems  # nothing scored is what --predict_only is for
    if not block["validity"]["valid"] and not as_wanted:
        reasons = "; ".join(block["validity"]["reasons"])
        fail_at_exit(f"the run is not valid, and its scores say nothing about forgetting: {reasons}. {saved}")


def _is_saved(tracker: Any) -> bool:
    """lmms-eval logs an error while saving (a full disk, say) and goes on."""
    date = getattr(tracker, "date_id", None)
    if date is None:
        return False
    files = Path(tracker.output_path).rglob(f"{date}_results.json")
    return any(file.stat().st_size > 0 for file in files)


# ---- the response cache -------------------------------------------------------------------------------------------


def _asking_the_backend(execute: Method) -> Method:
    """Leave it to `umu_hf` to keep its answers, in the folder that `--use_cache` names.

    lmms-eval's cache writes when all questions of all tasks are answered, so a killed run would lose them all.
    """

    def execute_requests(self: Any, lm: Any, reqtype: str, requests: list[Any]) -> list[Any]:
        if not hasattr(lm, "keep_answers"):
            return execute(self, lm, reqtype, requests)
        lm.keep_answers(Path(getattr(self, "_cache_root", None) or Path(self.db_path).parent))
        return getattr(lm, reqtype)(requests)

    return execute_requests


def _keyed_by_content(create: Method) -> Method:
    """`create` is bound to its class, and called with the cache's folder and keyword arguments.

    A stock backend keeps lmms-eval's cache. Its key has the model's arguments and the text of the question: for our
    tasks we put the content of the checkpoint and of the data, portraits included, in place of their names.
    """

    def create_cache(cache_root: str, **kwargs: Any) -> Any:
        leaves = list(_our_leaves(kwargs.get("task_dict") or {}))
        if leaves:
            data = data_provenance(leaves)
            kwargs["model_args"] = by_content(kwargs.get("model_args")) | {"data": json.dumps(data, sort_keys=True)}
        return create(cache_root=cache_root, **kwargs)

    return create_cache


def _our_leaves(tasks: Mapping[Any, Any]) -> Iterator[tuple[str, str]]:
    """Yield name and split of each leaf task of ours in lmms-eval's tree of tasks."""
    for name, task in tasks.items():
        if isinstance(task, Mapping):
            yield from _our_leaves(task)
            continue
        document = next(iter(getattr(task, "eval_docs", None) or ()), None)
        if document is not None and is_document(document):
            yield str(name), document["split"]
