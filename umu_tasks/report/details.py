"""Tables behind the scores: the three rules side by side, and scores by field of knowledge."""

from __future__ import annotations

from collections.abc import Iterator

from umu_tasks.benchmarks.instances import TASK_NAMES, TASKS, Task
from umu_tasks.report.cells import NOTHING, Cell, Row, Table, number, number_or_nothing
from umu_tasks.report.compare import ANSWER_TASKS, Comparison, headline
from umu_tasks.report.published import MISSING
from umu_tasks.report.runs import RULE_NAMES, RunResult, TaskResult
from umu_tasks.report.tables import missing, range_note, run_cell, struck
from umu_tasks.scoring.answers import RuleName

DISAGREE: tuple[tuple[RuleName, RuleName], ...] = (
    ("default", "official"),
    ("default", "strict"),
    ("official", "strict"),
)
_RULES_TOLD = {
    True: "Default: the benchmark's description; official: what the published evaluator runs",
    False: "Default: what the published evaluator runs",
}


def rules(comparison: Comparison) -> Table:
    """Return the headline metric under each rule, and on how many questions the rules disagree."""
    rows = []
    for split in comparison.splits:
        for task in ANSWER_TASKS:
            runs = [run for run in comparison.runs if (split, task) in run.tasks]
            for index, run in enumerate(runs):
                label = (Cell(split if index == 0 else ""), Cell(TASK_NAMES[task].capitalize() if index == 0 else ""))
                cells = (*label, run_cell(comparison, run), *_rule_cells(comparison, run, split, task))
                rows.append(Row(cells, comparison.is_invalid(run), starts_group=index == 0))
    pairs = tuple(f"{one} ≠ {other}" for one, other in _pairs(comparison))
    names = tuple(rule.capitalize() for rule in comparison.rules)
    return Table(
        title="The three rules" if len(names) == len(RULE_NAMES) else "The scoring rules",
        lead="acc_f on people to forget (lower is better), acc_r elsewhere (higher is better), from the same outputs. "
        f"{_RULES_TOLD['official' in comparison.rules]}; strict: ours. Then the number of questions on which verdicts "
        f"differ. All other tables show the {comparison.rule} rule.",
        columns=("Split", "Task", "Run", *names, "Disagree", *pairs, "Questions"),
        rows=tuple(rows),
        labels=3,
    )


def _rule_cells(comparison: Comparison, run: RunResult, split: str, task: Task) -> list[Cell]:
    result = run.tasks[split, task]
    cells = (_rule_cell(run, result, rule) for rule in comparison.rules)
    scores = struck(cells, is_invalid=comparison.is_invalid(run))
    counts, pairs = disagreements(result), _pairs(comparison)
    if counts is None:
        return [*scores, _unknown(run), *[Cell(NOTHING, tone="muted")] * (len(pairs) + 1)]
    parts = [Cell(str(counts[f"{one}_{other}"])) for one, other in pairs]
    return [*scores, Cell(str(counts["questions"])), *parts, Cell(str(result.questions))]


def _pairs(comparison: Comparison) -> list[tuple[RuleName, RuleName]]:
    return [pair for pair in DISAGREE if set(pair) <= set(comparison.rules)]


def _rule_cell(run: RunResult, result: TaskResult, rule: RuleName) -> Cell:
    name = result.name_under(headline(result.split, result.task), rule)
    value = result.metrics.get(name)
    return _unknown(run) if value is None else Cell(number(value), range_note(result.interval(name)))


def _unknown(run: RunResult) -> Cell:
    return Cell(MISSING, tone="muted") if run.is_published else Cell("not recorded", tone="muted")


def disagreements(result: TaskResult) -> dict[str, int] | None:
    """Return on how many questions the rules differ (``questions``) and each two of them; None when not recorded."""
    counts = result.summary.get("rules_disagree")
    names = ["questions", *(f"{one}_{other}" for one, other in DISAGREE)]
    if not isinstance(counts, dict) or not all(name in counts for name in names):
        return None
    return {name: int(counts[name]) for name in names}


# ---- fields --------------------------------------------------------------------------------------------------------


def field_scores(comparison: Comparison, split: str) -> Iterator[tuple[Task, str, RunResult, dict[str, float]]]:
    """Yield task, field, run and the run's numbers: ``n``, ``mul``, ``uni`` (default rule, or ROUGE-L)."""
    for task in TASKS:
        results = [(run, run.tasks.get((split, task))) for run in comparison.runs]
        known = [(run, result.summary.get("fields", {})) for run, result in results if result is not None]
        for name in dict.fromkeys(name for _, fields in known for name in fields):
            for run, fields in known:
                if name in fields:
                    yield task, name, run, {key.rpartition("_")[2]: float(one) for key, one in fields[name].items()}


def fields(comparison: Comparison, split: str) -> Table | None:
    """Return a row for each task and field, two columns a run; None where no run has fields."""
    found: dict[tuple[Task, str], dict[str, dict[str, float]]] = {}
    for task, name, run, numbers in field_scores(comparison, split):
        found.setdefault((task, name), {})[run.name] = numbers
    if not found:
        return None
    rows, previous = [], ""
    for (task, name), by_run in found.items():
        label = Cell(TASK_NAMES[task].capitalize() if task != previous else "")
        n = max(int(numbers["n"]) for numbers in by_run.values())
        cells = [label, Cell(name.replace("_", " ")), Cell(str(n)), *_field_cells(comparison, by_run)]
        rows.append(Row(tuple(cells), starts_group=task != previous))
        previous = task
    columns = [f"{run.name} {modality}" for run in comparison.runs for modality in ("text", "image")]
    return Table(
        title=f"By field, {split}",
        lead="What is asked about: percent right under the default rule (generation: ROUGE-L), by field. n counts "
        "knowledge instances, also those asked in one way only; a field with few of them says little.",
        columns=("Task", "Field", "n", *columns),
        rows=tuple(rows),
        labels=2,
    )


def _field_cells(comparison: Comparison, by_run: dict[str, dict[str, float]]) -> Iterator[Cell]:
    for run in comparison.runs:
        numbers = by_run.get(run.name)
        if numbers is None:
            yield from (missing(run), Cell(NOTHING, tone="muted"))
            continue
        cells = [number_or_nothing(numbers.get(one)) for one in ("uni", "mul")]
        yield from struck(cells, is_invalid=comparison.is_invalid(run))
