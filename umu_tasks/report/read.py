"""Read result folders that lmms-eval wrote with ``--output_path DIR --log_samples`` into typed runs.

Such a folder holds, for each time the program ran::

    DIR/<model>/20260102_030405_results.json               scores of all tasks, and what made them
    DIR/<model>/20260102_030405_samples_umu_real_cls.jsonl one line a question

A score stands under ``results -> umu_real_cls -> "acc_mul,none"``; a sample line holds the question's record under each
metric's name, for instance ``"acc_mul": {"profile_id": "001", "task": "cls", "key": "occupation", "modality":
"multimodal", "split": "real", "output": "Pilot", "parsed": "Pilot", "correct": 1}``.
"""

from __future__ import annotations

import json
import math
import pkgutil
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import umu_tasks.tasks
from umu_tasks.benchmarks.errors import DataError
from umu_tasks.benchmarks.instances import TASKS, InstanceKey, Modality, Task
from umu_tasks.report.runs import Answer, Origin, RunResult, TaskResult, split_order
from umu_tasks.scoring.metrics import METRICS

RESULTS_PATTERN = "*_results.json"
BENCHMARKS = tuple(module.name for module in pkgutil.iter_modules(umu_tasks.tasks.__path__) if module.ispkg)
_LEAF = re.compile(
    rf"(?P<benchmark>{'|'.join(BENCHMARKS)})_(?P<split>(?:forget|retain|test)\d\d|real|full)_(?P<task>{'|'.join(TASKS)})"
)
HOW_TO_RUN = (
    "Run `lmms-eval --model umu_hf --model_args pretrained=DIR --tasks umu05 --output_path FOLDER --log_samples` and "
    "give that FOLDER."
)


class LeafName(NamedTuple):
    """The parts of a leaf task's name."""

    benchmark: str
    split: str
    task: Task

    def __str__(self) -> str:
        return "_".join(self)


class _Results(NamedTuple):
    """One results file with its content."""

    file: Path
    content: dict[str, Any]

    @property
    def age(self) -> tuple[str, str]:
        return str(self.content.get("date") or self.file.name), str(self.file)


def parse_leaf(name: str) -> LeafName | None:
    """Return the parts of a leaf task's name (``umu_forget05_cls``), None for groups and for other people's tasks."""
    match = _LEAF.fullmatch(name)
    if match is None:
        return None
    task = next(task for task in TASKS if task == match["task"])
    return LeafName(match["benchmark"], match["split"], task)


# ---- a run ------------------------------------------------------------------------------------------------------


def read_runs(arguments: Sequence[str], benchmark: str | None = None) -> list[RunResult]:
    """Read the runs named on the command line, in their order.

    Args:
        arguments: ``FOLDER`` or ``NAME=FOLDER`` each.
        benchmark: whose results to read; needed only where a folder holds results of more than one benchmark.

    Raises:
        DataError: a folder has no usable results, two runs share a name, or the runs are of different benchmarks.
    """
    runs = [read_run(folder, name, benchmark) for name, folder in map(split_argument, arguments)]
    names = [run.name for run in runs]
    for run in runs:
        if names.count(run.name) > 1:
            raise DataError(f"two runs are called {run.name!r}. Give each a name of its own: NAME={run.folder} …")
    if len({run.benchmark for run in runs}) > 1:
        found = ", ".join(f"{run.name}: {run.benchmark}" for run in runs)
        raise DataError(f"the runs are of different benchmarks ({found}). Make one report for each benchmark.")
    return runs


def split_argument(argument: str) -> tuple[str, Path]:
    """Return display name and folder of ``NAME=FOLDER`` or ``FOLDER`` (named by its last part)."""
    name, equals, folder = argument.partition("=")
    if equals and not Path(argument).exists():
        if not name.strip() or not folder.strip():
            raise DataError(f"RUN {argument!r}: expected FOLDER or NAME=FOLDER.")
        return name.strip(), Path(folder.strip())
    path = Path(argument)
    return path.name or path.resolve().name, path


