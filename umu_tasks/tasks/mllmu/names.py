"""What a person is called: the rows have no column for it, but every question without an image says it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from umu_tasks.benchmarks.instances import Profile

# Two capitalized words or more in a row: "Ada Crane", "Jean-Luc O'Hara", "J. R. Moss".
_RUN = re.compile(r"[^\W\d_][\w.'’-]*(?: [^\W\d_][\w.'’-]*)+")


def name_of(profile: Profile) -> str | None:
    """Return the name that most of a person's unimodal questions hold, None if there is none.

    >>> from umu_tasks.benchmarks.sources import open_source
    >>> name_of(open_source("mini", benchmark="mllmu").load("full")[0]) is not None
    True
    """
    counts: Counter[str] = Counter()
    for question in profile.every_question():
        if not question.has_image:
            counts.update(set(_capitalized(question.text)))
    if not counts:
        return None
    most = max(counts.values())
    return max((name for name, count in counts.items() if count == most), key=lambda name: (len(name), name))


def names_of(profiles: Iterable[Profile]) -> list[str]:
    """Return the names of several people, in their order; those whose name cannot be told are left out."""
    return [name for profile in profiles if (name := name_of(profile)) is not None]


def _capitalized(text: str) -> Iterable[str]:
    """Yield each two or more neighbouring words that start with a capital letter, possessive endings left off."""
    for run in _RUN.findall(text):
        words = [re.sub(r"['’]s$", "", word).rstrip(".") for word in run.split(" ")]
        for start in range(len(words)):
            for stop in range(start + 2, len(words) + 1):
                some = words[start:stop]
                if all(word[:1].isupper() for word in some):
                    yield " ".join(some)
