"""Reading result folders: what is found, what wins, and what a user is told when a folder can't be used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from umu_tasks.benchmarks.errors import DataError
from umu_tasks.benchmarks.instances import InstanceKey
from umu_tasks.report.leaves import is_ours, parse_leaf
from umu_tasks.report.read import read_run, read_runs, split_argument
from umu_tasks.report.runs import split_model_args


def everything_right(*_: Any) -> float:
    return 1.0


def test_scores_answers_and_origin_are_read(make_folder: Any) -> None:
    """Metric keys carry a filter (``acc_mul,none``); a report that missed them would be empty."""
    run = read_run(make_folder("sft", everything_right), "sft")
    result = run.tasks["forget05", "cls"]
    assert run.benchmark == "umu"
    names = ("acc_mul", "acc_uni", "acc_any", "acc_all", "acc_f")
    assert {name: result.metrics[name] for name in names} == dict.fromkeys(names, 1.0)
    assert result.metrics["acc_f_official"] == 1.0
    assert result.metrics["modality_gap"] == 0.0
    assert result.people == 2
    assert result.questions == 8
    assert result.instances == 4
    assert result.pairs()[InstanceKey("001", "cls", "job")] == (1.0, 1.0)
    (origin,) = run.origins
    assert origin.model_args == "pretrained=checkpoints/sft"
    assert origin.date == "2026-01-02 03:04:05"
    assert set(origin.task_versions.values()) == {"1"}
    assert run.notices == ()


def test_a_date_says_whose_clock_it_is(make_folder: Any) -> None:
    """lmms-eval writes Singapore's time unless told otherwise: a reader elsewhere sees hours that have not come yet."""
    folder = make_folder("sft", everything_right)
    (file,) = folder.rglob("*_results.json")
    content = json.loads(file.read_text())
    content.setdefault("config", {})["resolved_cli_args"] = {"timezone": "Asia/Singapore"}
    file.write_text(json.dumps(content))
    (origin,) = read_run(folder, "sft").origins
    assert origin.date == "2026-01-02 03:04:05 (Asia/Singapore)"


def test_splits_come_in_reading_order(make_folder: Any) -> None:
    folder = make_folder("sft", everything_right, splits=("full", "real", "retain95", "forget05"))
    assert read_run(folder, "sft").splits == ("forget05", "retain95", "real", "full")


def test_newest_result_of_a_task_wins_with_a_notice(make_folder: Any) -> None:
    """Evaluating twice into one folder must not show the old scores, nor mix them in silently."""
    make_folder("sft", lambda *_: 0.0, date="20260102_030405")
    folder = make_folder("sft", everything_right, splits=("real",), date="20260103_000000")
    run = read_run(folder, "sft")
    assert run.tasks["real", "cls"].metrics["acc_r"] == 1.0
    assert run.tasks["retain95", "cls"].metrics["acc_r"] == 0.0
    assert any("3 task results that a newer file replaces" in notice for notice in run.notices)
    assert any("2 evaluations are put together" in notice for notice in run.notices)


def test_results_of_two_models_in_one_folder_are_refused(make_folder: Any, tmp_path: Path) -> None:
    make_folder("a", everything_right)
    make_folder("b", everything_right)
    with pytest.raises(DataError, match=r"results of 2 models in one folder .*pretrained=checkpoints/a"):
        read_run(tmp_path / "results", "all")


def test_batch_size_does_not_make_another_model(make_folder: Any) -> None:
    make_folder("a", everything_right, splits=("real",), model_args="pretrained=a,batch_size=8")
    folder = make_folder(
        "a", everything_right, splits=("full",), model_args="pretrained=a,batch_size=64", date="20260103_000000"
    )
    assert read_run(folder, "a").splits == ("real", "full")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such folder"),
        ({}, r"no \*_results.json in or below it"),
        (
            {"x_results.json": '{"results": {"mme": {"mme_score,none": 1}, "gqa": {"em,none": 0}}}'},
            r"other tasks only \(gqa, mme\)",
        ),
        ({"x_results.json": '{"results": {"umu_re'}, "not readable as JSON"),
        ({"x_results.json": "[]"}, "no object 'results'"),
    ],
)
def test_unusable_folders_are_named_with_what_to_do(
    tmp_path: Path, content: dict[str, str] | None, message: str
) -> None:
    folder = tmp_path / "run"
    for name, text in (content or {}).items():
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    if content == {}:
        folder.mkdir()
    with pytest.raises(DataError, match=message) as caught:
        read_run(folder, "run")
    assert str(folder) in str(caught.value)


def test_a_file_in_place_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text("{}")
    with pytest.raises(DataError, match="expected a result folder, found a file"):
        read_run(tmp_path / "results.json", "run")