def read_run(folder: Path, name: str, benchmark: str | None = None) -> RunResult:
    """Read one result folder, searched recursively; where a task was run more than once the newest result wins.

    Raises:
        DataError: the folder is missing, has no results file, no task of ours, or results of more than one model.
    """
    found = sorted((_Results(file, _read_json(file)) for file in _results_files(folder)), key=lambda one: one.age)
    benchmark = benchmark or _only_benchmark(folder, found)
    newest, notices = _newest(found, benchmark)
    if not newest:
        _raise_no_tasks(folder, found)
    _require_one_model(folder, [_origin(results) for results in found if _leaves(results)])
    used = [results for results in found if any(results is other for other in newest.values())]
    origins = tuple(_origin(results) for results in used)
    if len(used) > 1:
        files = ", ".join(results.file.name for results in used)
        notices.append(f"Results of {len(used)} evaluations are put together: {files}.")
    notices += [
        f"Only a part of the questions was asked (--limit {origin.limit}): these are not benchmark results."
        for origin in origins
        if origin.limit
    ]
    tasks = {(leaf.split, leaf.task): _task_result(newest[leaf], leaf) for leaf in sorted(newest, key=_leaf_order)}
    without = [leaf for leaf in newest if tasks[leaf.split, leaf.task].answers is None]
    if without:
        notices.append(
            f"No sample file for {_listed(map(str, without))} (evaluated without --log_samples?): empty and refused "
            "outputs could not be counted there, so nobody knows whether those scores mean anything."
        )
    return RunResult(name, folder, benchmark, tasks, origins, tuple(notices))


def _newest(found: Sequence[_Results], benchmark: str) -> tuple[dict[LeafName, _Results], list[str]]:
    """Return the newest results file of each leaf task, and notices about results that are not shown.

    Args:
        found: oldest first.
    """
    newest: dict[LeafName, _Results] = {}
    replaced: Counter[str] = Counter()
    scoreless: list[str] = []
    for results in found:
        for leaf in _leaves(results):
            if leaf.benchmark != benchmark:
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


def _results_files(folder: Path) -> list[Path]:
    if not folder.exists():
        raise DataError(f"no such folder. {HOW_TO_RUN}", file=str(folder))
    if not folder.is_dir():
        raise DataError(f"expected a result folder, found a file. {HOW_TO_RUN}", file=str(folder))
    files = sorted(folder.rglob(RESULTS_PATTERN))
    if not files:
        raise DataError(f"no {RESULTS_PATTERN} in or below it: nothing was scored here. {HOW_TO_RUN}", file=str(folder))
    return files


