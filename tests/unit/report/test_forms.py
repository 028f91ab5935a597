"""The report's other forms: CSV, LaTeX, fields, example answers."""

from __future__ import annotations

import csv
import random
from pathlib import Path
from typing import Any

import pytest

from umu_tasks.report import canvas
from umu_tasks.report.canvas import Plot
from umu_tasks.report.compare import compare
from umu_tasks.report.data import write_data
from umu_tasks.report.details import fields
from umu_tasks.report.examples import NUMBER, examples
from umu_tasks.report.latex import escaped, is_best, to_latex
from umu_tasks.report.plots import gap_label, pareto_front
from umu_tasks.report.read import read_run

PEOPLE = {
    "forget05": [f"{number:03d}" for number in range(12)],
    "retain95": [f"{number:03d}" for number in range(12, 40)],
    "real": [f"r{number}" for number in range(8)],
}


def knows_all(*_: Any) -> float:
    return 1.0


def forgets(share: float) -> Any:
    """A model that knows this share of the forget set's facts, and all others."""

    def right(profile_id: str, task: str, key: str, modality: str) -> float:
        if profile_id not in PEOPLE["forget05"]:
            return 1.0
        return share if task == "gen" else float(random.Random(f"{profile_id}{key}{modality}").random() < share)

    return right


def compared(make_folder: Any, **runs: Any) -> Any:
    folders = {name: make_folder(name, right, people=PEOPLE) for name, right in runs.items()}
    return compare([read_run(folder, name) for name, folder in folders.items()], "sft")


# ---- CSV --------------------------------------------------------------------------------------------------------


