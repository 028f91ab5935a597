"""Read result folders that lmms-eval wrote with ``--output_path DIR --log_samples`` into typed runs.

Such a folder holds, for each time the program ran::

    DIR/<model>/20260102_030405_results.json               scores of all tasks, and what made them
    DIR/<model>/20260102_030405_samples_umu_real_cls.jsonl one line a question

A score stands under ``results -> umu_real_cls -> "acc_mul,none"``. Our plugin adds what lmms-eval has no place for
under ``umu``: intervals, counts and fields by task, whether the run is valid, and what made it. Results without it are
read too. Beside folders, files of the published evaluator are read (`umu_tasks.report.published`).

Results of other people's tasks in the same folders are the run's general ability (`umu_tasks.report.general`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from umu_tasks.benchmarks.errors import DataError
from umu_tasks.benchmarks.instances import TASKS, Task
from umu_tasks.report.factuality import read_judged
from umu_tasks.report.files import BLOCK, BLOCK_FORMAT, HOW_TO_RUN, Results, origin_of, part, read_results
from umu_tasks.report.general import read_general
from umu_tasks.report.leaves import ZERO_SHOT, LeafName
from umu_tasks.report.published import read_published
from umu_tasks.report.runs import Answer, Origin, RunResult, TaskResult, split_order
from umu_tasks.report.samples import read_samples
from umu_tasks.report.summaries import summarize_answers, summarized_metrics

# ---- a run ------------------------------------------------------------------------------------------------------


def read_runs(
    arguments: Sequence[str], benchmark: str | None = None, *, zero_shot: bool | None = None
) -> list[RunResult]:
    """Read the runs named on the command line, in their order.

    Args:
        arguments: ``FOLDER`` or ``NAME=FOLDER`` each, a name more than once for a run whose results lie in several
            folders; a JSON file of the published evaluator in place of a folder.
        benchmark: whose results to read; needed only where a folder holds results of more than one benchmark.
        zero_shot: which form to read of tasks that are there with and without examples in the prompt; None: with
            examples, or without where a run has nothing else.

    Raises:
        DataError: a folder has no usable results, two runs share a name, or the runs are of different benchmarks.
    """
    runs = [_read(paths, name, benchmark, zero_shot) for name, paths in _by_name(arguments)]
    names = [run.name for run in runs]
    for run in runs:
        if names.count(run.name) > 1:
            raise DataError(f"two runs are called {run.name!r}. Give each a name of its own: NAME={run.folder} …")
    if len({run.benchmark for run in runs}) > 1:
        found = ", ".join(f"{run.name}: {run.benchmark}" for run in runs)
        raise DataError(f"the runs are of different benchmarks ({found}). Make one report for each benchmark.")
    return runs


def _by_name(arguments: Sequence[str]) -> list[tuple[str, list[Path]]]:
    """Return each run's name and paths; only a name that was given, not one made of a folder's, joins several."""
    found: list[tuple[str, list[Path]]] = []
    given: dict[str, list[Path]] = {}
    for argument in arguments:
        name, path = split_argument(argument)
        if "=" not in argument or Path(argument).exists():  # named by its folder
            found.append((name, [path]))
        elif name in given:
            given[name].append(path)
        else:
            given[name] = [path]
            found.append((name, given[name]))
    return found


def _read(paths: Sequence[Path], name: str, benchmark: str | None, zero_shot: bool | None) -> RunResult:
    for path in paths:
        if path.suffix == ".json" and not path.exists():
            raise DataError("no such file.", file=str(path))
    published = [path for path in paths if path.is_file()]
    if not published:
        return read_run(paths[0], name, benchmark, more=paths[1:], zero_shot=zero_shot)
    if len(paths) > 1:
        raise DataError(
            f"a file, which can't be put together with other results as {name}. Give it a name of its own.",
            file=str(published[0]),
        )
    return read_published(published[0], name)


def split_argument(argument: str) -> tuple[str, Path]:
    """Return display name and path of ``NAME=PATH`` or ``PATH`` (named by its last part, without ``.json``)."""
    name, equals, folder = argument.partition("=")
    if equals and not Path(argument).exists():
        if not name.strip() or not folder.strip():
            raise DataError(f"RUN {argument!r}: expected FOLDER or NAME=FOLDER.")
        return name.strip(), Path(folder.strip())
    path = Path(argument)
    return (path.name or path.resolve().name).removesuffix(".json"), path


def read_run(
    folder: Path,
    name: str,
    benchmark: str | None = None,
    *,
    more: Sequence[Path] = (),
    zero_shot: bool | None = None,
) -> RunResult:
    """Read a run's result folders, searched recursively; where a task was run more than once the newest result wins.

    Args:
        more: other folders with results of the same model.
        zero_shot: see `read_runs`.

    Raises:
        DataError: a folder is missing, has no results file, no task of ours, or results of more than one model.
    """
    folders = (folder, *more)
    found = read_results(folders)
    benchmark = benchmark or _only_benchmark(folder, found)
    leaves = [leaf for results in found for leaf in results.leaves if leaf.benchmark == benchmark]
    form = _form(leaves, zero_shot)
    newest, notices = _newest(found, benchmark, form)
    if not newest:
        _raise_no_tasks(folder, found)
    _require_one_model(folder, [origin_of(results) for results in found if results.leaves])
    used = [results for results in found if any(results is other for other in newest.values())]
    origins = tuple(origin_of(results) for results in used)
    if len(used) > 1:
        files = ", ".join(results.file.name for results in used)
        notices.append(f"Results of {len(used)} evaluations are put together: {files}.")
    notices += [
        f"Only a part of the questions was asked (--limit {origin.limit}): these are not benchmark results."
        for origin in origins
        if origin.limit
    ]
    tasks = {(leaf.split, leaf.task): _task_result(newest[leaf], leaf) for leaf in sorted(newest, key=_leaf_order)}
    judged, unjudged = read_judged(folders, newest)
    return RunResult(
        name,
        folder,
        benchmark,
        tasks,
        origins,
        (*notices, *_missing_notices(newest, tasks), *_other_form(leaves, form), *unjudged),
        invalid=tuple(dict.fromkeys(reason for results in used for reason in _reasons(results))),
        more_folders=tuple(more),
        form=form if any(leaf.has_other_form for leaf in newest) else "",
        general=read_general(found),
        factuality=judged,
    )


def _form(leaves: Sequence[LeafName], zero_shot: bool | None) -> str:
    """Return which form of the tasks to read: ``0shot`` for the one without examples, else ""."""
    if zero_shot is None:
        forms = {leaf.form for leaf in leaves if leaf.has_other_form}
        zero_shot = forms == {ZERO_SHOT}
    return ZERO_SHOT if zero_shot else ""


def _is_shown(leaf: LeafName, form: str) -> bool:
    return leaf.form == form or not leaf.has_other_form


def _other_form(leaves: Sequence[LeafName], form: str) -> Iterable[str]:
    hidden = sorted({str(leaf) for leaf in leaves if not _is_shown(leaf, form)})
    if hidden:
        how = "leave --zero-shot out to see them" if form else "show them, in a report of their own, with --zero-shot"
        yield f"{_listed(hidden)}: scored too, in another form than the one shown here; {how}."


def _missing_notices(newest: Mapping[LeafName, Results], tasks: Mapping[tuple[str, Task], TaskResult]) -> Iterable[str]:
    """Say what the results lack, so that nobody takes it for zero."""
    odd = {results.file.name for results in newest.values() if BLOCK in results.content and not results.block}
    if odd:
        yield (
            f"{_listed(sorted(odd))}: the part {BLOCK!r} is not of the form this version knows (format {BLOCK_FORMAT}) "
            "and is not read. Use the umu-bench that wrote it."
        )
    without_block = sorted({results.file.name for results in newest.values() if BLOCK not in results.content})
    if without_block:
        yield (
            f"{_listed(without_block)}: written without our plugin or by an older version. Intervals and counts are "
            "computed here from the sample files; weights, data and rules behind the scores are not recorded."
        )
    silent = [leaf for leaf in newest if tasks[leaf.split, leaf.task].answers is None]
    unknown = [leaf for leaf in silent if not tasks[leaf.split, leaf.task].summary]
    if unknown:
        yield (
            f"No sample file for {_listed(map(str, unknown))} (evaluated without --log_samples?): empty and refused "
            "outputs could not be counted there, so nobody knows whether those scores mean anything."
        )
    elif silent:
        yield f"No sample file for {_listed(map(str, silent))}: no example answers, and intervals of changes are wider."


def _reasons(results: Results) -> list[str]:
    """Return why a results file calls its own run invalid; empty for a valid one."""
    validity = part(results.block, "validity")
    if validity.get("valid", True):
        return []
    reasons = validity.get("reasons")
    told = [str(reason) for reason in reasons] if isinstance(reasons, list) else []
    return told or ["the results file calls the run invalid and gives no reason"]


def _newest(found: Sequence[Results], benchmark: str, form: str) -> tuple[dict[LeafName, Results], list[str]]:
    """Return the newest results file of each leaf task, and notices about results that are not shown.

    Args:
        found: oldest first.
    """
    newest: dict[LeafName, Results] = {}
    replaced: Counter[str] = Counter()
    scoreless: list[str] = []
    for results in found:
        for leaf in results.leaves:
            if leaf.benchmark != benchmark or not _is_shown(leaf, form):
                continue
            if not _metrics(results.content["results"][str(leaf)]):
                scoreless.append(str(leaf))
                continue
            if leaf in newest:
                replaced[newest[leaf].file.name] += 1
            newest[leaf] = results
    notices = [
        f"{file} holds {count} task result{'s' if count > 1 else ''} that a newer file replaces; the newer is shown."
        for file, count in replaced.items()
    ]
    if scoreless:
        notices.append(f"{_listed(scoreless)}: ran but got no score (no question was answered in both modalities).")
    return newest, notices


def _leaf_order(leaf: LeafName) -> tuple[tuple[int, str], int]:
    return split_order(leaf.split), TASKS.index(leaf.task)


def _raise_no_tasks(folder: Path, found: Iterable[Results]) -> None:
    names = sorted({name for results in found for name in results.content["results"]})
    raise DataError(
        f"results of other tasks only ({_listed(names) or 'none at all'}); expected some like umu_forget05_cls. "
        f"{HOW_TO_RUN} Other tasks' results are shown beside ours: give both folders one name, NAME=OURS NAME=OTHERS.",
        file=str(folder),
    )


def _require_one_model(folder: Path, origins: Sequence[Origin]) -> None:
    folders = {origin.made_by: origin.file.parent for origin in origins}
    if len(folders) > 1:
        models = "; ".join(f"{model} in {where}" for model, where in folders.items())
        raise DataError(
            f"results of {len(folders)} models in one folder ({models}). A run is one model: evaluate each with an "
            "--output_path of its own, or give the folders of each one.",
            file=str(folder),
        )


def _only_benchmark(folder: Path, found: Iterable[Results]) -> str:
    benchmarks = sorted({leaf.benchmark for results in found for leaf in results.leaves})
    if len(benchmarks) > 1:
        raise DataError(
            f"results of several benchmarks ({', '.join(benchmarks)}). Choose one: --benchmark {benchmarks[0]}",
            file=str(folder),
        )
    return benchmarks[0] if benchmarks else ""


def _listed(names: Iterable[str]) -> str:
    every = list(names)
    return ", ".join(every[:6]) + (f" and {len(every) - 6} more" if len(every) > 6 else "")


# ---- scores and samples -----------------------------------------------------------------------------------------


def _metrics(values: Mapping[str, Any]) -> dict[str, float]:
    """Return metric -> value; keys read ``acc_mul,none`` (metric, filter), without standard errors and non-numbers."""
    metrics: dict[str, float] = {}
    for key, value in values.items():
        name, _, filter_name = key.partition(",")
        if "_stderr" in name or isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if math.isfinite(value) and (name not in metrics or filter_name in ("", "none")):
            metrics[name] = float(value)
    return metrics


def _task_result(results: Results, leaf: LeafName) -> TaskResult:
    file = results.file
    samples = file.with_name(f"{results.stamp}_samples_{leaf}.jsonl")
    answers = read_samples(samples, leaf.task) if samples.is_file() else None
    result = TaskResult(
        split=leaf.split,
        task=leaf.task,
        metrics=_metrics(results.content["results"][str(leaf)]),
        questions=_questions(results.content, str(leaf), answers),
        answers=answers,
        summary=results.summary(leaf) or summarize_answers(leaf.split, answers or ()),
    )
    return replace(result, metrics=result.metrics | summarized_metrics(result.summary))


def _questions(document: Mapping[str, Any], name: str, answers: Sequence[Answer] | None) -> int:
    """Return how many questions were asked. lmms-eval writes --limit as given, so -1 and fractions occur."""
    counts = document.get("n-samples")
    counts = counts.get(name) if isinstance(counts, dict) else None
    if not isinstance(counts, dict):
        return len(answers or ())
    original, effective = int(counts.get("original") or 0), float(counts.get("effective") or 0)
    if effective < 0:
        return original
    return math.ceil(original * effective) if 0 < effective < 1 else int(effective)
