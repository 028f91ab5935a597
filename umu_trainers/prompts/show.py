"""Comparisons of prompts as text and as JSON values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

from umu_trainers.prompts.compare import Comparison, Prompt

Decode = Callable[[int], str]


def render(comparisons: Sequence[Comparison], token: Decode, *, style: str) -> str:
    """Return the comparisons as text, one paragraph each.

    Args:
        token: token id -> how the tokenizer writes it.
    """
    blocks = [_block(one, token) for one in comparisons]
    failed = [one for one in comparisons if one.problem]
    shown = sum(one.trainer is None and not one.problem for one in comparisons)
    framed = sum(one.note is not None for one in comparisons) - shown
    own = f", {framed} of them in a frame of the published evaluator's own" if framed else ""
    own += f"; {shown} with few-shot examples were shown only" if shown else ""
    if failed:
        verdict = f"{len(failed)} of {len(comparisons)} questions DIFFER: {'; '.join(one.where for one in failed)}"
    else:
        verdict = f"{len(comparisons) - shown} questions: trainer and evaluator agree{own}."
    return "\n\n".join([f"prompt style: {style}", *blocks, verdict])


def _block(one: Comparison, token: Decode) -> str:
    lines = [f"{one.name}: {one.where}"]
    same = one.trainer == one.evaluator
    sides: list[tuple[str, Prompt | None]] = [("both", one.evaluator)]
    if not same:
        sides = [("evaluator", one.evaluator), ("trainer", one.trainer)]
    for name, prompt in sides:
        if prompt is not None:
            lines += [
                f"  {name}, text: {prompt.text!r}",
                f"  {name}, {len(prompt.ids)} tokens: {collapsed([token(number) for number in prompt.ids])}",
                f"  {name}, token ids: {collapsed(prompt.ids)}",
            ]
    if one.note:
        lines.append(f"  note: {one.note}")
    lines.append(f"  DIFFERENT: {one.problem}" if one.problem else "  ok")
    return "\n".join(lines)


def collapsed(values: Sequence[object]) -> str:
    """Return the values in one line, runs of four and more of the same one (image tokens) as ``value × count``."""
    return " ".join(_runs(values))


def _runs(values: Sequence[object]) -> Iterator[str]:
    for value, run in groupby(values):
        count = len(list(run))
        yield from [f"{value} × {count}"] if count > 3 else [str(value)] * count


def as_json(comparisons: Sequence[Comparison], *, source: str, model: str, style: str) -> dict[str, Any]:
    """Return everything as JSON values; token ids in full."""
    return {
        "source": source,
        "model": model,
        "prompt_style": style,
        "same": not any(one.problem for one in comparisons),
        "questions": [asdict(one) for one in comparisons],
    }