def test_missing_sample_files_leave_the_scores_and_a_notice(make_folder: Any) -> None:
    """Without --log_samples the scores can still be shown, but nobody may read "0 empty outputs" from them."""
    run = read_run(make_folder("sft", everything_right, samples=False, block=False), "sft")
    assert run.tasks["real", "cls"].metrics["acc_r"] == 1.0
    assert run.tasks["real", "cls"].answers is None
    assert run.tasks["real", "cls"].instances == 4
    assert any("No sample file" in notice and "--log_samples" in notice for notice in run.notices)


def test_a_broken_sample_names_file_and_line(make_folder: Any) -> None:
    folder = make_folder("sft", everything_right, splits=("real",))
    (samples,) = folder.rglob("*_samples_umu_real_cls.jsonl")
    lines = samples.read_text().splitlines()
    samples.write_text("\n".join([lines[0], lines[1][:30]]))
    with pytest.raises(DataError, match=r"samples_umu_real_cls.jsonl, line 2: not readable as JSON"):
        read_run(folder, "sft")
    samples.write_text(json.dumps({"doc_id": 0, "acc": 1}))
    with pytest.raises(DataError, match=r"line 1: no scored record"):
        read_run(folder, "sft")
    record: dict[str, Any] = {"profile_id": "001", "key": "job", "modality": "unimodal"}
    samples.write_text(json.dumps({"record": record}))
    with pytest.raises(DataError, match=r"line 1: the scored record has no correct; found profile_id, key, modality"):
        read_run(folder, "sft")
    samples.write_text(json.dumps({"record": record | {"correct": {"official": 1}}}))
    with pytest.raises(DataError, match=r"line 1: expected a number or one a rule as the score"):
        read_run(folder, "sft")


def test_each_rules_verdict_is_read(make_folder: Any) -> None:
    """One record holds the verdicts of all rules; taking another rule's would change the scores."""
    verdicts = {"default": 1, "official": 1, "strict": 0}
    folder = make_folder("sft", everything_right, splits=("real",), verdicts=lambda _: verdicts)
    answers = read_run(folder, "sft").tasks["real", "cls"].answers or ()
    assert {(answer.score, answer.under("official"), answer.under("strict")) for answer in answers} == {(1.0, 1.0, 0.0)}


def test_a_question_logged_twice_counts_once(make_folder: Any) -> None:
    folder = make_folder("sft", everything_right, splits=("real",))
    (samples,) = folder.rglob("*_samples_umu_real_cls.jsonl")
    samples.write_text(samples.read_text() + samples.read_text().splitlines()[0] + "\n")
    assert len(read_run(folder, "sft").tasks["real", "cls"].answers or ()) == 8


@pytest.mark.parametrize(("effective", "questions"), [(8, 8), (-1, 8), (0.5, 4), (4, 4)])
def test_limit_is_understood_as_lmms_eval_writes_it(make_folder: Any, effective: float, questions: int) -> None:
    folder = make_folder("sft", everything_right, splits=("real",))
    (file,) = folder.rglob("*_results.json")
    content = json.loads(file.read_text())
    content["n-samples"]["umu_real_cls"] = {"original": 8, "effective": effective}
    file.write_text(json.dumps(content))
    assert read_run(folder, "sft").tasks["real", "cls"].questions == questions


def test_a_limited_run_is_announced(make_folder: Any) -> None:
    run = read_run(make_folder("sft", everything_right, limit=8.0), "sft")
    assert any("--limit 8" in notice for notice in run.notices)


def test_a_task_without_any_score_is_not_shown_as_zero(make_folder: Any) -> None:
    folder = make_folder("sft", everything_right, splits=("real",))
    (file,) = folder.rglob("*_results.json")
    content = json.loads(file.read_text())
    content["results"]["umu_real_cls"] = {"acc_mul,none": float("nan"), "acc_r,none": float("nan"), "alias": "x"}
    file.write_text(json.dumps(content))
    run = read_run(folder, "sft")
    assert ("real", "cls") not in run.tasks
    assert any("umu_real_cls" in notice and "no score" in notice for notice in run.notices)


def test_names_and_their_clashes(make_folder: Any, tmp_path: Path) -> None:
    assert split_argument("start=runs/sft") == ("start", Path("runs/sft"))
    assert split_argument("runs/sft/") == ("sft", Path("runs/sft"))
    odd = tmp_path / "lr=1e-4"
    odd.mkdir()
    assert split_argument(str(odd)) == ("lr=1e-4", odd)
    with pytest.raises(DataError, match="expected FOLDER or NAME=FOLDER"):
        split_argument("=runs/sft")
    folder = make_folder("sft", everything_right)
    with pytest.raises(DataError, match=r"two runs are called 'sft'.*NAME="):
        read_runs([str(folder), f"sft={folder}"])


def test_two_benchmarks_are_not_mixed(make_folder: Any) -> None:
    folder = make_folder("sft", everything_right, splits=("real",))
    (file,) = folder.rglob("*_results.json")
    content = json.loads(file.read_text())
    content["results"] |= {"mllmu_real_cls": {"acc_mul,none": 0.5}}
    file.write_text(json.dumps(content))
    with pytest.raises(DataError, match=r"several benchmarks \(mllmu, umu\). Choose one: --benchmark"):
        read_run(folder, "sft")
    assert read_run(folder, "sft", "umu").splits == ("real",)
    assert list(read_run(folder, "sft", "mllmu").tasks) == [("real", "cls")]


