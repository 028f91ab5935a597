"""`umu report RUN… --out DIR`: tables, plots and a plain-language summary from results of lmms-eval and others."""

from __future__ import annotations

import argparse
from pathlib import Path

from umu_tasks.report.cells import to_text
from umu_tasks.report.tables import summary
from umu_tasks.scoring.answers import REPORTED_RULES


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `umu report`."""
    parser = commands.add_parser(
        "report",
        help="write a report from lmms-eval result folders",
        description="Read result folders that `lmms-eval --output_path FOLDER --log_samples` wrote, one a model, and "
        "result files of the published UMU evaluator; write report.html, report.md, tables.tex, the plots as PNG and "
        "SVG files, and every number as CSV. Results of other tasks than ours are shown as general ability.",
        epilog="Exit status: 0; 2 when a run can't be read; 3 when one is invalid (too many empty or failed outputs).",
    )
    which = (
        "a result folder or a published evaluator's JSON file; NAME=PATH to choose its name, repeated with one NAME to "
        "put several folders of one model together"
    )
    parser.add_argument("runs", nargs="+", metavar="RUN", help=which)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to write the report to")
    parser.add_argument(
        "--baseline", metavar="NAME", help="the start model's run, compared with all others (default: the first RUN)"
    )
    parser.add_argument(
        "--rule",
        choices=REPORTED_RULES,
        help="scoring rule to show scores under (default: default, or official where a published evaluator's file is "
        "among the runs); a table of its own shows all three",
    )
    which = "whose results to read, where a folder holds those of several benchmarks (umu, mllmu)"
    parser.add_argument("--benchmark", metavar="NAME", help=which)
    parser.add_argument(
        "--portraits",
        metavar="SOURCE",
        help="data to take the portraits beside the example answers from, as in UMU_DATA (default: the data that the "
        "runs record, if it is on this machine)",
    )
    parser.add_argument(
        "--zero-shot",
        action="store_true",
        help="show the tasks without examples in the prompt (…_0shot) where a run has both forms",
    )
    parser.add_argument(
        "--training",
        action="append",
        default=[],
        metavar="NAME=DIR",
        help="output folder of the training that made a run's model, for its curves; can be repeated (default: where "
        "the run's weights lie)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write the report; returns 0, or 3 when a run in it is invalid, so that a script can't take it for forgetting."""
    from umu_tasks.report.cautions import cautions, collapsed
    from umu_tasks.report.compare import compare
    from umu_tasks.report.general import table as general_ability
    from umu_tasks.report.read import read_runs
    from umu_tasks.report.training import split_training
    from umu_tasks.report.write import write_report

    runs = read_runs(arguments.runs, arguments.benchmark, zero_shot=arguments.zero_shot or None)
    comparison = compare(runs, arguments.baseline, arguments.rule)
    training = split_training(arguments.training, [run.name for run in comparison.runs])
    files = write_report(comparison, arguments.out, arguments.portraits, training)
    for name, reason in comparison.invalid.items():
        print(f"INVALID RUN {name}: {reason}. Low scores of it are no evidence of forgetting.\n")
    for name, reason in collapsed(comparison).items():
        print(f"COLLAPSED RUN {name}: {reason}. Its low scores are damage to the whole model.\n")
    for table in summary(comparison):
        print(f"{table.title} (%, {comparison.rule} rule)\n{to_text(table)}\n")
    others = general_ability(comparison)
    if others is not None:
        print(f"{others.title}\n{to_text(others)}\n")
    for caution in cautions(comparison):
        print(f"! {caution.run + ': ' if caution.run else ''}{caution.text}")
    print(f"report: {files.html}\n        {files.markdown}")
    print(*(f"        {file}" for file in (files.latex, *files.data) if file), sep="\n")
    return 3 if comparison.invalid else 0
