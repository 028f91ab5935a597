"""MLLMU-Bench in the report: test sets, questions without a partner, two forms, a judge's scores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from umu_tasks.benchmarks.errors import DataError
from umu_tasks.benchmarks.instances import Modality
from umu_tasks.judge.scores import SUFFIX
from umu_tasks.report import factuality
from umu_tasks.report.cautions import cautions
from umu_tasks.report.compare import Comparison, compare
from umu_tasks.report.details import rules
from umu_tasks.report.examples import examples
from umu_tasks.report.latex import to_latex
from umu_tasks.report.plots_detail import modality_parts
from umu_tasks.report.read import read_run, read_runs
from umu_tasks.report.runs import RunResult
from umu_tasks.report.story import tell
from umu_tasks.report.tables import scores, summary
from umu_tasks.results.run import plain
from umu_tasks.scoring.summary import summarize

PEOPLE = {"forget05": ("001", "002"), "test05": ("001", "002"), "retain95": ("003", "004"), "real": ("005", "006")}
STAMP = "20260102_030405"
ASKED: tuple[tuple[str, Modality], ...] = (
    ("job", "multimodal"),
    ("job", "unimodal"),
    ("town", "multimodal"),  # no unimodal question about it
)


def knows_all(*_: Any) -> bool:
    return True


def forgot(split: str, key: str, modality: str) -> bool:
    """Jobs are forgotten in text; the test set brings them out again; the town was never asked in text."""
    return split != "forget05" or modality == "multimodal"


def record(split: str, task: str, person: str, key: str, modality: str, right: bool) -> dict[str, Any]:
    own = {"rouge_l": float(right), "rouge_1": float(right), "rouge_2": 0.0, "bleu": 0.0}
    verdicts = {"correct": {"default": int(right), "official": int(right), "strict": 0}}
    return {
        "benchmark": "mllmu", "profile_id": person, "task": task, "key": key, "field": key, "modality": modality,
        "split": split, "question": f"Which {key}?", "gold": "A", "output": "A", "parsed": "A", "refusal": 0,
        "empty": 0, "failed": 0, "examples": [], "portrait": 0, "seed": 0, **(own if task == "gen" else verdicts),
    }  # fmt: skip


def make_run(root: Path, name: str, knows: Any, *, forms: tuple[str, ...] = ("",), tasks: Any = None) -> Path:
    """Write the folder of a run: every task with a fact asked both ways and one asked with the portrait only."""
    folder = root / name / "model"
    folder.mkdir(parents=True)
    summaries, results = {}, {}
    for split, people in PEOPLE.items():
        for task in tasks or ("cls", "cloze", "gen"):
            own_forms = ("",) if task == "gen" or (split, task) == ("real", "cls") else forms
            for form in own_forms:
                leaf = f"mllmu_{split}_{task}{form}"
                own = [
                    record(split, task, person, key, modality, knows(split, key, modality))
                    for person in people
                    for key, modality in ASKED
                ]
                summaries[leaf] = plain(summarize(own))
                results[leaf] = {f"{name},none": one["value"] for name, one in summaries[leaf]["metrics"].items()}
                lines = [json.dumps({"doc_hash": f"{leaf} {at}", "record": one}) for at, one in enumerate(own)]
                (folder / f"{STAMP}_samples_{leaf}.jsonl").write_text("\n".join(lines))
    content = {
        "results": results,
        "config": {"model": "umu_hf", "model_args": f"pretrained={name}"},
        "date": STAMP,
        "umu": {"format": 1, "tasks": summaries, "validity": {"valid": True, "reasons": []}, "provenance": {}},
    }
    (folder / f"{STAMP}_results.json").write_text(json.dumps(content))
    return root / name


@pytest.fixture
def comparison(tmp_path: Path) -> Comparison:
    names = {"start": knows_all, "gd": forgot}
    return compare(read_runs([str(make_run(tmp_path, name, knows)) for name, knows in names.items()]))


def told(comparison: Comparison) -> str:
    return " ".join(f"{caution.run}: {caution.text}" for caution in cautions(comparison))


def test_a_question_without_a_partner_counts_in_its_modality_only(comparison: Comparison) -> None:
    gd = comparison.runs[1]
    result = gd.tasks["forget05", "cls"]
    assert (result.metrics["acc_mul"], result.metrics["acc_uni"]) == (1.0, 0.0)
    assert (result.instances, result.unpaired) == (2, 2)
    assert {key.key for key in result.values("acc_mul")} == {"job", "town"}
    assert {key.key for key in result.values("acc_f")} == {"job"}
    row = next(row for row in scores(comparison, "forget05").rows if row.cells[1].text == "gd")
    assert (row.cells[7].text, row.cells[7].note) == ("2", "2 asked one way")


def test_modalities_add_up_over_the_facts_asked_both_ways(tmp_path: Path) -> None:
    """Taken from scores over different questions, the four shares could be more or less than the whole."""

    def jobs_only(split: str, key: str, modality: str) -> bool:
        return key == "job" and modality == "multimodal"

    comparison = compare([read_run(make_run(tmp_path, "one", jobs_only), "one")])
    assert comparison.runs[0].tasks["forget05", "cls"].metrics["acc_mul"] == 0.5
    (run,) = comparison.runs
    assert modality_parts(comparison, run, "forget05", "cls") == (0.0, 100.0, 0.0, 0.0)
    assert comparison.paired_value(run, "forget05", "cls", "multimodal") == 1.0
    assert comparison.gap(run, "forget05") == 1.0 == run.tasks["forget05", "cls"].metrics["modality_gap"]


def test_changes_are_of_the_questions_behind_the_score(comparison: Comparison) -> None:
    start, gd = comparison.runs
    for name in ("acc_mul", "acc_uni", "acc_f"):
        change = comparison.paired_change(gd, start, "forget05", "cls", name)
        assert change is not None
        assert change.value == pytest.approx(comparison.change(gd, "forget05", "cls", name))


def test_test_sets_are_people_to_forget(comparison: Comparison) -> None:
    """Low is good there; a model that still answers is not praised for what it kept."""
    assert comparison.splits == ("forget05", "test05", "retain95", "real")  # no full set is made up of them
    (table,) = summary(comparison)
    assert "test05 text" in table.columns
    gd = dict(zip(table.columns, table.rows[1].cells, strict=True))
    assert gd["test05 image"].note == ""
    assert gd["retain95 image"].note == "kept 100.0 %"
    assert r"test05 $\downarrow$" in to_latex(comparison)
    sentences = [sentence.text for sentence in tell(comparison) if sentence.run == "gd"]
    (other_words,) = [text for text in sentences if "test05" in text]
    assert "text answers went from 100.0\u00a0% to 100.0\u00a0%" in other_words
    assert "still there" in other_words


def test_two_rules_are_shown(comparison: Comparison) -> None:
    """MLLMU-Bench's default rule is the published one: a third column would say the same again, or nothing."""
    assert comparison.rules == ("default", "strict")
    table = rules(comparison)
    assert table.columns == ("Split", "Task", "Run", "Default", "Strict", "Disagree", "default ≠ strict", "Questions")
    row = next(row for row in table.rows if row.cells[2].text == "gd" and row.cells[0].text == "")
    assert [cell.text for cell in row.cells[3:]] == ["66.7", "0.0", "4", "4", "6"]
    assert compare(comparison.runs, rule="official").rule == "default"
    found = examples(comparison)
    assert found is not None
    assert [rule for rule, _ in found.shown[0].asked[0].answers[0].verdicts] == ["default", "strict"]


