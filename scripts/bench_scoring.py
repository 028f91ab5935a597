"""How long scoring takes: as many outputs as the whole 5 % suite has (7,530), every rule, ROUGE, BLEU and intervals.

    python scripts/bench_scoring.py [--repeat 3]

The questions are UMU-mini's, repeated for more people until there are as many as published runs count; outputs are a
mixture of right, nearly right, wrong, long, refusing and empty ones. No model and no lmms-eval: what is timed is what
scoring adds to a run.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from umu_tasks.benchmarks.instances import TASKS, Task
from umu_tasks.benchmarks.sources import open_source
from umu_tasks.scoring.summary import summarize
from umu_tasks.tasks.documents import Document, documents_of
from umu_tasks.tasks.records import make_record
from umu_tasks.tasks.umu import prompts

# knowledge instances of the suite: forget, retain, real people
INSTANCES: dict[str, dict[Task, int]] = {
    "forget05": {"cls": 50, "cloze": 50, "gen": 50},
    "retain95": {"cls": 950, "cloze": 950, "gen": 950},
    "real": {"cls": 306, "cloze": 306, "gen": 153},
}


@dataclass(frozen=True, slots=True)
class Answered:
    """A question and the output that stands for a model's answer."""

    document: Document
    output: str


def answered_questions(split: str, task: Task, instances: int) -> list[Answered]:
    """Return two answered questions an instance, made of UMU-mini's."""
    draws = random.Random(f"{split} {task}")
    found = documents_of(
        open_source("mini", benchmark="umu").load("full"),
        task,
        split,
        prompt=prompts.user_text,
        published_prompt=prompts.published_prompt,
    )
    return [Answered(one, imagined_output(one, draws)) for one in _repeated(found, instances)]


def imagined_output(document: Document, draws: random.Random) -> str:
    """Return one of the kinds of output that models give."""
    gold = document["gold"]
    kinds = (gold, gold, f"{gold}.", gold[: len(gold) // 2], f"The answer to the question is {gold}, I believe.")
    others = ("I don't know.", "", "A person with a long and eventful life. " * 5, *document["options"])
    return draws.choice((*kinds, *others))


def _repeated(documents: list[Document], instances: int) -> Iterator[Document]:
    for number in range(2 * instances):
        turn, place = divmod(number, len(documents))
        yield {**documents[place], "profile_id": f"{turn}-{documents[place]['profile_id']}"}


def main() -> None:
    """Print the seconds of each part; the smallest of the repeats."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--repeat", type=int, default=3, help="runs to take the smallest time of (default 3)")
    repeats = parser.parse_args().repeat
    leaves = {
        (split, task): answered_questions(split, task, INSTANCES[split][task]) for split in INSTANCES for task in TASKS
    }
    runs = [_time(leaves) for _ in range(repeats)]
    for part in runs[0]:
        print(f"{part:12} {min(run[part] for run in runs):7.2f} s")
    questions = sum(map(len, leaves.values()))
    print(f"{questions} outputs: {min(sum(run.values()) for run in runs):.2f} s (best of {repeats})")


def _time(leaves: dict[tuple[str, Task], list[Answered]]) -> dict[str, float]:
    seconds: defaultdict[str, float] = defaultdict(float)
    for (_, task), answered in leaves.items():
        started = time.perf_counter()
        records: list[dict[str, Any]] = [make_record(one.document, one.output) for one in answered]
        scored = time.perf_counter()
        summarize(records)
        seconds[f"score {task}"] += scored - started
        seconds["intervals"] += time.perf_counter() - scored
    return seconds


if __name__ == "__main__":
    main()
