"""The scores as LaTeX tables in the layout of the papers: a row a method, forget, retain and real people side by side.

\\usepackage{booktabs}   % and \\input{tables.tex}
"""

from __future__ import annotations

from collections.abc import Sequence

from umu_tasks import __version__
from umu_tasks.benchmarks.instances import TASKS, Task
from umu_tasks.benchmarks.splits import is_to_be_forgotten, retain_split
from umu_tasks.report.cautions import collapsed
from umu_tasks.report.cells import NOTHING, number
from umu_tasks.report.compare import Comparison, headline
from umu_tasks.report.intervals import FEW_PEOPLE
from umu_tasks.report.runs import RunResult
from umu_tasks.report.tables import test_split

_HEADS = {"cls": "Cls", "cloze": "Cloze", "gen": "Gen"}
_SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
}  # fmt: skip


def to_latex(comparison: Comparison) -> str:
    """Return one table for each forget set; "" where no forget set was scored."""
    tables = [_table(comparison, forget) for forget in comparison.forget_splits()]
    return (
        "\n".join([f"% Written by umu-bench {__version__}. Needs \\usepackage{{booktabs}}.", *tables]) if tables else ""
    )


def _table(comparison: Comparison, forget: str) -> str:
    asked = (forget, test_split(forget), retain_split(forget), "real")
    splits = [split for split in asked if split in comparison.splits]
    width = len(TASKS)
    names = " & ".join(rf"\multicolumn{{{width}}}{{c}}{{{_titled(split)}}}" for split in splits)
    rules = "".join(rf"\cmidrule(lr){{{2 + width * at}-{1 + width * (at + 1)}}}" for at in range(len(splits)))
    heads = " & ".join(_HEADS[task] for _ in splits for task in TASKS)
    rows = [_row(comparison, run, splits) for run in comparison.runs]
    return "\n".join(
        [
            r"\begin{table}[t]",
            r"\centering\small",
            rf"\begin{{tabular}}{{l{'c' * width * len(splits)}}}",
            r"\toprule",
            rf" & {names} \\",
            rules,
            rf"Method & {heads} \\",
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            rf"\caption{{{_caption(comparison, forget)}}}",
            r"\end{table}",
            "",
        ]
    )


def _titled(split: str) -> str:
    return f"{split} $\\{'downarrow' if is_to_be_forgotten(split) else 'uparrow'}$"


def _caption(comparison: Comparison, forget: str) -> str:
    invalid = [escaped(run.name) for run in comparison.runs if comparison.is_invalid(run)]
    to_forget = "forget and test set" if test_split(forget) in comparison.splits else "the forget set"
    left_out = f" Invalid, so not shown: {', '.join(invalid)}." if invalid else ""
    return (
        f"Forgetting {forget}: $\\mathrm{{acc}}_f$ and $\\mathrm{{rl}}_f$ on {to_forget} (lower is better), "
        "$\\mathrm{acc}_r$ and $\\mathrm{rl}_r$ elsewhere (higher is better), in percent, "
        f"{comparison.rule} rule, with 95\\,\\% intervals by bootstrap over people. Bold: better than every other "
        f"unlearned model by more than the noise (paired bootstrap).{left_out}"
    )


def _row(comparison: Comparison, run: RunResult, splits: Sequence[str]) -> str:
    cells = [_cell(comparison, run, split, task) for split in splits for task in TASKS]
    return rf"{escaped(run.name)} & {' & '.join(cells)} \\"


def _cell(comparison: Comparison, run: RunResult, split: str, task: Task) -> str:
    value = comparison.value(run, split, task, headline(split, task))
    if value is None or comparison.is_invalid(run):
        return NOTHING.replace("–", "--")
    interval = comparison.interval(run, split, task, headline(split, task))
    spread = rf" {{\scriptsize [{100 * interval.low:.0f}, {100 * interval.high:.0f}]}}" if interval else ""
    score = rf"\textbf{{{number(value)}}}" if is_best(comparison, run, split, task) else number(value)
    return score + spread


def is_best(comparison: Comparison, run: RunResult, split: str, task: Task) -> bool:
    """Tell whether a run is better than every other unlearned model by more than the noise.

    The start model and its earlier stages are no rivals, nor are invalid and collapsed runs. Where a difference can't
    be told (no answers at hand, too few people) nobody is best.
    """
    fallen = collapsed(comparison)
    rivals = [one for one in comparison.later if not comparison.is_invalid(one) and one.name not in fallen]
    if run not in rivals or len(rivals) < 2:
        return False
    metric = headline(split, task)
    for rival in (one for one in rivals if one is not run):
        change = comparison.paired_change(run, rival, split, task, metric)
        if change is None or change.people < FEW_PEOPLE or change.interval.holds_zero:
            return False
        if (change.value < 0) != is_to_be_forgotten(split):
            return False
    return True


def escaped(text: str) -> str:
    """Return text with LaTeX's own characters taken literally.

    >>> escaped("gd_text 50%")
    'gd\\\\_text 50\\\\%'
    """
    return "".join(_SPECIAL.get(one, one) for one in text)