def _read_json(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        problem = f"not readable as JSON ({error}). It may have been cut off in writing: evaluate again, or delete it."
        raise DataError(problem, file=str(file)) from error
    if not isinstance(content, dict) or not isinstance(content.get("results"), dict):
        raise DataError("no object 'results', so no results file of lmms-eval. Move it away.", file=str(file))
    return content


def _leaves(results: _Results) -> list[LeafName]:
    names = [name for name, values in results.content["results"].items() if isinstance(values, dict)]
    return [leaf for leaf in map(parse_leaf, names) if leaf is not None]


def _raise_no_tasks(folder: Path, found: Iterable[_Results]) -> None:
    names = sorted({name for results in found for name in results.content["results"]})
    raise DataError(
        f"results of other tasks only ({_listed(names) or 'none at all'}); expected some like umu_forget05_cls. "
        f"{HOW_TO_RUN}",
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


def _only_benchmark(folder: Path, found: Iterable[_Results]) -> str:
    benchmarks = sorted({leaf.benchmark for results in found for leaf in _leaves(results)})
    if len(benchmarks) > 1:
        raise DataError(
            f"results of several benchmarks ({', '.join(benchmarks)}). Choose one: --benchmark {benchmarks[0]}",
            file=str(folder),
        )
    return benchmarks[0] if benchmarks else ""


def _listed(names: Iterable[str]) -> str:
    every = list(names)
    return ", ".join(every[:6]) + (f" and {len(every) - 6} more" if len(every) > 6 else "")


# ---- what made it -----------------------------------------------------------------------------------------------


def _origin(results: _Results) -> Origin:
    document = results.content
    config = document.get("config")
    config = config if isinstance(config, dict) else {}
    model_args = config.get("model_args")
    if isinstance(model_args, dict):
        model_args = ",".join(f"{name}={value}" for name, value in model_args.items())
    limit = config.get("limit")
    versions = document.get("versions")
    shown = ("batch_size", "gen_kwargs", "random_seed", "torch_seed")
    return Origin(
        file=results.file,
        model=str(config.get("model") or "unknown"),
        model_args=str(model_args or ""),
        date=_readable_date(str(document.get("date") or "")),
        lmms_eval_version=str(document.get("lmms_eval_version") or "not recorded"),
        git_hash=str(document.get("git_hash") or "not recorded"),
        limit="" if limit in (None, -1, -1.0) else f"{limit:g}" if isinstance(limit, float) else str(limit),
        task_versions={name: str(version) for name, version in versions.items() if parse_leaf(name)}
        if isinstance(versions, dict)
        else {},
        settings={name: str(config[name]) for name in shown if config.get(name) not in (None, "")},
    )


def _readable_date(stamp: str) -> str:
    match = re.fullmatch(r"(\d{4})(\d\d)(\d\d)_(\d\d)(\d\d)(\d\d)", stamp)
    return "{}-{}-{} {}:{}:{}".format(*match.groups()) if match else stamp or "not recorded"


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


def _task_result(results: _Results, leaf: LeafName) -> TaskResult:
    file = results.file
    samples = file.with_name(f"{file.name.removesuffix('_results.json')}_samples_{leaf}.jsonl")
    answers = _read_samples(samples, leaf.task) if samples.is_file() else None
    return TaskResult(
        split=leaf.split,
        task=leaf.task,
        metrics=_metrics(results.content["results"][str(leaf)]),
        questions=_questions(results.content, str(leaf), answers),
        answers=answers,
    )


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


def _read_samples(file: Path, task: Task) -> tuple[Answer, ...]:
    """Read a sample file; a question that stands in it twice (padded shards) counts once."""
    answers: dict[tuple[InstanceKey, Modality], Answer] = {}
    with file.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                answer = _answer(line, task, f"{file}, line {number}")
                answers.setdefault((answer.instance_key, answer.modality), answer)
    return tuple(answers.values())


def _answer(line: str, task: Task, where: str) -> Answer:
    try:
        sample = json.loads(line)
    except ValueError as error:
        raise DataError(f"not readable as JSON ({error}). Evaluate again.", file=where) from error
    # Each metric's name holds the record scored by that metric's rule; ours are the ones without a suffix.
    sample = sample if isinstance(sample, dict) else {}
    records = (sample.get(name) for name in (*METRICS, *sample))
    record = next((record for record in records if isinstance(record, dict) and "modality" in record), None)
    if record is None:
        raise DataError("no scored record in this sample, so these tasks did not write it. Evaluate again.", file=where)
    score_name = "rouge_l" if task == "gen" else "correct"
    missing = [name for name in ("profile_id", "key", "modality", score_name) if record.get(name) is None]
    if missing:
        problem = f"the scored record has no {', '.join(missing)}; found {', '.join(record)}. Evaluate again."
        raise DataError(problem, file=where)
    output = record.get("output")
    return Answer(
        profile_id=str(record["profile_id"]),
        task=task,
        key=str(record["key"]),
        modality="multimodal" if record["modality"] == "multimodal" else "unimodal",
        output=None if output is None else str(output),
        score=float(record[score_name]),
        gold=str(sample.get("target", "")),
        question_hash=str(sample.get("doc_hash") or ""),
    )
