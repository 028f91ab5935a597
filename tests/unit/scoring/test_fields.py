"""Which fact a question asks for."""

from __future__ import annotations

import pytest

from umu_tasks.scoring.fields import field_of


@pytest.mark.parametrize(
    ("key", "field"),
    [
        ("occupation", "occupation"),
        ("Occupation", "occupation"),
        ("Birth Date", "birth_date"),
        ("birth-date", "birth_date"),
        ("residence_2", "residence"),
        ("legacy", "legacy"),
        ("出身地", "出身地"),
    ],
)
def test_a_key_that_is_a_word_is_the_field(key, field):
    """Whatever the question says."""
    assert field_of(key, "How tall is the person?") == field


@pytest.mark.parametrize(
    ("question", "field"),
    [
        ("What is the occupation of the person in the image?", "occupation"),
        ("What does this person do for a living?", "occupation"),
        ("What is the job of the person who lives in Sligo?", "occupation"),
        ("The person in the image works as a [Blank].", "occupation"),
        ("Where does the person in the image currently live?", "residence"),
        ("The person shown resides in [Blank].", "residence"),
        ("Where was the person in the image born?", "birthplace"),
        ("When was the person in the image born?", "birth_date"),
        ("The person in the image was born on [Blank].", "birth_date"),
        ("The person in the image was born in [Blank].", "birthplace"),
        ("What is the highest level of education of this person?", "education"),
        ("From which university did this person graduate?", "education"),
        ("How tall is the person in the image?", "height"),
        ("What are the hobbies of the person in the image?", "interests"),
        ("Which of these does the person enjoy?", "interests"),
        ("Can you tell me more about the person in the image?", "overview"),
        ("What is the name of the person in the image?", "name"),
    ],
)
@pytest.mark.parametrize("key", ["0", "1", "q3", "Question 2"])
def test_a_numbers_field_is_told_by_the_question(key, question, field):
    """Published data number their instances; without this a breakdown would have rows 0 and 1."""
    assert field_of(key, question) == field


def test_the_word_before_the_blank_decides():
    """A sentence may tell other facts of the person."""
    text = "Born in 1990, the teacher with a degree in music lives in [Blank] and enjoys chess."
    assert field_of("0", text) == "residence"
    assert field_of("0", "The ___ is the occupation of this person.") == "occupation"


def test_the_question_without_a_name_decides():
    """A name can be a word of the table."""
    named, shown = "What is the height of Job Livingston?", "How tall is the person in the image?"
    assert field_of("0", shown, named) == "height"
    assert field_of("0", "What about this one?", named) == "height"


def test_without_a_telling_word_the_key_stays():
    assert field_of("7", "Why?", "Who else?") == "7"
