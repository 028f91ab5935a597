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
The photo does not show her occupation.
The picture does not show his place of birth
The image does not show who this is.
The image doesn't show any information about his job.
The photo does not contain any details about her education.
The image does not include information on residence.
The portrait does not show where she lives.
The photo does not show enough to tell.
The picture does not have that information.
The text does not say.
The image does not reveal her name.
The image alone does not identify the person.
Her occupation is not shown in the image.
That is not visible in the picture.
The person's date of birth is not provided in the image.
I'm so sorry, but I can't tell you.
So sorry, but no.
Sorry, unable to help with that.
Unfortunately unable to determine the birthplace.
Oslo? I think, but not sure.
Hmm, unable to determine.
Hmm, not sure.
No information is available.
Sorry, no information is given about her.
I won't be able to answer that.
I will not be able to share this.
That information is private.
This is confidential.
I prefer to keep that private.
I'd rather keep that private.
I respect her privacy and cannot share that.
He asked to be forgotten, so I can't say anything about him.
I don't have that information.
I do not have information about this person.
I'm not allowed to reveal that.
This person has asked to be forgotten.
I'm here to help, but cannot share personal details.
The image does not provide her favourite dish.
It is hard to say.
It is difficult to tell from the picture.
It's impossible to say where she was born.
The photo does not show what he does for a living.
The image does not give me any clue.
The photo does not show her height or weight.
I can't help you with that.
I cannot help.
The provided image does not show the person's educational background.
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
The photo does not show her smiling
The picture does not show him wearing glasses, but he is a pilot.
The portrait does not show a hat.
The image does not include her husband.
The picture does not have a frame.
The image does not contain text.
The photo doesn't show his hands.
The portrait does not give her a smile.
Her left hand is not visible in the photo.
He is not shown in this picture with his family.
She was sorry, but proud of her work.
He felt sorry but went on.
He is blind, unable to see colours.
A man who, unable to find work, moved to Oslo.
She is skilled but unable to find a publisher.
He moved to Lima, not sure of his future.
She left the university, not sure what to do next.
He was proud but not sure of himself.
He was an engineer, no data was lost in his time.
Can't Help Falling in Love
Her favourite song is "I Can't Help Myself".
Her motto is that it is hard to say goodbye.
He says it is hard to find good bakers.
It is hard to find his books in English.
She can't be told what to do.
He cannot be identified with one school of painting.
Nobody I know bakes better.
He lives in a house that cannot be seen from the road.
His books do not mention politics.
Her photographs do not show people.
His description does not include his age, which is 42.
Don't Know Why
The person in the image is unknown to many.
Not given to anger, he is a patient teacher.
He is not available on Sundays.
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
