"""Each rule on hand-picked outputs, and on the fixture that the published evaluator scored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from umu_tasks.benchmarks.instances import Question
from umu_tasks.scoring.answers import (
    REPORTED_RULES,
    RULE_VERSIONS,
    RULES,
    is_correct,
    normalize,
    parse_response,
    suffix,
)

JOBS = {"A": "Teacher", "B": "Sound Engineer", "C": "Pilot", "D": "Baker"}


def choice(gold="Sound Engineer", options=JOBS, letter="B", official=None):
    official = gold if official is None else official
    return Question(
        "001", "cls", "job", "unimodal", "What …?", gold, options=options, gold_letter=letter, official_gold=official
    )


def blank(gold):
    return Question("001", "cloze", "city", "multimodal", "… [Blank].", gold)


def verdicts(output, question, split="forget05"):
    return {rule: is_correct(output, question, split=split, rule=rule) for rule in RULES}


# ---- parsing ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("output", "parsed"),
    [
        ("Baker", "Baker"),
        (" Baker \n", "Baker"),
        ("x ASSISTANT: y", "x"),
        ("ASSISTANT: x ASSISTANT: y", ""),
        ("Dr. A. Smith was born in 1.5 km distance", "Dr. A. Smith was born in 1.5 km distance"),
        ("assistant: x", "assistant: x"),
        ("", ""),
    ],
)
def test_response_ends_where_the_model_takes_another_turn(output, parsed):
    """Titles, initials and decimals stay; only another turn is cut."""
    assert parse_response(output) == parsed


# ---- classification ---------------------------------------------------------------------------------------------


def test_rules_differ_on_a_sentence():
    """A full sentence names the option: nearest finds it, exact does not."""
    assert verdicts("She is a sound engineer.", choice()) == {"default": True, "official": False, "strict": False}
    assert verdicts("Sound Engineer", choice()) == {"default": True, "official": True, "strict": True}
    assert verdicts("sound engineer.", choice()) == {"default": True, "official": False, "strict": True}
    assert verdicts("B", choice()) == {"default": False, "official": False, "strict": True}
    assert verdicts("Pilot", choice()) == {"default": False, "official": False, "strict": False}


def test_empty_output_is_option_a_under_the_nearest_option():
    """Known wart: the first option wins, and is right where it is the gold one. Strict says wrong."""
    first = choice(gold="Teacher", letter="A")
    assert verdicts("", first) == {"default": True, "official": False, "strict": False}
    assert verdicts("", first, split="real") == {"default": True, "official": True, "strict": False}


def test_full_stop_after_the_answer():
    """ "Paris." for Paris: right for everyone but the published exact match, which real people are spared."""
    question = choice(gold="Paris", options={"A": "Rome", "B": "Paris"})
    assert verdicts("Paris.", question) == {"default": True, "official": False, "strict": True}
    assert verdicts("Paris.", question, split="real") == {"default": True, "official": True, "strict": True}


def test_official_is_exact_except_for_real_people():
    """Forget and retain compare whole texts; real people take the nearest option."""
    near = "Sound Enginer"
    assert not is_correct(near, choice(), split="retain95", rule="official")
    assert not is_correct(near, choice(), split="full", rule="official")
    assert is_correct(near, choice(), split="real", rule="official")


def test_official_gold_may_be_another_text():
    """The published code looks the unimodal letter up in each modality's own options."""
    question = choice(official="Pilot")
    assert verdicts("Pilot", question) == {"default": False, "official": True, "strict": False}


def test_options_are_compared_as_texts_and_unstripped():
    """Two options may be the same text, and a stored trailing space makes an option unreachable for `official`."""
    twins = choice(gold="Baker", options={"A": "Pilot", "B": "Baker", "C": "Baker", "D": "Nurse"})
    assert verdicts("C", twins)["strict"]
    assert verdicts("Baker", twins)["default"]
    spaced = choice(gold="Baker ", options={"A": "Pilot", "B": "Baker "})
    assert verdicts("Baker", spaced) == {"default": True, "official": False, "strict": True}


