"""Result files of the published UMU evaluator, read beside our own folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from umu_tasks.benchmarks.errors import DataError
from umu_tasks.cli import main
from umu_tasks.report import details, write
from umu_tasks.report.compare import compare, headline
from umu_tasks.report.outputs import count_outputs
from umu_tasks.report.plots_detail import modality_parts
from umu_tasks.report.published import MISSING, read_published
from umu_tasks.report.read import read_run, read_runs
from umu_tasks.report.story import tell
from umu_tasks.report.tables import changes, scores, summary

FIXTURES = Path(__file__).parents[2] / "fixtures" / "official_results"
NPO, GA = FIXTURES / "run_a_npo_forget5.json", FIXTURES / "run_a_ga_forget5.json"
SPLITS = {"forget": "forget05", "retain": "retain95", "real": "real"}

# From the README beside the files: cloze acc_f / acc_r, classification acc_f / acc_r, rl_f / rl_r.
DERIVED = {
    (NPO, "forget"): (0.1733, 0.2133, 0.2355),
    (NPO, "retain"): (0.0646, 0.1165, 0.0536),
    (NPO, "real"): (0.0969, 0.2495, 0.0614),
    (GA, "forget"): (0, 0, 0),
    (GA, "retain"): (0, 0, 0),
    (GA, "real"): (0, 0.2941, 0),
}


@pytest.mark.parametrize(("file", "part"), DERIVED, ids=lambda one: getattr(one, "stem", one))
def test_derived_values_are_the_known_ones(file: Path, part: str) -> None:
    """People compare these numbers with their papers: a wrong formula would make two truths of one run."""
    comparison = compare([read_published(file, "x")])
    (run,) = comparison.runs
    found = [comparison.value(run, SPLITS[part], t, headline(SPLITS[part], t)) for t in ("cloze", "cls", "gen")]
    assert found == pytest.approx(DERIVED[file, part], abs=5e-5)


def test_the_files_own_joint_rouge_is_ours() -> None:
    """The evaluator computes it from the same lists; a difference would mean that we pair or average otherwise."""
    document = json.loads(NPO.read_text())
    run = read_published(NPO, "npo")
    for part, (split, metric) in {
        "Forget Results": ("forget05", "rl_f"),
        "Retain Results": ("retain95", "rl_r"),
        "Real Person Results": ("real", "rl_r"),
    }.items():
        stored = document[part]["generation"]["All Modal Average ROUGE-L"]
        assert run.tasks[split, "gen"].metrics[metric] == pytest.approx(stored, abs=1e-12)


def test_official_is_the_rule_and_the_rest_is_said_to_be_missing() -> None:
    """What the file does not hold must not be shown as zero, as "not run" or under a rule it was not scored by."""
    comparison = compare([read_published(NPO, "npo")])
    (run,) = comparison.runs
    assert comparison.rule == "official"
    assert "acc_f" not in run.tasks["forget05", "cls"].metrics
    assert run.tasks["forget05", "gen"].instances == 50
    assert count_outputs(run.tasks.values()) is None
    row = next(row for row in details.rules(comparison).rows)
    assert [cell.text for cell in row.cells[3:7]] == [MISSING, "21.3", MISSING, MISSING]
    (table,) = summary(comparison)
    assert [cell.text for cell in table.rows[0].cells[-2:]] == [MISSING, MISSING]
    by_task = {row.cells[0].text: row.cells for row in scores(comparison, "forget05").rows}
    assert by_task["Classification"][7].text == MISSING
    assert by_task["Classification"][2].note == ""  # no interval
    assert by_task["Generation"][7].text == "50"
    assert MISSING in run.notices[0]


def test_modalities_answered_right_add_up() -> None:
    comparison = compare([read_published(NPO, "npo")])
    parts = modality_parts(comparison, comparison.runs[0], "real", "cls")
    assert parts == pytest.approx((14.3791, 17.6471, 14.0523, 53.9216), abs=1e-4)
    assert sum(parts or ()) == pytest.approx(100)


def test_a_destroyed_model_is_called_one(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """29.41 % on real people is what the nearest-option rule gives an empty output: no knowledge, no forgetting."""
    monkeypatch.setattr(write, "draw", lambda *_: [])
    assert main(["report", f"npo={NPO}", f"ga={GA}", "--out", str(tmp_path)]) == 3
    assert "INVALID RUN ga: 1103 of 1103 sentences about people to keep" in capsys.readouterr().out
    text = (tmp_path / "report.md").read_text()
    assert text.index("INVALID RUN: ga") < text.index("## What this shows")
    assert "~~29.4~~" in text
    assert "INVALID RUN: npo" not in text
    values = (tmp_path / "scores.csv").read_text().splitlines()
    assert "ga,real,cls,acc_r,official,0.294" in "\n".join(values)


def test_like_is_compared_with_like(make_folder: Any) -> None:
    """Our run scored by the default rule against theirs by the official one would show a difference of rules."""
    verdicts = {"default": 1, "official": 0, "strict": 0}
    own = read_run(make_folder("sft", lambda *_: 1.0, verdicts=lambda _: verdicts), "sft")
    mixed = compare([own, read_published(NPO, "npo")], "sft")
    assert mixed.rule == "official"
    moved = changes(mixed, "forget05")
    assert moved is not None
    assert [cell.text for cell in moved.rows[0].cells[2:5]] == ["+32.0", "0.0", "+21.3"]
    chosen = compare([own, read_published(NPO, "npo")], "sft", "default")
    assert chosen.value(chosen.runs[1], "forget05", "cls", "acc_f") is None
    assert scores(chosen, "forget05").rows[1].cells[2].text == MISSING


def test_their_runs_get_sentences_like_ours(make_folder: Any) -> None:
    own = read_run(make_folder("sft", lambda *_: 1.0), "sft")
    told = [one.text for one in tell(compare([own, read_published(NPO, "npo")], "sft")) if one.run == "npo"]
    assert any("unchecked" in text for text in told)
    assert any("not selective" in text for text in told)


def test_names_on_the_command_line() -> None:
    runs = read_runs([str(NPO), f"their GA={GA}"])
    assert [run.name for run in runs] == ["run_a_npo_forget5", "their GA"]
    with pytest.raises(DataError, match=r"nowhere\.json: no such file"):
        read_runs(["x=nowhere.json"])


def write_json(folder: Path, content: Any, name: str = "result.json") -> Path:
    file = folder / name
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{'single': 'quotes'}", "not readable as JSON"),
        ([1, 2], "Expected a result file of the published UMU evaluator.*found no object"),
        ({}, "found the keys"),
        ({"accuracy": 1}, "found the keys 'accuracy'"),
        ({"results": {}, "config": {}}, "a results file of lmms-eval. Give its folder"),
        ({"Forget Results": {}, "Retain Results": {}}, "don't tell which forget set"),
        ({"Real Person Results": {}}, "none of its parts holds scores"),
    ],
)
def test_other_json_is_refused_by_name(tmp_path: Path, content: Any, message: str) -> None:
    file = write_json(tmp_path, content)
    with pytest.raises(DataError, match=message) as caught:
        read_published(file, "x")
    assert str(file) in str(caught.value)


@pytest.mark.parametrize("value", [None, "26", 101, -1, True, float("nan")])
def test_a_number_that_can_not_be_is_named_with_its_place(tmp_path: Path, value: Any) -> None:
    """A hand-edited file, or fractions where percent is expected, must not become a score."""
    document = json.loads(NPO.read_text())
    document["Retain Results"]["fill_in_the_blank"]["pure_text_accuracy"] = value
    with pytest.raises(
        DataError, match="Retain Results -> fill_in_the_blank -> 'pure_text_accuracy': expected a number"
    ):
        read_published(write_json(tmp_path, document), "x")


def test_rouge_lists_of_different_length_are_refused(tmp_path: Path) -> None:
    document = json.loads(NPO.read_text())
    document["Real Person Results"]["generation"]["ALL ROUGE-L (Pure_Text)"].pop()
    with pytest.raises(DataError, match="153 multimodal and 152 unimodal ROUGE-L values"):
        read_published(write_json(tmp_path, document), "x")


def test_the_forget_set_is_known_from_counts_or_name(tmp_path: Path) -> None:
    """The file does not name its split; a wrong one would put it beside runs on other people."""
    document = json.loads(NPO.read_text())
    assert "50 of 1000" in read_published(write_json(tmp_path, document), "x").notices[1]
    for part in document.values():
        part["generation"] = {name: one for name, one in part["generation"].items() if not name.startswith("ALL ")}
    run = read_published(write_json(tmp_path, document, "npo_forget_10.json"), "x")
    assert run.splits == ("forget10", "retain90", "real")
    assert run.tasks["forget10", "gen"].metrics["rl_f"] == pytest.approx(0.2355, abs=5e-5)
    with pytest.raises(DataError, match="Rename the file so that its name holds one of forget05, forget10, forget15"):
        read_published(write_json(tmp_path, document, "npo.json"), "x")


def test_parts_that_were_not_evaluated_are_just_missing(tmp_path: Path) -> None:
    document = json.loads(NPO.read_text())
    del document["Real Person Results"], document["Forget Results"]["classification"]
    document["Test Results"] = {}
    run = read_published(write_json(tmp_path, document), "x")
    assert run.splits == ("forget05", "retain95")
    assert ("forget05", "cls") not in run.tasks
    assert any("Test Results" in notice for notice in run.notices)


@pytest.mark.parametrize(
    ("part", "name", "value", "told"),
    [
        ("classification", "All Modal Question Accuracy", 50.0, "contradict each other"),
        ("classification", "All Modal Question Error", 1.0, "contradict each other"),
        ("generation", "Average ROUGE-L (Pure_Text)", 0.9, "the mean of 'ALL ROUGE-L (Pure_Text)' is"),
    ],
)
def test_numbers_that_contradict_each_other(tmp_path: Path, part: str, name: str, value: float, told: str) -> None:
    """Right in both more often than in one: a file that was edited, whose scores mean nothing."""
    document = json.loads(NPO.read_text())
    document["Forget Results"][part][name] = value
    file = tmp_path / "run_forget5.json"
    file.write_text(json.dumps(document))
    with pytest.raises(DataError, match="Forget Results") as error:
        read_published(file, "x")
    assert told in str(error.value)