def test_the_form_with_examples_is_shown_unless_asked_otherwise(tmp_path: Path) -> None:
    folder = make_run(tmp_path, "both", knows_all, forms=("", "_0shot"))
    run = read_run(folder, "both")
    assert run.form == ""
    assert any("mllmu_forget05_cls_0shot" in notice and "--zero-shot" in notice for notice in run.notices)
    zero_shot = read_run(folder, "both", zero_shot=True)
    assert zero_shot.form == "0shot"
    assert set(zero_shot.tasks) == set(run.tasks)  # generation and real people's classification have one form
    hashes = {answer.question_hash for answer in zero_shot.tasks["forget05", "cls"].answers or ()}
    assert all(one.startswith("mllmu_forget05_cls_0shot") for one in hashes)


def test_zero_shot_runs_need_no_option_and_do_not_compare_with_others(tmp_path: Path) -> None:
    zero_shot = read_run(make_run(tmp_path, "zero", knows_all, forms=("_0shot",)), "zero")
    assert zero_shot.form == "0shot"
    assert len(zero_shot.tasks) == 12
    few_shot = read_run(make_run(tmp_path, "few", knows_all), "few")
    assert "asked in different forms (few: with examples in the prompt / zero: zero-shot)" in told(
        compare([few_shot, zero_shot])
    )


