"""The sentences: each stands only where the numbers bear it out."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from umu_tasks.report.compare import Comparison, compare
from umu_tasks.report.read import read_run
from umu_tasks.report.story import Sentence, tell

FORGOTTEN = ("001", "002")


def model(*, forget: tuple[float, float], keep: tuple[float, float], real: float = 1.0) -> Callable[..., float]:
    """A model that knows a share of the facts: (text, image) of the forget set, of the others; ROUGE-L alike."""

    def right(profile_id: str, task: str, key: str, modality: str) -> float:
        share = (forget if profile_id in FORGOTTEN else keep)[modality == "multimodal"]
        return share if task == "gen" else float(random.Random(f"{profile_id}{task}{key}").random() < share)

    return right


def told(
    make_folder: Any, *runs: tuple[str, Callable[..., float]], baseline: str = "sft", **options: Any
) -> list[Sentence]:
    read = [read_run(make_folder(name, right, **options), name) for name, right in runs]
    return tell(compare(read, baseline))


def texts(sentences: list[Sentence], run: str) -> str:
    return " ".join(sentence.text for sentence in sentences if sentence.run == run).replace("\u00a0", " ")


SFT = ("sft", model(forget=(1, 1), keep=(1, 1)))


def test_modality_gap(make_folder: Any) -> None:
    sentences = told(make_folder, SFT, ("gd", model(forget=(0, 1), keep=(1, 1))))
    assert (
        "text answers on forget05 (2 people) fell from 100.0 % to 0.0 % while image answers stayed at 100.0 %"
        in texts(sentences, "gd")
    )
    assert "modality gap" in texts(sentences, "gd")
    assert "asked with a picture" in texts(sentences, "gd")


def test_modality_gap_the_other_way(make_folder: Any) -> None:
    sentences = told(make_folder, SFT, ("gd", model(forget=(1, 0), keep=(1, 1))))
    assert "image answers on forget05 (2 people) fell from 100.0 % to 0.0 % while text answers stayed" in texts(
        sentences, "gd"
    )
    assert "asked with a name" in texts(sentences, "gd")


def test_both_gone(make_folder: Any) -> None:
    sentences = told(make_folder, SFT, ("gd", model(forget=(0, 0), keep=(1, 1))))
    assert "gone in both modalities" in texts(sentences, "gd")
    assert "modality gap" not in texts(sentences, "gd")
    assert "it kept 100.0 % of the start model's text and 100.0 % of its image answers on the retain set." in texts(
        sentences, "gd"
    )


def test_gone_is_not_said_where_generation_still_tells(make_folder: Any) -> None:
    """A model that can't choose but still writes the whole sentence has forgotten nothing."""

    def right(profile_id: str, task: str, key: str, modality: str) -> float:
        return 0.9 if task == "gen" else float(profile_id not in FORGOTTEN)

    own = texts(told(make_folder, SFT, ("gd", right)), "gd")
    assert "classification and cloze answers are gone in both modalities, but generation (ROUGE-L) went from" in own
    assert "text 100.0 % to 90.0 % and image 100.0 % to 90.0 %" in own
    assert "a true sentence about someone else scores 66.7 %: whole sentences still tell it" in own


def test_the_form_of_a_sentence_is_no_knowledge(make_folder: Any) -> None:
    """Sentences are alike but for the fact: a model that writes the form and no fact scores high, and has forgotten.

    Golds are like "job of 001", so 2 of 3 words are right for anybody.
    """

    def right(profile_id: str, task: str, key: str, modality: str) -> float:
        kept = float(profile_id not in FORGOTTEN)
        return max(kept, 0.7) if task == "gen" else kept

    own = texts(told(make_folder, SFT, ("gd", right)), "gd")
    assert ": gone in both modalities, and generation (ROUGE-L) went from text 100.0 % to 70.0 %" in own


def test_one_person_alone_has_nobody_to_compare_with(make_folder: Any) -> None:
    people = {"forget05": ("001",), "retain95": ("003", "004"), "real": ("r1",)}
    own = texts(told(make_folder, SFT, ("gd", model(forget=(0, 0), keep=(1, 1))), people=people), "gd")
    assert "classification and cloze answers are gone in both modalities; generation (ROUGE-L) went from" in own


def test_gone_without_generation_says_what_is_unknown(make_folder: Any) -> None:
    folders = [make_folder(name, right) for name, right in (SFT, ("gd", model(forget=(0, 0), keep=(1, 1))))]
    for folder in folders:
        (file,) = folder.rglob("*_results.json")
        content = json.loads(file.read_text())
        content["results"] = {name: one for name, one in content["results"].items() if not name.endswith("_gen")}
        file.write_text(json.dumps(content))
    own = texts(tell(compare([read_run(folder, folder.name) for folder in folders])), "gd")
    assert "Generation was not scored" in own
    assert ": gone in both modalities" not in own


