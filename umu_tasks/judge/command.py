"""`umu judge RESULT_FOLDER`: scores the factuality of generated answers, 1 to 10, with a judge model."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from umu_tasks.benchmarks.errors import DataError

if TYPE_CHECKING:
    from umu_tasks.judge.answers import GeneratedAnswer, SamplesFile
    from umu_tasks.judge.cache import VerdictCache
    from umu_tasks.judge.client import JudgeSettings

NO_JUDGE = (
    "not judged: no judge is set. Set UMU_JUDGE_URL (an OpenAI-compatible endpoint, https://host/v1) and "
    "UMU_JUDGE_MODEL, and UMU_JUDGE_API_KEY if the endpoint wants a key."
)


def register(commands: Any) -> None:
    """Add `umu judge`."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "judge",
        help="score the factuality of generated answers with a judge model",
        description="Score the generated answers of an evaluation from 1 to 10 with a judge model behind an "
        "OpenAI-compatible endpoint. UMU_JUDGE_URL and UMU_JUDGE_MODEL name it; its key comes from UMU_JUDGE_API_KEY. "
        "An interrupted run goes on where it stopped, and nothing is judged twice.",
    )
    parser.add_argument("folder", type=Path, metavar="RESULT_FOLDER", help="the evaluation's --output_path")
    parser.add_argument("--url", help="the endpoint (default: UMU_JUDGE_URL)")
    parser.add_argument("--model", help="the judge model (default: UMU_JUDGE_MODEL)")
    parser.add_argument("--concurrency", type=_positive, default=8, metavar="N", help="requests at once (default: 8)")
    parser.add_argument("--retries", type=int, default=6, metavar="N", help="repetitions of a request (default: 6)")
    parser.add_argument("--backoff", type=float, default=1.0, metavar="S", help="seconds before the first (default: 1)")
    parser.add_argument("--timeout", type=float, default=60.0, metavar="S", help="seconds a request (default: 60)")
    parser.add_argument(
        "--price", type=_prices, metavar="IN,OUT", help="price a million input and output tokens, for the estimate"
    )
    parser.add_argument("--dry-run", action="store_true", help="print the estimate and stop; needs no judge")
    parser.set_defaults(run=run)


def _positive(text: str) -> int:
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: expected at least 1")
    return int(text)


def _prices(text: str) -> tuple[float, float]:
    try:
        inward, outward = (float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text}: expected two numbers, such as 0.15,0.60") from None
    return inward, outward


def run(arguments: argparse.Namespace) -> int:
    """Estimate, judge, write, print; return 0, or 1 where no judge is set or some answers are left unjudged."""
    from umu_tasks.judge.answers import find_samples, read_answers
    from umu_tasks.judge.cache import VerdictCache
    from umu_tasks.judge.client import settings_from_environment

    patience = {name: getattr(arguments, name) for name in ("retries", "backoff", "timeout")}
    settings = settings_from_environment(url=arguments.url, model=arguments.model, **patience)
    samples = {one: list(read_answers(one)) for one in find_samples(arguments.folder)}
    answers = [one for own in samples.values() for one in own]
    if settings is None and arguments.dry_run:
        nothing_known = VerdictCache("", "")  # not opened: what an unnamed judge said before is not known
        _print_estimate(answers, nothing_known, "a judge (none is set)", arguments.price)
        return 0
    if settings is None:
        print(NO_JUDGE, file=sys.stderr)
        return 1
    with VerdictCache(settings.model, settings.url) as cache:
        _print_estimate(answers, cache, settings.model, arguments.price)
        return 0 if arguments.dry_run else _judge(samples, cache, settings, arguments.concurrency)


def _print_estimate(
    answers: list[GeneratedAnswer], cache: VerdictCache, judge: str, prices: tuple[float, float] | None
) -> None:
    from umu_tasks.judge.judging import estimate

    found = estimate(answers, cache)
    cost = f", about {found.cost(prices):.2f} at these prices" if prices else " (--price IN,OUT tells the cost)"
    print(
        f"{found.answers} answers, {found.known} need no request (judged before, repeated texts aside; empty; failed). "
        f"{found.requests} requests to {judge}: about {found.input_tokens:,} input and "
        f"{found.output_tokens:,} output tokens{cost}.",
        flush=True,
    )


def _judge(
    samples: dict[SamplesFile, list[GeneratedAnswer]], cache: VerdictCache, settings: JudgeSettings, concurrency: int
) -> int:
    from tqdm import tqdm

    from umu_tasks.judge.client import JudgeClient, JudgeRefused
    from umu_tasks.judge.judging import judge_all, to_ask

    answers = [one for own in samples.values() for one in own]
    stopped: DataError | None = None
    failures: dict[str, str] = {}
    with tqdm(total=len(to_ask(answers, cache)), desc="judge", unit="answer", file=sys.stderr, disable=None) as bar:
        try:
            failures = judge_all(answers, JudgeClient(settings), cache, concurrency=concurrency, progress=bar.update)
        except JudgeRefused as error:
            stopped = error
    _write(samples, cache, settings)
    if stopped is not None:
        raise stopped
    if failures:
        reasons = "; ".join(dict.fromkeys(failures.values()))[:500]
        print(f"umu: {len(failures)} texts not judged ({reasons}). Run the same command to go on.", file=sys.stderr)
    return 1 if failures else 0


def _write(samples: dict[SamplesFile, list[GeneratedAnswer]], cache: VerdictCache, settings: JudgeSettings) -> None:
    """Write one file a run beside its results, and print what is in it."""
    from umu_tasks.judge.judging import verdict_of
    from umu_tasks.judge.scores import SUFFIX, factuality, write

    runs: dict[Path, list[GeneratedAnswer]] = {}
    for file, own in samples.items():
        runs.setdefault(file.path.parent / f"{file.stamp}{SUFFIX}", []).extend(own)
    for path, own in runs.items():
        content = factuality(own, lambda one: verdict_of(one, cache), model=settings.model, url=settings.url)
        write(path, content)
        print(f"\n{path}")
        for task, numbers in content["tasks"].items():
            print(f"  {task}: {_summary(numbers)}")


def _summary(numbers: dict[str, Any]) -> str:
    parts = [f"{side} {_score(numbers[f'factuality_{side}'])}" for side in ("mul", "uni")]
    parts.append(f"{numbers['judged']} of {numbers['answers']} judged")
    others = ("unreadable", "not_judged", "empty", "failed")
    parts += [f"{numbers[name]} {name.replace('_', ' ')}" for name in others if numbers[name]]
    return ", ".join(parts)


def _score(mean: dict[str, float | None]) -> str:
    if mean["value"] is None:
        return "not judged"
    spread = "" if mean["low"] is None else f" ({mean['low']:.2f}–{mean['high']:.2f})"
    return f"{mean['value']:.2f}{spread}"
