"""What the judge is asked, in our own words with the published five bands, and how its answer is read."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

VERSION = 1  # part of the cache's key: counts up when the judge is asked something else
LOWEST, HIGHEST = 1, 10

INSTRUCTIONS = """\
You grade how factual an answer about a person is. You get a question, the reference answer, and the answer to grade.
Compare the two answers by what they state. The wording does not matter, nor does whether the person is named or called
"this person". Take the reference as the truth, even where you believe otherwise.

Give a whole number from 1 to 10:
9-10  says the same as the reference, and everything in it is right.
7-8   mostly right; a small detail is missing or imprecise.
5-6   partly right; one error that a reader would notice, or an important part is missing.
3-4   major errors; little of it agrees with the reference.
1-2   nonsense, off the topic, or no answer at all; refusing to answer belongs here.
Within its band, and below it if there is much of it, lower the number for needless or irrelevant extra statements.

Reply with JSON only: {"score": <1 to 10>, "reason": "<one short sentence>"}"""

RESPONSE_FORMAT: dict[str, Any] = {
    "type": "json_schema",
    "json_schema": {
        "name": "factuality",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {"score": {"type": "integer"}, "reason": {"type": "string"}},
            "required": ["score", "reason"],
            "additionalProperties": False,
        },
    },
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the judge said of one answer.

    Attributes:
        score: 1 to 10; None if no score could be read in the reply.
        reason: its short reason, empty where it gave none.
        reply: its reply as it came, for those that can't be read.
    """

    score: float | None
    reason: str
    reply: str


def conversation(question: str, gold: str, output: str) -> list[dict[str, str]]:
    """Return the messages that ask for one grade. The texts are fenced, so that none of them reads like an order."""
    parts = (("Question", question), ("Reference answer", gold), ("Answer to grade", output))
    text = "\n\n".join(f"{name}:\n<<<\n{part.strip()}\n>>>" for name, part in parts)
    return [{"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": text}]


# ---- reading the reply ------------------------------------------------------------------------------------------

_OBJECT = re.compile(r"\{[^{}]*\}", re.DOTALL)
_NAMED = re.compile(r"[\"'*]*(?:score|rating|grade)[\"'*]*\s*(?:is|of|=|:)?[\"'*\s]*(\d+(?:\.\d+)?)", re.IGNORECASE)
_OUT_OF_TEN = re.compile(r"\b(\d+(?:\.\d+)?)\s*(?:/|out of)\s*10\b", re.IGNORECASE)
_ALONE = re.compile(r"\W*(\d+(?:\.\d+)?)\W*")


def read_verdict(reply: str) -> Verdict:
    """Return the verdict in a reply: JSON as asked for, JSON inside other text, or a score in words.

    >>> read_verdict('```json\\n{"score": 7, "reason": "Height missing."}\\n```').score
    7.0
    >>> read_verdict("Score: 4/10").score
    4.0
    """
    for text in (reply, *_OBJECT.findall(reply)):
        found = _from_json(text)
        if found is not None:
            return Verdict(found[0], found[1], reply)
    for pattern in (_NAMED, _OUT_OF_TEN):
        match = pattern.search(reply)
        if match is not None:
            return Verdict(_in_range(match[1]), "", reply)
    match = _ALONE.fullmatch(reply)
    return Verdict(_in_range(match[1]) if match else None, "", reply)


def _from_json(text: str) -> tuple[float, str] | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    score = _in_range(next((value[name] for name in value if str(name).lower() == "score"), None))
    return None if score is None else (score, str(value.get("reason") or ""))


def _in_range(value: object) -> float | None:
    """Return a score as a number; None if it is none from 1 to 10."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(?:/\s*10)?\s*", str(value))
    score = float(match[1]) if match else 0.0
    return score if LOWEST <= score <= HIGHEST else None
