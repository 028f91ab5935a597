"""Judges all answers, some at once: finished ones are kept as they come, repeated ones are asked once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from umu_tasks.judge.answers import GeneratedAnswer
from umu_tasks.judge.cache import VerdictCache, verdict_key
from umu_tasks.judge.client import JudgeClient, JudgeError
from umu_tasks.judge.rubric import INSTRUCTIONS, LOWEST, Verdict, conversation, read_verdict

GIVE_UP_AFTER = 5  # answers one after the other that the judge failed on: it is down, and asking on is of no use
REPLY_TOKENS = 50  # a score and one short sentence
_CHARACTERS_A_TOKEN = 4  # of English text, roughly
_EMPTY = Verdict(float(LOWEST), "empty answer", "")


@dataclass(frozen=True, slots=True)
class Estimate:
    """What judging will take.

    Attributes:
        answers: all of them; known: those judged before, empty or failed ones included; requests: what will be asked.
        input_tokens, output_tokens: of all requests, roughly.
    """

    answers: int
    known: int
    requests: int
    input_tokens: int
    output_tokens: int

    def cost(self, prices: tuple[float, float]) -> float:
        """Return the cost at (input, output) prices a million tokens."""
        return (self.input_tokens * prices[0] + self.output_tokens * prices[1]) / 1e6


def needs_judge(answer: GeneratedAnswer) -> bool:
    """Return whether there is something to judge: an empty answer is known to be bad, a failed one is no answer."""
    return not (answer.is_empty or answer.failed)


def key_of(answer: GeneratedAnswer) -> str:
    return verdict_key(answer.question, answer.gold, answer.output)


def to_ask(answers: Iterable[GeneratedAnswer], cache: VerdictCache) -> dict[str, GeneratedAnswer]:
    """Return key -> answer of what has to be asked, each text once."""
    return {key: one for one in answers if needs_judge(one) and cache.get(key := key_of(one)) is None}


def estimate(answers: Sequence[GeneratedAnswer], cache: VerdictCache) -> Estimate:
    """Return what judging `answers` will take, before it starts."""
    asked = to_ask(answers, cache)
    characters = sum(len(INSTRUCTIONS) + 120 + len(a.question + a.gold + a.output) for a in asked.values())
    known = sum(key_of(one) not in asked for one in answers)
    return Estimate(len(answers), known, len(asked), characters // _CHARACTERS_A_TOKEN, len(asked) * REPLY_TOKENS)


def verdict_of(answer: GeneratedAnswer, cache: VerdictCache) -> Verdict | None:
    """Return the verdict on an answer; None if it was not judged."""
    if answer.failed:
        return None
    return cache.get(key_of(answer)) if needs_judge(answer) else _EMPTY


def judge_all(
    answers: Sequence[GeneratedAnswer],
    client: JudgeClient,
    cache: VerdictCache,
    *,
    concurrency: int,
    progress: Callable[[], object] = lambda: None,
) -> dict[str, str]:
    """Judge what the cache does not know, and put each verdict into it as it comes.

    Args:
        concurrency: how many requests are under way at once.
        progress: called once an answer that was asked.

    Returns:
        Key -> why there is no verdict, of the answers that are left.

    Raises:
        JudgeRefused: the judge will answer nothing. What it said before is kept.
    """

    def ask(key: str, answer: GeneratedAnswer) -> None:
        cache.put(key, read_verdict(client.ask(conversation(answer.question, answer.gold, answer.output))))

    failures: dict[str, str] = {}
    in_a_row = 0
    waiting = list(to_ask(answers, cache).items())[::-1]
    running: dict[Future[None], str] = {}
    pool = ThreadPoolExecutor(concurrency, thread_name_prefix="judge")
    try:
        while waiting or running:
            while waiting and len(running) < concurrency:
                key, answer = waiting.pop()
                running[pool.submit(ask, key, answer)] = key
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                failure = _failure(future)
                in_a_row = 0 if failure is None else in_a_row + 1
                key = running.pop(future)
                if failure is not None:
                    failures[key] = failure
                progress()
            if in_a_row >= GIVE_UP_AFTER:
                failures.update((key, "not asked: the judge failed on the answers before") for key, _ in waiting)
                waiting.clear()
    finally:  # after an interrupt or a refusal: end the threads that wait, let those that read finish
        if waiting or running:
            client.stop()
        pool.shutdown(wait=True, cancel_futures=True)
    return failures


def _failure(future: Future[None]) -> str | None:
    """Return why a finished request gave no verdict, None if it gave one; other errors are raised."""
    try:
        future.result()
    except JudgeError as error:
        return str(error)
    return None
