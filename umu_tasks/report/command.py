"""`umu report RUN… --out DIR`: tables, plots and a plain-language summary from lmms-eval result folders."""

from __future__ import annotations

import argparse
from pathlib import Path

from umu_tasks.report.cells import to_text
from umu_tasks.report.tables import summary


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `umu report`."""
    parser = commands.add_parser(
        "report",
        help="write a report from lmms-eval result folders",
        description="Read result folders that `lmms-eval --output_path FOLDER --log_samples` wrote, one a model, and "
        "write report.html, report.md and the plots as PNG files.",
        epilog="Exit status: 0; 2 when a folder can't be read; 3 when a run is invalid (too many empty outputs).",
    )
    parser.add_argument("runs", nargs="+", metavar="RUN", help="a result folder, or NAME=FOLDER to choose its name")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to write the report to")
    parser.add_argument(
        "--baseline", metavar="NAME", help="the start model's run, compared with all others (default: the first RUN)"
    )
    which = "whose results to read, where a folder holds those of several benchmarks (umu, mllmu)"
    parser.add_argument("--benchmark", metavar="NAME", help=which)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write the report; returns 0, or 3 when a run in it is invalid, so that a script can't take it for forgetting."""
    from umu_tasks.report.compare import compare
    from umu_tasks.report.read import read_runs
    from umu_tasks.report.write import write_report

    comparison = compare(read_runs(arguments.runs, arguments.benchmark), arguments.baseline)
    files = write_report(comparison, arguments.out)
    for table in summary(comparison):
        print(f"{table.title} (%)\n{to_text(table)}\n")
    for name, reason in comparison.invalid.items():
        print(f"INVALID RUN {name}: {reason}. Low scores of it are no evidence of forgetting.")
    print(f"report: {files.html}\n        {files.markdown}")
    return 3 if comparison.invalid else 0
