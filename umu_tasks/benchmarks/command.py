"""`umu data check SOURCE [--split S] [--json]`."""

from __future__ import annotations

import argparse
import json


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``check`` to the ``umu data`` commands."""
    parser = commands.add_parser(
        "check",
        help="list what a data source holds and what is wrong with it",
        description="List what a data source holds and what is wrong with it. Exits with 1 if anything cannot be used.",
    )
    parser.add_argument("source", metavar="SOURCE", help="hub id, folder, or `mini`")
    parser.add_argument("--benchmark", default="umu", help="the benchmark whose rows to expect (default: umu)")
    parser.add_argument("--split", metavar="S", help="check this split only (default: all that are present)")
    parser.add_argument("--examples", metavar="N", type=int, default=3, help="problems shown of each kind (default: 3)")
    parser.add_argument("--json", action="store_true", help="print everything as one JSON object")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Check, print, and return 0, or 1 if there are errors."""
    from umu_tasks.benchmarks.checks import check_source, render

    report = check_source(arguments.source, benchmark=arguments.benchmark, split=arguments.split, progress=True)
    if arguments.json:
        print(json.dumps(report.as_json(), ensure_ascii=False, indent=2))
    else:
        print(render(report, examples=arguments.examples))
    return 0 if report.ok else 1