def test_leaf_names() -> None:
    assert parse_leaf("umu_forget05_cls") == ("umu", "forget05", "cls", "")
    assert parse_leaf("umu_real_gen") == ("umu", "real", "gen", "")
    zero_shot = parse_leaf("mllmu_test05_cloze_0shot")
    assert zero_shot == ("mllmu", "test05", "cloze", "0shot")
    assert str(zero_shot) == "mllmu_test05_cloze_0shot"
    assert parse_leaf("umu_forget05") is None
    assert parse_leaf("mmmu_val_cls") is None
    names = ("umu05", "umu_real", "mllmu10_0shot", "mllmu_test05_gen", "umuseum_qa", "mmmu_val")
    assert [is_ours(name) for name in names] == [True, True, True, True, False, False]


def test_only_tasks_with_examples_have_two_forms() -> None:
    """`--zero-shot` must still show generation and real people's classification, which have no examples anyway."""
    names = ("mllmu_forget05_cls", "mllmu_forget05_gen", "mllmu_real_cls", "mllmu_real_cloze", "umu_forget05_cls")
    leaves = [parse_leaf(name) for name in names]
    assert [leaf and leaf.has_other_form for leaf in leaves] == [True, False, False, True, False]


def test_a_comma_in_a_model_path_is_part_of_it() -> None:
    """Two models whose paths share the part before the comma would be taken for one."""
    assert split_model_args("pretrained=/a/m odd, dir2,batch_size=4") == {
        "pretrained": "/a/m odd, dir2",
        "batch_size": "4",
    }


def test_results_without_our_part_are_read_with_a_notice(make_folder: Any) -> None:
    """lmms-eval without the plugin writes no "umu" part; intervals and counts then come from the sample files."""
    folder = make_folder("sft", everything_right, block=False)
    run = read_run(folder, "sft")
    result = run.tasks["forget05", "cls"]
    assert [result.summary["counts"][name] for name in ("refusal", "empty", "failed")] == [0, 0, 0]
    assert result.interval("acc_mul") == (1.0, 1.0)
    assert any("without our plugin" in notice for notice in run.notices)
    assert read_run(make_folder("own", everything_right), "own").notices == ()


def test_our_part_of_another_version_is_not_guessed_at(make_folder: Any) -> None:
    """A newer form may mean something else by the same names."""
    folder = make_folder("sft", everything_right, splits=("real",))
    (file,) = folder.rglob("*_results.json")
    content = json.loads(file.read_text())
    content["umu"] |= {"format": 2, "validity": {"valid": False, "reasons": ["x"]}}
    file.write_text(json.dumps(content))
    run = read_run(folder, "sft")
    assert run.invalid == ()
    assert any("'umu' is not of the form this version knows (format 1)" in notice for notice in run.notices)


def test_intervals_counts_and_people_come_from_our_part(make_folder: Any) -> None:
    """Without sample files the results file alone says how sure a score is and how many outputs were empty."""
    folder = make_folder("sft", lambda *given: float(given[0] == "001"), splits=("forget05",), samples=False)
    result = read_run(folder, "sft").tasks["forget05", "cls"]
    assert result.interval("acc_mul") == (0.0, 1.0)
    assert result.stderr("acc_mul") == pytest.approx(0.35, abs=0.03)  # 2 people, one right: sqrt(1/8)
    assert result.instances == 4
    assert result.people == 2


def test_one_person_has_no_interval(make_folder: Any) -> None:
    """The results file holds null where nothing can be drawn again; it must not become a number."""
    people = {"forget05": ("001",)}
    folder = make_folder("sft", everything_right, splits=("forget05",), people=people)
    result = read_run(folder, "sft").tasks["forget05", "cls"]
    assert result.interval("acc_mul") is None
    assert result.stderr("acc_mul") is None


def test_sample_files_of_an_older_version_are_read(make_folder: Any) -> None:
    """They hold a record under each metric's name, with one verdict; scores stand, other rules are unknown."""
    folder = make_folder("sft", everything_right, splits=("real",), block=False)
    for file in folder.rglob("*_samples_*.jsonl"):
        samples = [json.loads(line) for line in file.read_text().splitlines()]
        for sample in samples:
            record = sample.pop("record")
            record["correct"] = 1
            sample["acc_mul"] = {name: record[name] for name in record if name not in ("refusal", "empty", "failed")}
        file.write_text("\n".join(json.dumps(sample) for sample in samples))
    result = read_run(folder, "sft").tasks["real", "cls"]
    answers = result.answers or ()
    assert {answer.score for answer in answers} == {1.0}
    assert {answer.under("strict") for answer in answers} == {None}
    assert result.interval("acc_mul") is None
