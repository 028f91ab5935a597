"""Question templates: the packaged ones, and the user's over them."""

from pathlib import Path

import pytest
import yaml

import umu_tasks.build
from umu_tasks.benchmarks.errors import DataError
from umu_tasks.build.templates import BLANK, fill, load_templates

DEFAULTS = yaml.safe_load(
    (Path(umu_tasks.build.__file__).parent / "default_templates.yaml").read_text(encoding="utf-8")
)
ADA = {"name": "ada K. Crane", "shown": "the person in the image", "label": "shoe size"}


def load(tmp_path: Path, text: str):
    path = tmp_path / "templates.yaml"
    path.write_text(text, encoding="utf-8")
    return load_templates(path)


def both(texts, **kwargs):
    return [fill(texts[modality], modality, **ADA, **kwargs) for modality in ("unimodal", "multimodal")]


@pytest.mark.parametrize("name", [*DEFAULTS["fields"], "shoe_size"])
def test_packaged_templates(name):
    """Every field can be asked in every task; an image question names nobody, a text question does, none tells."""
    field = load_templates().of(name)
    questions = [field.train, field.classification, field.cloze, field.generation_question]
    for texts in questions:
        text, image = both(texts)
        assert ADA["name"] in text
        assert "ada" not in image.casefold()
        assert "the person in the image" in image.casefold()
        assert image[0] != "t"
        assert not {"{", "}"} & set(text + image)
    assert len({texts["unimodal"] for texts in questions}) == 4  # scores must not hang on one wording
    assert all(text.count(BLANK) == 1 for text in both(field.cloze))
    assert all("size 38" in text for text in both(field.generation_answer, value="size 38"))


def test_columns_of_common_fields_are_known_by_other_names():
    templates = load_templates()
    known = {name: templates.field_of(name) for name in ("job_title", "dob", "hobby", "city", "company", "shoe_size")}
    assert known == {
        "job_title": "occupation", "dob": "birth_date", "hobby": "interests", "city": "residence",
        "company": "employer", "shoe_size": "shoe_size",
    }  # fmt: skip


def test_no_column_belongs_to_two_packaged_fields():
    columns = [one for name, entry in DEFAULTS["fields"].items() for one in (name, *entry["columns"])]
    assert len(columns) == len(set(columns))


def test_the_users_file_overrides_key_by_key(tmp_path):
    templates = load(
        tmp_path,
        """
        shown: die Person auf dem Bild
        skip: [Internal Note]
        any: {cloze: "{who}: {field} = [Blank]"}
        fields:
          job:
            classification: {text: "Was macht {name}?", image: "Was macht {who}?"}
            columns: [Beruf]
            distractors: [Bäcker, 7]
          shoe_size: {label: size of shoes, generation: false}
        """,
    )
    job = templates.of("occupation")
    assert both(job.classification) == ["Was macht ada K. Crane?", "Was macht the person in the image?"]
    assert both(job.train) == both(load_templates().of("occupation").train)
    assert job.distractors == ("Bäcker", "7")
    assert templates.field_of("beruf") == "occupation"
    assert templates.field_of("profession") == "profession"  # a list of columns replaces the packaged one
    shoes = templates.of("shoe_size")
    assert (shoes.label, shoes.generation_question, shoes.generation_answer) == ("size of shoes", None, None)
    assert shoes.cloze["unimodal"] == "{who}: {field} = [Blank]"
    assert (templates.shown, templates.skip) == ("die Person auf dem Bild", {"internal_note"})
    assert templates.asked_for == ("occupation", "shoe_size")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fields: [a]", r"templates.yaml, fields: expected keys with values, found \['a'\]"),
        ("field: {}", "the file: unknown key 'field'. Choose from: shown, any, fields, skip"),
        ("fields: {job: {clozes: x}}", "templates.yaml, job: unknown key 'clozes'. Choose from: train"),
        ("fields: {job: {cloze: 'In {who} is a gap'}}", r"job, cloze: .* must hold \[Blank\] once"),
        ("fields: {job: {train: 'What work?'}}", r"job, train: 'What work\?' does not say who is meant. Put {who}"),
        ("fields: {job: {train: 'Is {who} {value}?'}}", "job, train: {value} cannot stand in this text template"),
        ("fields: {job: {train: 'Is {who.name}?'}}", "{who.name} cannot stand in this text template"),
        ("fields: {job: {train: 'Is {name} old?'}}", "{name} serves text questions only"),
        ("fields: {job: {train: {text: 'Is {who}?', image: 'Is {name}?'}}}", "{name} cannot stand in this image"),
        ("fields: {job: {train: {text: 'Is {who}?'}}}", "no text for 'image'. Expected both"),
        ("fields: {job: {train: true}}", "job, train: expected a text, found True"),
        ("fields: {job: {generation: {question: '{who}?'}}}", "job, generation: no answer"),
        ("fields: {job: {generation: {question: '{who}?', answer: '{who}.'}}}", "does not hold the fact. Put {value}"),
        ("fields: {job: {train: '{who}, <image>?'}}", "holds '<image>'"),
        ("shown: '{name} in the image'", "shown: a brace in '{name} in the image'. It takes no placeholder"),
        ("fields: {job: {train: 'What { job of {who}?'}}", "job, train: a brace in 'What { job of {who}"),
        ("fields: {job: {distractors: Baker}}", "job, distractors: expected a list, found 'Baker'"),
        ("fields:\n  job: {}\n  job: {}", "the key 'job' stands twice"),
        ("fields:\n  job: [", "templates.yaml, line 2: not YAML"),
        ("fields:\n  {who}: x", "not YAML"),
    ],
)  # fmt: skip
def test_templates_that_cannot_be_used(tmp_path, text, message):
    """A template with a mistake would put the same mistake into a question of every person."""
    with pytest.raises(DataError, match=message):
        load(tmp_path, text)


def test_filling_in():
    assert fill("{who} is {value}.", "multimodal", **ADA, value="at B Inc.") == "The person in the image is at B Inc."
    assert fill("{who} is {value}.", "unimodal", **ADA, value="{name}") == "ada K. Crane is {name}."
    assert fill("So {who} is {value}!", "multimodal", **ADA, value="C.") == "So the person in the image is C.!"
