"""Are the data sets there? Names them and their splits; `umu data check` reads every row."""

from __future__ import annotations

import os
from collections.abc import Iterator

from umu_tasks.benchmarks.errors import DataError
from umu_tasks.doctor.finding import Finding, State


def check_data(*, hub_answers: bool) -> Iterator[Finding]:
    """Yield each benchmark's data set.

    Args:
        hub_answers: False: a data set on the hub is not asked for.
    """
    from umu_tasks.benchmarks.names import BENCHMARKS

    for benchmark in BENCHMARKS:
        yield check_source(benchmark, hub_answers=hub_answers)


def check_source(benchmark: str, *, hub_answers: bool) -> Finding:
    """Return whether the data set that a benchmark's variable names opens, and its splits."""
    from umu_tasks.benchmarks.sources import open_source, variable_of

    variable = variable_of(benchmark)
    named = os.environ.get(variable)
    name = f"{benchmark} data"
    said = f"{variable}={named}" if named else f"{variable} is not set"
    try:
        source = open_source(benchmark=benchmark)
        if source.kind == "hub" and not hub_answers:
            advice = f"Set {variable} to a folder, or to mini for the embedded invented people."
            return Finding("warning", name, f"{said}: {source.spec} is on the hub, which does not answer", advice)
        return Finding("ok", name, f"{said}: {source.kind} {source.spec}, splits {', '.join(source.splits())}")
    except (DataError, OSError) as error:
        # The data may be what the user is about to get: that much keeps nothing else from working.
        state: State = "failed" if named else "warning"
        advice = f"Set {variable} to a hub id, a folder, or mini."
        return Finding(state, name, f"{said}: {' '.join(str(error).split())}", advice)
