"""Are the data sets there? Names their splits and counts people where that is cheap; `umu data check` reads every row.

Data on the hub that was not downloaded before is found by the first evaluation or training, so it is no fault.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from umu_tasks.benchmarks.errors import DataError
from umu_tasks.doctor.deadline import SECONDS, within
from umu_tasks.doctor.finding import Finding, State

if TYPE_CHECKING:
    from umu_tasks.benchmarks.hub import HubSource
    from umu_tasks.benchmarks.sources import Source


def check_data(*, hub_answers: bool) -> Iterator[Finding]:
    """Yield each benchmark's data set.

    Args:
        hub_answers: False: of a data set on the hub, only the cache is looked at.
    """
    from umu_tasks.benchmarks.names import BENCHMARKS

    for benchmark in BENCHMARKS:
        yield check_source(benchmark, hub_answers=hub_answers)


def check_source(benchmark: str, *, hub_answers: bool) -> Finding:
    """Return whether the data set that a benchmark's variable names opens, its splits, and the people in each."""
    from umu_tasks.benchmarks.hub import HubSource
    from umu_tasks.benchmarks.sources import open_source, variable_of

    variable = variable_of(benchmark)
    named = os.environ.get(variable)
    name = f"{benchmark} data"
    said = f"{variable}={named}" if named else f"{variable} is not set"
    try:
        source = open_source(benchmark=benchmark)
        if not isinstance(source, HubSource):
            return Finding("ok", name, f"{said}: {_place(source)}: {_splits(source)}")
        said = f"{said}: {source.spec} on the hub"
        if hub_answers:
            return Finding("ok", name, f"{said}: {within(lambda: _splits(source))}")
        return _cached(source, name, said, variable)
    except TimeoutError:
        return Finding("warning", name, f"{said}: no answer within {SECONDS:g} seconds", "Try again later.")
    except (DataError, OSError) as error:
        # The data may be what the user is about to get: that much keeps nothing else from working.
        state: State = "failed" if named else "warning"
        text = f"{said}: {' '.join(str(error).split())}"
        return Finding(state, name, text, f"Set {variable} to a hub id, a folder, or mini (embedded invented people).")


def _cached(source: HubSource, name: str, said: str, variable: str) -> Finding:
    """Return what was downloaded of a data set before, the hub being out of reach or switched off."""
    try:
        return Finding("ok", name, f"{said}, from the cache: {_splits(source.from_cache())}")
    except DataError:
        text = f"{said}: not in the cache, and the hub is not asked or does not answer"
        advice = f"Set {variable} to a folder, or to mini (embedded invented people)."
        return Finding("failed" if os.environ.get(variable) else "warning", name, text, advice)


def _place(source: Source) -> str:
    return "invented people" if source.kind == "mini" else f"{source.kind} {source.spec}"


def _splits(source: Source) -> str:
    """Return ``forget05 (3 people), …``; of a hub's split that is not downloaded, that it is not."""
    found = [(split, source.ids(split)) for split in source.splits()]
    unknown = "not downloaded yet" if source.kind == "hub" else "people not counted"
    return ", ".join(f"{split} ({unknown if ids is None else f'{len(set(ids))} people'})" for split, ids in found)