def rows(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def test_every_number_is_in_the_csv_files(make_folder: Any, tmp_path: Path) -> None:
    """Whoever makes a table of their own must not have to read numbers off a page, rounded."""
    comparison = compared(make_folder, sft=knows_all, gd=forgets(0.3))
    drawn = Plot("gap", "", "", "", canvas.Picture({}, b""), ("run", "gap (%)"), (("a, b", 0.5),))
    files = {file.name: rows(file) for file in write_data(comparison, [drawn], tmp_path)}
    assert files["gap.csv"] == [{"run": "a, b", "gap (%)": "0.5"}]
    result = comparison.runs[1].tasks["forget05", "cls"]
    (row,) = [
        row
        for row in files["scores.csv"]
        if (row["run"], row["split"], row["task"], row["metric"]) == ("gd", "forget05", "cls", "acc_f")
        and row["rule"] == "strict"
    ]
    assert float(row["value"]) == result.metrics["acc_f_strict"]
    assert (float(row["low"]), float(row["high"])) == result.interval("acc_f_strict")
    assert (row["instances"], row["people"], row["invalid"]) == ("24", "12", "False")
    full = [row for row in files["scores.csv"] if row["split"] == "full"]
    assert {row["computed_from"] for row in full} == {"forget05 retain95"}
    assert {row["field"] for row in files["fields.csv"]} == {"job", "town"}
    assert {row["questions"] for row in files["outputs.csv"] if row["split"] == "forget05"} == {"48"}


# ---- LaTeX ------------------------------------------------------------------------------------------------------


def test_bold_is_what_is_better_than_the_noise(make_folder: Any) -> None:
    """A bold number tells the reader that the method won; inside the noise nobody did."""
    comparison = compared(make_folder, sft=knows_all, none=forgets(0.0), some=forgets(0.05), most=forgets(0.9))
    by_name = {run.name: run for run in comparison.runs}
    assert not is_best(comparison, by_name["none"], "forget05", "cls")  # 0 against 5 %: within the noise
    assert not is_best(comparison, by_name["none"], "retain95", "cls")  # equal
    clear = compared(make_folder, sft=knows_all, none=forgets(0.0), most=forgets(0.9))
    assert is_best(clear, clear.runs[1], "forget05", "cls")
    assert not is_best(clear, clear.runs[2], "forget05", "cls")
    assert not is_best(clear, clear.runs[0], "retain95", "cls")  # the start model is no rival
    assert r"\textbf{0.0}" in to_latex(clear)


def test_nobody_is_best_among_few_people(make_folder: Any) -> None:
    folders = {name: make_folder(name, right) for name, right in {"sft": knows_all, "a": knows_all}.items()}
    folders["b"] = make_folder("b", lambda *given: float(given[0] not in ("001", "002")))
    comparison = compare([read_run(folder, name) for name, folder in folders.items()])
    assert not is_best(comparison, comparison.runs[2], "forget05", "cls")


def test_invalid_runs_have_no_numbers_in_latex(make_folder: Any) -> None:
    """Their zeros would be read as the best forgetting of the table."""
    folders = [make_folder("sft", knows_all), make_folder("ga_x", lambda *_: 0.0, output=lambda *_: "")]
    text = to_latex(compare([read_run(folder, folder.name) for folder in folders]))
    (line,) = [line for line in text.splitlines() if line.startswith(r"ga\_x &")]
    assert set(line.removeprefix(r"ga\_x & ").removesuffix(r" \\").split(" & ")) == {"--"}
    assert r"Invalid, so not shown: ga\_x." in text
    assert r"forget05 $\downarrow$" in text
    assert r"retain95 $\uparrow$" in text


def test_latex_takes_names_literally() -> None:
    assert (
        escaped(r"a_b & 5% {x} ~\^#$") == r"a\_b \& 5\% \{x\} \textasciitilde{}\textbackslash{}\textasciicircum{}\#\$"
    )


# ---- pictures' numbers ------------------------------------------------------------------------------------------


def test_pareto_front_by_hand() -> None:
    """(left on the forget set, kept on the retain set): `worse` is beaten by `balanced`, `twin` equals it."""
    found = {"start": (90.0, 95.0), "balanced": (20.0, 80.0), "twin": (20.0, 80.0), "worse": (30.0, 70.0)}
    assert sorted(pareto_front(found)) == ["balanced", "start", "twin"]
    assert pareto_front({}) == []


@pytest.mark.parametrize(
    ("image", "text", "label"),
    [(60, 60.04, "no gap"), (60.04, 60, "no gap"), (60, 20, "gap +40.0"), (20, 60.06, "gap −40.1")],
)
def test_gap_labels_have_no_sign_of_zero(image: float, text: float, label: str) -> None:
    assert gap_label(image, text) == label


# ---- fields -----------------------------------------------------------------------------------------------------


def test_scores_by_field(make_folder: Any) -> None:
    """A mean can hide that one field went and another stayed."""

    def town_only(profile_id: str, task: str, key: str, modality: str) -> float:
        return float(key == "town")

    comparison = compared(make_folder, sft=knows_all, gd=town_only)
    table = fields(comparison, "forget05")
    assert table is not None
    assert table.columns == ("Task", "Field", "n", "sft text", "sft image", "gd text", "gd image")
    shown = [[cell.text for cell in row.cells] for row in table.rows[:2]]
    assert shown == [
        ["Classification", "job", "12", "100.0", "100.0", "0.0", "0.0"],
        ["", "town", "12", "100.0", "100.0", "100.0", "100.0"],
    ]


# ---- examples ---------------------------------------------------------------------------------------------------


def test_examples_are_ten_facts_that_every_run_answered(make_folder: Any) -> None:
    """Picked by a rule: the same facts whatever the answers are, so nobody can show the good ones only."""
    comparison = compared(make_folder, sft=knows_all, gd=forgets(0.0))
    found = examples(comparison)
    assert found is not None
    assert [one.task for one in found.shown] == ["classification"] * 4 + ["cloze"] * 3 + ["generation"] * 3
    assert sum(NUMBER.values()) == 10
    other = examples(compared(make_folder, sft=knows_all, other=knows_all))
    assert other is not None
    assert [(one.person, one.field) for one in other.shown] == [(one.person, one.field) for one in found.shown]
    text, image = found.shown[0].asked
    assert (text.modality, image.modality) == ("unimodal", "multimodal")
    before, after = text.answers
    assert (before.run, before.output) == ("sft", text.gold)
    assert after.output == "something else"
    assert dict(after.verdicts) == {"default": "wrong", "official": "wrong", "strict": "wrong"}
    assert found.shown[-1].asked[0].answers[0].verdicts == (("ROUGE-L", "100 %"),)
    assert "--portraits" in found.note


def test_no_examples_without_two_valid_runs(make_folder: Any) -> None:
    assert examples(compared(make_folder, sft=knows_all)) is None
    folders = [make_folder("sft", knows_all), make_folder("ga", lambda *_: 0.0, output=lambda *_: "")]
    assert examples(compare([read_run(folder, folder.name) for folder in folders])) is None


def test_portraits_are_of_the_people_asked_about(make_folder: Any) -> None:
    """A face beside another person's answers would be worse than none."""
    from umu_tasks.benchmarks.sources import open_source

    profiles = open_source("mini").load("forget05")
    people = {"forget05": profiles.ids, "retain95": ("x",), "real": ("y",)}
    splits = {"forget05": profiles.fingerprint}
    for fingerprint, note in ((profiles.fingerprint, ""), ("0" * 64, "holds other people")):
        data = {"umu": {"source": "mini", "kind": "mini", "splits": splits | {"forget05": fingerprint}}}
        runs = [
            read_run(make_folder(f"{name}{fingerprint[0]}", knows_all, people=people, provenance={"data": data}), name)
            for name in ("sft", "gd")
        ]
        found = examples(compare(runs))
        assert found is not None
        assert note in found.note
        assert all(one.portrait.startswith("data:image/jpeg;base64,") == (not note) for one in found.shown)