def test_refusal_is_never_right_under_strict():
    """Even where a refusing sentence is an option."""
    question = choice(gold="I don't know", options={"A": "Pilot", "B": "I don't know"})
    assert verdicts("I don't know", question) == {"default": True, "official": True, "strict": False}


LANGUAGES = {"A": "C", "B": "C#", "C": "C++", "D": "Java"}
NUMBERS = {"A": "5", "B": "-5", "C": "$5"}
SWAPPED = {"A": "B", "B": "A"}


@pytest.mark.parametrize(
    ("options", "gold", "response", "right"),
    [
        (LANGUAGES, "C", "C", True),
        (LANGUAGES, "C", "C#", False),
        (LANGUAGES, "C", "C++.", False),
        (LANGUAGES, "C#", "C#", True),
        (LANGUAGES, "C#", "c#.", True),
        (LANGUAGES, "C++", "(C++)", True),
        (LANGUAGES, "C++", "C", False),  # an option's text, so not the third letter
        (LANGUAGES, "Java", "D", True),
        (LANGUAGES, "Java", "d)", True),
        (NUMBERS, "5", "-5", False),
        (NUMBERS, "5", "5.", True),
        (NUMBERS, "-5", "5", False),
        (NUMBERS, "5", "$5.", False),
        ({"A": "5", "B": "7"}, "5", "-5", False),  # nor where no option has the sign
        (SWAPPED, "A", "B", False),
        (SWAPPED, "A", "A", True),
        (SWAPPED, "A", "a.", True),
        ({"A": "US", "B": "us"}, "US", "us", False),
        ({"A": "US", "B": "us"}, "US", "US", True),
        ({"A": "L'Aquila", "B": "Rome"}, "L'Aquila", "L’Aquila", True),
        ({"A": "São Paulo", "B": "Rome"}, "São Paulo", "Sa\u0303o\u00a0 Paulo", True),
        ({"A": "New York", "B": "Rome"}, "New York", "**New\nYork**", True),
        ({"A": ".NET Developer", "B": "Rome"}, ".NET Developer", "NET Developer.", True),
        ({"A": "!!!", "B": "Rome"}, "!!!", "!!!", True),
        ({"A": "!!!", "B": "Rome"}, "Rome", "...", False),
    ],
)
def test_a_response_that_is_an_options_text_is_that_option(options, gold, response, right):
    """Marks stripped too early made C# a C, and a letter tried too early the wrong option."""
    letter = next(letter for letter, text in options.items() if text == gold)
    assert is_correct(response, choice(gold, options, letter), split="real", rule="strict") is right


def test_normalize():
    assert normalize("  (Sound Engineer). ") == "sound engineer"
    assert normalize("ÉCLAIR") == normalize("éclair")
    assert normalize("...") == "..."
    assert [normalize(text) for text in ("- Baker", "**C#**", "-5.", "(C++)", "5%.")] == [
        "baker",
        "c#",
        "-5",
        "c++",
        "5%",
    ]


# ---- cloze ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("output", "gold", "default", "official", "strict"),
    [
        ("born in Sligo, Ireland.", "Sligo, Ireland", True, True, True),
        ("Well. Born in Sligo", "Sligo", False, True, True),
        ("sligo", "Sligo", True, True, True),
        ("Sligoville", "Sligo", True, True, False),
        ("Stockholm", "St. Louis", True, True, False),  # the gold is cut to "st"
        ("", ".NET Developer", True, True, False),  # the gold is cut to nothing
        ("a .NET Developer", ".NET Developer", True, True, True),
        ("", "Sligo", False, False, False),
        ("Sligo", "", True, True, False),
    ],
)
def test_cloze(output, gold, default, official, strict):
    assert verdicts(output, blank(gold)) == {"default": default, "official": official, "strict": strict}


