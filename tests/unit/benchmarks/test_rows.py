"""UMU-Bench rows."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from umu_tasks.benchmarks.errors import DataError, DataNotice
from umu_tasks.tasks.umu.rows import COLUMNS, answer_letter, explain_columns, parse_id, parse_row

FILE = "forget_5/train-00000-of-00001.parquet"


def content(profile):
    """All of a profile but its image."""
    return profile.profile_id, profile.biography, profile.pairs, profile.instances


def problems_of(row):
    problems = []
    parse_row(row, file=FILE, report=problems.append)
    return problems


def error_of(row) -> str:
    with pytest.raises(DataError) as caught:
        parse_row(row, file=FILE)
    return str(caught.value)


def test_a_row_becomes_pairs_and_instances(make_row, parts):
    profile = parse_row(make_row(parts), file=FILE)
    assert profile.profile_id == "017"
    assert [(pair.key, pair.modality, pair.answer) for pair in profile.pairs] == [
        ("0", "multimodal", "Pilot"),
        ("1", "multimodal", "Sligo"),
        ("0", "unimodal", 'the "Pilot"'),
    ]
    keys = [(one.instance_key.task, one.instance_key.key) for one in profile.instances]
    assert keys == [("cls", "job"), ("cloze", "height"), ("cloze", "home"), ("gen", "life")]
    assert profile.open_image().getpixel((0, 0)) == (200, 30, 60)
    height = next(profile.questions("cloze"))
    assert (height.gold, height.official_gold, height.options, height.gold_letter) == ("171 cm ", "171 cm ", {}, None)


def test_halves_are_paired_by_key_whatever_their_order(make_row, parts):
    """The two halves of the published data list their keys in different orders."""
    profile = parse_row(make_row(parts), file=FILE)
    for instance in profile.instances:
        assert instance.unimodal.instance_key == instance.multimodal.instance_key
        assert (instance.unimodal.modality, instance.multimodal.modality) == ("unimodal", "multimodal")
    assert [question.text for question in profile.questions("cloze")] == [
        "Zoë is [Blank] tall.",
        "They are [Blank] tall.",
        "Zoë lives in [Blank].",
        "They live in [Blank].",
    ]


def test_misspelled_and_right_key_json_and_literal_give_one_profile(make_row, parts):
    right = copy.deepcopy(parts)
    for column in ("Classify", "Cloze", "Generation"):
        right[column]["multimodal"] = right[column].pop("muitimodal")
    expected = content(parse_row(make_row(parts), file=FILE))
    for variant in (parts, right):
        for write in (repr, json.dumps, lambda part: json.dumps(part, ensure_ascii=False), lambda part: part):
            assert content(parse_row(make_row(variant, write), file=FILE)) == expected


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=4, max_size=4),
    st.sampled_from("ABCD"),
    st.sampled_from(["{letter}", "{letter}.", "{letter}. {text}", "({letter}) {text}", "{letter}) {text}"]),
    st.permutations("ABCD"),
    st.sampled_from("ABCD"),
)
def test_gold_is_the_unimodal_text_official_gold_the_unimodal_letter(texts, letter, form, order, stored):
    """Property: whatever the options and their order, the two rules look the gold up as documented."""
    uni = dict(zip("ABCD", texts, strict=True))
    mul = dict(zip("ABCD", [uni[one] for one in order], strict=True))
    entry = {"question": "?", "options": uni, "answer": form.format(letter=letter, text=uni[letter])}
    classify = {"unimodal": {"k": entry}, "muitimodal": {"k": {"question": "?", "options": mul, "answer": stored}}}
    other = {"unimodal": {}, "muitimodal": {}}
    row = {"ID": "1", "image": b"x", "Biography": "", "MM_QA": {"question": {}, "answer": {}}}
    row |= {"UM_QA": row["MM_QA"], "Classify": classify, "Cloze": other, "Generation": other}
    (instance,) = parse_row(row, file=FILE).instances
    assert list(instance.unimodal.options.values()) == texts
    assert (instance.unimodal.gold, instance.unimodal.gold_letter) == (uni[letter], letter)
    assert instance.unimodal.official_gold == uni[letter]
    assert instance.multimodal.gold == uni[letter]
    assert mul[instance.multimodal.gold_letter] == uni[letter]
    assert instance.multimodal.official_gold == mul[letter]
    assert instance.multimodal.stored_letter == stored


def test_gold_text_that_the_multimodal_options_lack_falls_back_to_the_letter(make_row, parts):
    options = parts["Classify"]["muitimodal"]["job"]["options"]
    options["B"] = "Audio Engineer"
    (question,) = [one for one in parse_row(make_row(parts), file=FILE).questions("cls") if one.has_image]
    assert (question.gold, question.gold_letter, question.official_gold) == ("Audio Engineer", "B", "Audio Engineer")


def test_options_stay_unstripped_and_may_repeat(make_row, parts):
    for half in parts["Classify"].values():
        half["job"]["options"] = {"A": "Tester", "B": " Tester", "C": "Tester", "D": "Baker"}
        half["job"]["answer"] = "C"
    uni, mul = parse_row(make_row(parts), file=FILE).questions("cls")
    assert list(mul.options.values()) == ["Tester", " Tester", "Tester", "Baker"]
    assert (uni.gold_letter, mul.gold_letter, mul.gold) == ("C", "C", "Tester")


OPTIONS = {"A": "Sligo", "B": "St. Ives", "C": "A. Smith", "D": "Dr. B"}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("B", ("B", None)),
        (" b ", ("B", None)),
        ("B.", ("B", "")),
        ("B. St. Ives", ("B", "St. Ives")),
        ("B.St. Ives", ("B", "St. Ives")),
        ("B) St. Ives", ("B", "St. Ives")),
        ("(B) St. Ives", ("B", "St. Ives")),
        ("B: St. Ives", ("B", "St. Ives")),
        ("C. A. Smith", ("C", "A. Smith")),
        ("A. Smith", ("C", None)),  # the whole answer is option C, and no text of option A
        ("A. Paris", ("A", "Paris")),  # the letter counts, the text is noted
        ("St. Ives", ("B", None)),
        ("Dr. B", ("D", None)),
        ("Baker", (None, None)),  # not the B of "Baker"
        ("E", (None, None)),
        ("B St. Ives", (None, None)),
        ("", (None, None)),
        (None, (None, None)),
        (2, (None, None)),
    ],
)
def test_answer_letter(answer, expected):
    assert answer_letter(answer, OPTIONS) == expected


def test_numbers_become_text(make_row, parts):
    parts["Cloze"]["unimodal"]["height"]["answer"] = 171
    parts["MM_QA"] = {"question": {0: "When?"}, "answer": {0: 1990}}
    profile = parse_row(make_row(parts), file=FILE)
    assert next(profile.questions("cloze")).gold == "171"
    assert (profile.pairs[0].key, profile.pairs[0].answer) == ("0", "1990")


@pytest.mark.parametrize(("cell", "expected"), [("017", "017"), (17, "17"), (17.0, "17")])
def test_ids_become_text(cell, expected):
    assert parse_id(cell, file=FILE) == expected


@pytest.mark.parametrize("cell", [None, "", " "])
def test_row_without_id(cell):
    with pytest.raises(DataError, match="column ID: a row without ID"):
        parse_id(cell, file=FILE)


def test_missing_partner_half(make_row, parts):
    del parts["Cloze"]["muitimodal"]
    assert error_of(make_row(parts)) == (
        f"{FILE}, row ID 017, column Cloze: no 'multimodal' part; found keys 'unimodal'. "
        "Add the missing questions, or drop the row."
    )


def test_missing_partner_question(make_row, parts):
    parts["Cloze"]["unimodal"]["hobby"] = {"question": "?", "answer": "tea"}
    del parts["Cloze"]["unimodal"]["home"]
    assert error_of(make_row(parts)) == (
        f"{FILE}, row ID 017, column Cloze: questions without partner: 'hobby' only in the unimodal part; "
        "'home' only in the multimodal part. Add the missing questions, or drop the row."
    )


def test_both_spellings_at_once(make_row, parts):
    parts["Cloze"]["multimodal"] = parts["Cloze"]["muitimodal"]
    assert "both 'multimodal' and 'muitimodal'" in error_of(make_row(parts))


@pytest.mark.parametrize("half", ["unimodal", "muitimodal"])
def test_option_set_without_the_gold_letter(make_row, parts, half):
    del parts["Classify"][half]["job"]["options"]["B"]
    message = error_of(make_row(parts))
    assert message.startswith(f"{FILE}, row ID 017, column Classify: ")
    assert "job" in message
    assert "'A', 'C', 'D'" in message


def test_answer_that_names_no_option(make_row, parts):
    parts["Classify"]["unimodal"]["job"]["answer"] = "E"
    message = error_of(make_row(parts))
    assert "unimodal job: answer 'E' names none of the options 'A', 'B', 'C', 'D'" in message


@pytest.mark.parametrize("answer", ["E", None, "Baker?"])
def test_wrong_or_missing_multimodal_letter_is_noted_only(make_row, parts, answer):
    """The published data has them; the unimodal answer decides the gold."""
    parts["Classify"]["muitimodal"]["job"]["answer"] = answer
    row = make_row(parts)
    question = list(parse_row(row, file=FILE).questions("cls"))[1]
    assert (question.gold_letter, question.stored_letter) == ("B", None)
    (problem,) = problems_of(row)
    assert isinstance(problem, DataNotice)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda parts: parts["Cloze"]["unimodal"]["home"].pop("answer"),
            "unimodal home: no 'answer'; found 'question'",
        ),
        (lambda parts: parts["Generation"]["muitimodal"].update(life="text"), "multimodal life: no 'question'"),
        (lambda parts: parts["Classify"]["unimodal"]["job"].update(options={}), "unimodal job: no 'options'"),
        (lambda parts: parts["Classify"]["unimodal"]["job"]["options"].update(A=None), "option A: expected text"),
        (lambda parts: parts["MM_QA"].pop("answer"), "no dictionary 'answer'; found keys 'question'"),
        (lambda parts: parts["MM_QA"].update(answer=["Pilot"]), "no dictionary 'answer'; found list"),
        (lambda parts: parts["UM_QA"]["answer"].pop("0"), "'0' only in the question part"),
        (lambda parts: parts.update(Cloze=[1, 2]), "column Cloze: expected a dictionary, found list"),
        (lambda parts: parts["Cloze"]["unimodal"]["home"].update(answer=["a"]), "expected text, found ['a']"),
    ],
)
def test_malformed_structures(make_row, parts, change, message):
    change(parts)
    found = error_of(make_row(parts))
    assert found.startswith(f"{FILE}, row ID 017, column ")
    assert message in found


@pytest.mark.parametrize("place", ["question", "answer", "key"])
@pytest.mark.parametrize("spelled", ["JSON", "literal"])
def test_half_a_character(make_row, parts, place, spelled):
    """Half of an emoji in a text or a key: no file, hash or tokenizer takes it, so the row must be named here."""
    entries = parts["Cloze"]["unimodal"]
    if place == "key":
        parts["Cloze"] = {half: {"\ud83d": one.pop("home"), **one} for half, one in parts["Cloze"].items()}
    else:
        entries["home"][place] += " \ud83d"
    cell = json.dumps(parts["Cloze"]) if spelled == "JSON" else repr(parts["Cloze"])
    message = error_of(make_row(parts) | {"Cloze": cell})
    assert message.startswith(f"{FILE}, row ID 017, column Cloze: ")
    assert "holds half of a character ('\\ud83d', a lone surrogate)" in message
    message.encode()


def test_cell_that_does_not_parse(make_row, parts):
    row = make_row(parts) | {"Generation": "{'unimodal': {"}
    assert error_of(row).startswith(f"{FILE}, row ID 017, column Generation: neither JSON nor a Python literal")


@pytest.mark.parametrize("cell", [None, {"bytes": None, "path": None}])
def test_row_without_image(make_row, parts, cell):
    assert error_of(make_row(parts) | {"image": cell}).startswith(f"{FILE}, row ID 017, column image: no image")


def test_decoded_image_and_bytes_give_the_same_portrait(make_row, parts):
    row = make_row(parts)
    decoded = Image.new("RGB", (8, 8), (200, 30, 60))
    assert parse_row(row | {"image": decoded}, file=FILE).open_image() == parse_row(row, file=FILE).open_image()


def test_reading_goes_on_after_a_problem_if_asked_to(make_row, parts):
    """`umu data check` lists every problem of a row at once."""
    parts["Cloze"]["unimodal"]["home"].pop("question")
    parts["Classify"]["unimodal"]["job"]["answer"] = "E"
    row = make_row(parts) | {"UM_QA": "nonsense", "image": None}
    assert [problem.column for problem in problems_of(row)] == ["image", "UM_QA", "Classify", "Cloze"]
    assert [one.instance_key.key for one in parse_row(row, file=FILE, report=lambda _: None).instances] == [
        "height",
        "life",
    ]


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda parts: parts["Cloze"]["unimodal"]["home"].update(answer=" "), "empty text"),
        (
            lambda parts: parts["Classify"]["unimodal"]["job"].update(answer="B. Pilot"),
            "answer text that differs from its option",
        ),
    ],
)
def test_suspicious_data_is_noted_but_loads(make_row, parts, change, kind):
    change(parts)
    row = make_row(parts)
    assert [problem.kind for problem in problems_of(row)] == [kind]
    parse_row(row, file=FILE)


def test_columns_of_the_other_benchmark_are_recognised():
    mllmu = ["image", "ID", "biography", "question", "answer", "Classification_Task", "Generation_Task", "Mask_Task"]
    assert "MLLMU-Bench" in explain_columns(mllmu)
    assert explain_columns(["text", "label"]) is None
    assert explain_columns(COLUMNS) is None
