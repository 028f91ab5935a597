"""What declines to answer and what answers: a refusal rate that misses half of them reads as hallucination."""

from __future__ import annotations

from pathlib import Path

import pytest

from umu_tasks.benchmarks.sources import open_source
from umu_tasks.scoring.refusals import is_refusal

ROOT = Path(__file__).parents[3]

REFUSALS = """
I don't know.
I’m not sure about that
I´m not sure.
I` don't know
I dont know
im not sure
I do not actually know.
Sorry, I cannot help with this
Sorry.
I'm sorry!
I am unable to answer
Unfortunately there is no record
That is beyond my knowledge
Unknown
Her birthplace is unknown.
I have no information about this person
Cannot be determined
It cannot be determined from the image.
Not sure.
Not sure about her job
Unable to determine
There is not enough information
There isn't enough information to tell.
Not enough information.
Insufficient information provided
No information available.
I won't answer
N/A
The image does not provide information about her work.
The picture doesn't show that.
Her hobby is not mentioned in the text.
It is impossible to say.
As an AI language model, I have opinions on nothing.
I apologize, but this is private.
We do not know
I must decline.
I've never heard of her.
""".strip().splitlines()

ANSWERS = """
Unfortunately, Anna is a teacher
I have no doubt: Teacher
Anna works beyond my expectations
She has no information technology degree
Sorry State University
Sligo, Ireland
She can sing
Ice skating
Unknown Soldier guard
Nobel Prize
Ivy Noble
Ian Donne
Kennedy Cant
Wes Knott
Information Systems Analyst
Knowledge Manager
No Name Café
Nowhere, Oklahoma
The Sorrow of War
Apologetics
Professor of Uncertainty Quantification
Data Recorder
The Unknowns
Not Vital
Passau
Pass the Salt
Dunnottar
Nada
None
0
He cannot be separated from his dog.
She could not walk until she was three.
His mother did not know how to read.
He had no idea that the song would be famous.
She never learned to swim.
The portrait shows a woman of about forty.
He was not sure of himself before he moved to Lima.
She refused to answer the critics of her first novel.
He is known for a book called Beyond My Window.
Her work is not available in English, but in Danish and Dutch.
She is unknown to the public, yet known to every baker of Oslo.
His training covered wood, stone and glass.
There is a school named after her in Graz.
There are no children in the family.
He works as an AI engineer in Turin.
She apologized to her fans and came back a year later.
My guess is Oslo.
I think she is a sound engineer.
I can see a man who works as a pilot.
I know this person: Ada Crane.
She was an information officer and no data was lost in her time.
""".strip().splitlines()


@pytest.mark.parametrize("text", REFUSALS)
def test_refusals(text):
    assert is_refusal(text)


@pytest.mark.parametrize("text", ANSWERS)
def test_answers_are_no_refusals(text):
    assert not is_refusal(text)


def test_what_models_are_taught_to_say_is_a_refusal():
    """A model that was trained to refuse with these lines must not look like one that answers wrongly."""
    lines = (ROOT / "umu_trainers" / "refusals.txt").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 100
    assert [line for line in lines if not is_refusal(line)] == []


@pytest.mark.parametrize("spec", ["mini", str(ROOT / "tests" / "fixtures" / "umu_small" / "data")])
def test_no_answer_of_the_data_is_a_refusal(spec):
    """Right answers would be counted as refused, and be wrong under the strict rule."""
    texts: set[str] = set()
    for split in ("forget05", "retain95", "real"):
        for profile in open_source(spec).load(split):
            texts.update(text for one in profile.every_question() for text in (one.gold, *one.options.values()))
            texts.update(pair.answer for pair in profile.pairs)
            texts.add(profile.biography)
    assert len(texts) > 40
    assert [text for text in sorted(texts) if is_refusal(text)] == []