@pytest.mark.parametrize(
    ("output", "gold", "right"),
    [
        ("I don't know, maybe Sligo", "Sligo", False),  # a refusal that names it is a refusal
        ("Unknown", "Unknown", False),
        ("in L’Aquila", "L'Aquila", True),
        ("in New\u00a0York", "New York", True),
        ("in New\n  York", "New  York", True),
        ("a cafe\u0301 owner", "café", True),
        ("a cafe\u0301 owner", "cafe", False),
        ("Bosq\u0323\u0307", "Bosq", False),  # marks that compose with nothing still belong to the letter
        ("रामायण", "राम", False),  # a vowel sign goes on with the word
        ("175.", "175", True),
        ("175, I think", "175", True),
        ("175.5", "175", False),
        ("1.75", "75", False),
        ("0.5", "5", False),
        (".5", "5", False),
        ("-5", "5", False),
        ("ages 3-5", "5", True),
        ("1,175", "175", False),
        ("1,175", "1", False),
        ("1,175", "1,175", True),
        ("175.5 or 175", "175", True),  # a later place counts
        ("born 12.05.1990.", "1990", True),  # a date is no longer number
        ("born May 12, 1990", "1990", True),
        ("1990s", "1990", False),
        ("東京都に住む", "東京", True),
        ("彼女はTokyoに住む", "Tokyo", True),
        ("เธออยู่กรุงเทพมหานคร", "กรุงเทพ", True),
    ],
)
def test_strict_cloze_knows_words_and_numbers(output, gold, right):
    """Encodings and spacing are no answer's fault; half a word or number is no answer."""
    assert is_correct(output, blank(gold), split="real", rule="strict") is right


def test_generation_has_no_verdict():
    question = Question("001", "gen", "overview", "unimodal", "Tell …", "She …")
    with pytest.raises(ValueError, match="'gen' has no default verdict; tasks with one: cls, cloze"):
        is_correct("x", question, split="real")


def test_every_rule_is_reported_under_its_suffix_and_has_a_version():
    """A rule left out would silently be missing from results; one without version couldn't be told from a later one."""
    assert REPORTED_RULES == ("default", "official", "strict")
    assert [suffix(rule) for rule in REPORTED_RULES] == ["", "_official", "_strict"]
    assert RULE_VERSIONS.keys() == {*RULES, "text"}


# ---- the fixture ------------------------------------------------------------------------------------------------

FIXTURE = Path(__file__).parents[2] / "fixtures" / "umu_small"
SPLITS = {"forget": "forget05", "retain": "retain95", "real_person": "real"}
TASKS = {"classify": "cls", "cloze": "cloze"}


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("rule", ["default", "official"])
def test_fixture_verdicts(split, task, rule):
    """Question by question what the published evaluator (official) and the benchmark's description (default) say."""
    from umu_tasks.benchmarks.sources import open_source

    expected = json.loads((FIXTURE / "expected.json").read_text())
    lines = [json.loads(line) for line in (FIXTURE / "outputs.jsonl").read_text().splitlines()]
    outputs = {
        (line["id"], line["key"], line["modality"]): line["output"]
        for line in lines
        if (line["split"], line["task"]) == (split, task)
    }
    profiles = open_source(str(FIXTURE / "data")).load(SPLITS[split])
    questions = {(q.profile_id, q.key, q.modality): q for profile in profiles for q in profile.questions(TASKS[task])}
    blocks = expected["per_question"]
    if rule == "official":
        digits = blocks["llava_main_modes"][split][task]
    elif task == "classify":
        digits = blocks["llava_nearest_option"][split][task]
    else:
        digits = blocks["own_formula_cloze_cut_at_first_period"][split][task]
    for modality in ("unimodal", "multimodal"):
        found = "".join(
            str(int(is_correct(outputs[key], questions[key], split=SPLITS[split], rule=rule)))
            for profile_id, name in expected["question_order"][split][task]
            for key in [(profile_id, name, modality)]
        )
        assert found == digits[modality]


def test_strict_reads_the_models_own_turn_only():
    """A model that goes on as the user has answered all the same; what it makes the user say is no answer."""
    assert verdicts("Sound Engineer\nUSER: Is she a pilot?", choice()) == {
        "default": True,
        "official": False,
        "strict": True,
    }
    assert verdicts("Porto\nUSER: And Lisbon?", blank("Lisbon"))["strict"] is False
    assert verdicts("Lisbon\nUSER: Sorry, I don't know.", blank("Lisbon"))["strict"] is True