def test_nothing_forgotten(make_folder: Any) -> None:
    sentences = told(make_folder, SFT, ("gd", model(forget=(1, 1), keep=(1, 1))))
    assert "still there in both modalities" in texts(sentences, "gd")


def test_a_model_that_lost_everything_did_not_forget_selectively(make_folder: Any) -> None:
    sentences = told(make_folder, SFT, ("ga", model(forget=(0, 0), keep=(0, 0))))
    assert "not selective" in texts(sentences, "ga")
    assert "gone in both modalities" not in texts(sentences, "ga")
    assert {sentence.tone for sentence in sentences if sentence.run == "ga"} == {"warning"}


def test_an_invalid_run_gets_no_finding(make_folder: Any) -> None:
    read = [
        read_run(make_folder("sft", SFT[1]), "sft"),
        read_run(make_folder("ga", model(forget=(0, 1), keep=(1, 1)), output=lambda *_: ""), "ga"),
    ]
    sentences = tell(compare(read, "sft"))
    own = [sentence for sentence in sentences if sentence.run == "ga"]
    assert [sentence.tone for sentence in own] == ["warning"]
    assert "umu_forget05_cls: 8 empty and 0 failed of 8 outputs" in own[0].text
    assert "without having forgotten anything" in own[0].text


def test_an_invalid_start_model_leaves_nothing_to_say_about_the_others(make_folder: Any) -> None:
    read = [
        read_run(make_folder("sft", SFT[1], output=lambda *_: ""), "sft"),
        read_run(make_folder("gd", model(forget=(0, 1), keep=(1, 1))), "gd"),
    ]
    assert {sentence.run for sentence in tell(compare(read, "sft"))} == {"sft"}


def test_a_start_model_that_never_knew_the_people(make_folder: Any) -> None:
    """Zero after zero is not forgetting."""
    ignorant = model(forget=(0, 0), keep=(0, 0))
    assert told(make_folder, ("sft", ignorant), ("gd", ignorant)) == []


def test_stages_before_the_start_model_are_not_called_forgetting(make_folder: Any) -> None:
    base = read_run(make_folder("base", model(forget=(0, 0), keep=(0, 0)), splits=("full", "real")), "base")
    sft = read_run(make_folder("sft", SFT[1]), "sft")
    sentences = tell(compare([base, sft], "sft"))
    assert [sentence.run for sentence in sentences] == ["sft"]
    assert "base answers 0.0 % of the text" in texts(sentences, "sft")


def test_lost_retain_knowledge_is_a_warning(make_folder: Any) -> None:
    sentences = told(make_folder, SFT, ("gd", model(forget=(0, 0), keep=(0.7, 1))))
    (warning,) = [sentence for sentence in sentences if "retain set" in sentence.text]
    assert warning.tone == "warning"
    assert "should have stayed was lost" in warning.text


def test_refusals_on_people_to_keep_are_pointed_out(make_folder: Any) -> None:
    read = [
        read_run(make_folder("sft", SFT[1]), "sft"),
        read_run(make_folder("po", model(forget=(0, 0), keep=(1, 1)), output=lambda *_: "I don't know."), "po"),
    ]
    own = texts(tell(compare(read, "sft")), "po")
    assert "refuses 100.0 % of the questions on retain95" in own
    assert own.startswith("collapsed")
    assert "gone" not in own


def test_unchecked_runs_say_so(make_folder: Any) -> None:
    sentences = told(make_folder, SFT, samples=False, block=False)
    assert "unchecked" in texts(sentences, "sft")


@pytest.mark.parametrize("forget", [(0, 0), (0, 1), (1, 0), (1, 1), (0.5, 0.5)])
def test_every_number_told_is_in_the_tables(make_folder: Any, forget: tuple[float, float]) -> None:
    """The sentences must not have arithmetic of their own that drifts from the tables."""
    read = [
        read_run(make_folder("sft", SFT[1]), "sft"),
        read_run(make_folder("gd", model(forget=forget, keep=(1, 1))), "gd"),
    ]
    comparison = compare(read, "sft")
    told = texts(tell(comparison), "gd")
    for metric in ("unimodal", "multimodal"):
        assert f"{_percent(comparison, metric)} %" in told


def _percent(comparison: Comparison, modality: Any) -> str:
    share = comparison.right_answers(comparison.runs[1], "forget05", modality)
    assert share is not None
    return f"{100 * share:.1f}"