# ---- factuality -------------------------------------------------------------------------------------------------


def mean(value: float | None, spread: float = 0.5) -> dict[str, Any]:
    if value is None:
        return {"value": None, "n": 0, "stderr": None, "low": None, "high": None}
    return {"value": value, "n": 4, "stderr": spread, "low": value - 2 * spread, "high": value + 2 * spread}


def judge(folder: Path, image: float | None, text: float | None, *, model: str = "m", waiting: int = 0) -> None:
    (results,) = folder.rglob("*_results.json")
    counts = {"answers": 6, "judged": 6 - waiting, "unreadable": 0, "not_judged": waiting, "empty": 0, "failed": 0}
    content = {
        "format": 1,
        "judge": {"model": model, "url": "http://here/v1", "rubric_version": 1},
        "tasks": {"mllmu_forget05_gen": {"factuality_mul": mean(image), "factuality_uni": mean(text), **counts}},
        "answers": [],
    }
    results.with_name(f"{STAMP}{SUFFIX}").write_text(json.dumps(content))


def read_both(tmp_path: Path, *, before: dict[str, Any] | None, after: dict[str, Any] | None) -> Comparison:
    runs = []
    for name, knows, verdict in (("start", knows_all, before), ("gd", forgot, after)):
        folder = make_run(tmp_path, name, knows, tasks=("gen",))
        if verdict is not None:
            judge(folder, **verdict)
        runs.append(read_run(folder, name))
    return compare(runs)


def test_factuality_by_hand(tmp_path: Path) -> None:
    """-5 with sqrt(0.5² + 0.5²) = 0.707: -6.4 to -3.6; -1 is within the noise."""
    comparison = read_both(tmp_path, before={"image": 9.0, "text": 9.0}, after={"image": 8.0, "text": 4.0})
    table = factuality.table(comparison)
    assert table is not None
    first, second = ([(cell.text, cell.note) for cell in row.cells] for row in table.rows[:2])
    assert first[2:6] == [("9.00", "8.0–10.0"), ("9.00", "8.0–10.0"), ("–", ""), ("–", "")]
    assert second[2:6] == [
        ("8.00", "7.0–9.0"), ("4.00", "3.0–5.0"), ("≈ −1.00", "−2.4 to 0.4"), ("−5.00", "−6.4 to −3.6"),
    ]  # fmt: skip
    assert second[6:] == [("6 of 6", ""), ("0", ""), ("0", "")]
    assert [cell.text for cell in table.rows[2].cells[:3]] == ["test05", "start", "not judged"]
    (row, *_) = [row for row in factuality.rows_as_data(comparison) if row[0] == "gd"]
    assert row[:4] == ("gd", "forget05", "multimodal", 8.0)


def test_no_judge_is_said_and_is_no_score(tmp_path: Path) -> None:
    comparison = read_both(tmp_path, before=None, after=None)
    table = factuality.table(comparison)
    assert table is not None
    assert {row.cells[2].text for row in table.rows} == {"not judged"}
    assert list(factuality.rows_as_data(comparison)) == []
    assert "udge" not in told(comparison)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ({"image": 9.0, "text": 9.0}, None, "Factuality was judged for start and not for gd."),
        (
            {"image": 9.0, "text": 9.0},
            {"image": 9.0, "text": 9.0, "model": "other"},
            "scored by different judges (start: model m, ",
        ),
        ({"image": 9.0, "text": 9.0}, {"image": None, "text": 9.0, "waiting": 3}, "gd: 3 answers wait for the judge"),
    ],
)
def test_what_spoils_factuality_is_told(tmp_path: Path, before: Any, after: Any, message: str) -> None:
    assert message in told(read_both(tmp_path, before=before, after=after))


def test_scores_of_an_older_evaluation_are_not_shown(tmp_path: Path) -> None:
    """The judge read other answers than those in the report."""
    folder = make_run(tmp_path, "start", knows_all, tasks=("gen",))
    judge(folder, 9.0, 9.0)
    (file,) = folder.rglob(f"*{SUFFIX}")
    file.rename(file.with_name(f"20250101_000000{SUFFIX}"))
    run: RunResult = read_run(folder, "start")
    assert run.factuality == {}
    assert any("only an older evaluation's answers were judged" in notice for notice in run.notices)
    file.write_text("{")
    with pytest.raises(DataError, match=r"\*_factuality.json can't be read .*umu judge"):
        read_run(folder, "start")
