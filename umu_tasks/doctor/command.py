"""`umu doctor [--model M] [--json]`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator

from umu_tasks.doctor.finding import Finding


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `umu doctor`."""
    parser = commands.add_parser(
        "doctor",
        help="is everything here that scoring and training need?",
        description="Look at versions, GPU, memory, disk, the hub, the data sets and, if named, a model, and say what "
        "to do about what is wrong. Downloads nothing but a model's config and processor. Exits with 1 if something "
        "fails.",
    )
    parser.add_argument("--model", metavar="DIR_OR_ID", help="a checkpoint to open, not its weights; or `mini`")
    parser.add_argument("--peft", metavar="DIR_OR_ID", help="an adapter for it")
    parser.add_argument("--json", action="store_true", help="print one JSON object, for programs")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the findings; return 1 if one failed."""
    if arguments.peft and not arguments.model:
        print("umu doctor: --peft needs the --model it belongs to.", file=sys.stderr)
        return 2
    findings = []
    for finding in examine(arguments.model, arguments.peft):
        findings.append(finding)
        if not arguments.json:
            print(finding, flush=True)  # one at a time: some take seconds
    failed = sum(one.state == "failed" for one in findings)
    if arguments.json:
        print(json.dumps({"ok": not failed, "findings": [one.as_json() for one in findings]}, indent=2))
    else:
        warned = sum(one.state == "warning" for one in findings)
        print(f"\n{failed} failed, {warned} warned, {len(findings) - failed - warned} ok")
    return 1 if failed else 0


def examine(model: str | None = None, peft: str | None = None) -> Iterator[Finding]:
    """Yield all findings; a part that needs a library that is missing says so and keeps no other from being seen."""
    from umu_tasks.doctor.libraries import check_fit, check_libraries, check_plugin
    from umu_tasks.doctor.machine import check_machine

    yield from check_libraries()
    yield check_fit()
    yield from _guarded("lmms-eval plugin", lambda: [check_plugin()])
    yield from check_machine()
    yield from _guarded("hub and data", lambda: _far(model, peft))


def _far(model: str | None, peft: str | None) -> Iterator[Finding]:
    """Yield what may lie on the hub."""
    from umu_tasks.doctor.data import check_data
    from umu_tasks.doctor.hub import check_hub, is_offline
    from umu_tasks.doctor.model import check_model

    reach, token = check_hub()
    yield from (reach, token)
    offline = is_offline()
    yield from check_data(hub_answers=reach.state == "ok" and not offline)
    if model:
        yield check_model(model, peft, hub_answers=reach.state == "ok")


def _guarded(name: str, findings: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    try:
        yield from findings()
    except ImportError as error:
        yield Finding("failed", name, f"not looked at: {error}", "Install what is missing first.")
