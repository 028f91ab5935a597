"""The benchmarks there are: the folders of `umu_tasks.tasks`. A new folder needs no other entry."""

from __future__ import annotations

import pkgutil

import umu_tasks.tasks

BENCHMARKS = tuple(sorted(module.name for module in pkgutil.iter_modules(umu_tasks.tasks.__path__) if module.ispkg))
ANY_BENCHMARK = "|".join(BENCHMARKS)
"""For regular expressions. No name may be the start of another one followed by ``_`` or a digit."""
