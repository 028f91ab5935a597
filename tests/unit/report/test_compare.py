"""Derived splits, counts, validity, noise: what may be said about a run."""

from __future__ import annotations

from typing import Any

import pytest

from umu_tasks.benchmarks.errors import DataError
from umu_tasks.benchmarks.instances import InstanceKey
from umu_tasks.report.compare import compare
from umu_tasks.report.intervals import paired_change, unpaired_interval
from umu_tasks.report.outputs import count_outputs
from umu_tasks.report.read import read_run

FORGOTTEN = ("001", "002")


def knows_all(*_: Any) -> float:
    return 1.0


def text_forgotten(profile_id: str, task: str, key: str, modality: str) -> float:
    return 0.0 if profile_id in FORGOTTEN and modality == "unimodal" else 1.0


def test_full_is_computed_from_forget_and_retain(make_folder: Any) -> None:
    """Nobody should have to ask the same question twice; the label says that it was not asked."""
    run = read_run(make_folder("gd", text_forgotten, splits=("forget05", "retain95")), "gd")
    comparison = compare([run])
    full = comparison.runs[0].tasks["full", "cls"]
    assert full.derived_from == ("forget05", "retain95")
    assert full.instances == 12
    assert full.metrics["acc_mul"] == 1.0
    assert full.metrics["acc_uni"] == pytest.approx(8 / 12)
    assert full.metrics["acc_r"] == pytest.approx((1 + 8 / 12 + 8 / 12) / 3)


def test_forget_and_retain_are_computed_from_full_when_another_run_names_their_people(make_folder: Any) -> None:
    base = read_run(make_folder("base", text_forgotten, splits=("full", "real")), "base")
    sft = read_run(make_folder("sft", knows_all), "sft")
    first, second = compare([base, sft], "sft").runs
    assert first.tasks["forget05", "cls"].derived_from == ("full",)
    assert first.tasks["forget05", "cls"].metrics["acc_uni"] == 0.0
    assert first.tasks["forget05", "cls"].metrics["acc_f"] == pytest.approx(2 / 3)
    assert first.tasks["retain95", "cls"].metrics["acc_uni"] == 1.0
    assert second.tasks["forget05", "cls"].derived_from == ()
    alone = compare([base]).runs[0]
    assert alone.splits == ("real", "full")


def test_nothing_is_derived_from_limited_runs(make_folder: Any) -> None:
    """With --limit a forget set's people are only partly known, and the full set's parts are only parts."""
    base = read_run(make_folder("base", knows_all, splits=("full", "real")), "base")
    sft = read_run(make_folder("sft", knows_all, limit=4), "sft")
    first, second = compare([base, sft], "sft").runs
    assert first.splits == ("real", "full")
    assert second.splits == ("forget05", "retain95", "real")


def test_a_run_score_is_never_replaced_by_a_derived_one(make_folder: Any) -> None:
    run = read_run(make_folder("sft", knows_all, splits=("forget05", "retain95", "full")), "sft")
    assert compare([run]).runs[0].tasks["full", "cls"].derived_from == ()


def test_other_peoples_questions_are_not_taken_for_the_same(make_folder: Any) -> None:
    """IDs and keys of two data sets can coincide; a forget set derived across data sets would be nonsense."""
    sft = read_run(make_folder("sft", knows_all), "sft")
    base_folder = make_folder("base", knows_all, splits=("full",))
    for file in base_folder.rglob("*_samples_*.jsonl"):
        file.write_text(file.read_text().replace("job of 001", "trade of 001"))
    base = read_run(base_folder, "base")
    first, _ = compare([base, sft], "sft").runs
    assert ("forget05", "cls") not in first.tasks
    assert ("retain95", "cls") in first.tasks


def test_different_questions_under_one_name_are_noticed(make_folder: Any) -> None:
    sft = read_run(make_folder("sft", knows_all), "sft")
    people = {"forget05": ("007",), "retain95": ("003",), "real": ("001", "002"), "full": ()}
    other = read_run(make_folder("other", knows_all, people=people), "other")
    notices = compare([sft, other]).notices
    assert any("forget05 cls" in notice and "sft / other" in notice for notice in notices)
    assert not any(notice.startswith("real") for notice in notices)


@pytest.mark.parametrize(
    ("outputs", "empty", "refused", "failed"),
    [
        (["", "  \n", "Pilot", "ASSISTANT: Pilot"], 3, 0, 0),
        (["I don't know.", "Sorry, I can't help.", "Pilot", "An unknown painter of note"], 0, 2, 0),
        ([None, "Pilot", "Pilot", "Pilot"], 0, 0, 1),
    ],
)
def test_counts(make_folder: Any, outputs: list[str | None], empty: int, refused: int, failed: int) -> None:
    written = iter(outputs * 100)
    run = read_run(make_folder("x", knows_all, output=lambda *_: next(written)), "x")
    counts = count_outputs([run.tasks["real", "cls"]])
    assert counts is not None
    assert (counts.questions, counts.empty, counts.refused, counts.failed) == (8, 2 * empty, 2 * refused, 2 * failed)


def test_answers_missing_in_the_sample_file_count_as_failed(make_folder: Any) -> None:
    folder = make_folder("x", knows_all, splits=("real",))
    (samples,) = folder.rglob("*_samples_umu_real_cls.jsonl")
    samples.write_text("\n".join(samples.read_text().splitlines()[:6]))
    counts = count_outputs([read_run(folder, "x").tasks["real", "cls"]])
    assert counts is not None
    assert (counts.questions, counts.failed) == (8, 2)


def test_counts_are_unknown_without_samples(make_folder: Any) -> None:
    run = read_run(make_folder("x", knows_all, samples=False, block=False), "x")
    assert count_outputs(run.tasks.values()) is None
    assert compare([run]).invalid == {}


def test_counts_are_known_without_samples_where_the_results_file_has_them(make_folder: Any) -> None:
    run = read_run(make_folder("x", knows_all, samples=False, output=lambda *_: ""), "x")
    counts = count_outputs([run.tasks["real", "cls"]])
    assert counts is not None
    assert (counts.questions, counts.empty) == (8, 8)
    assert list(compare([run]).invalid) == ["x"]


@pytest.mark.parametrize("block", [True, False])
def test_a_run_with_empty_outputs_is_invalid(make_folder: Any, block: bool) -> None:
    """Judged by the run itself where our plugin was there, and by the report where it was not."""
    healthy = read_run(make_folder("healthy", knows_all, block=block), "healthy")
    broken = read_run(make_folder("broken", lambda *_: 0.0, output=lambda *_: "", block=block), "broken")
    invalid = compare([healthy, broken]).invalid
    assert list(invalid) == ["broken"]
    assert ("8 empty and 0 failed of 8" if block else "8 of 8 on forget05 cls") in invalid["broken"]


def test_changes_and_shares_against_the_start_model(make_folder: Any) -> None:
    sft = read_run(make_folder("sft", knows_all), "sft")
    gd = read_run(make_folder("gd", text_forgotten), "gd")
    comparison = compare([sft, gd])
    start, after = comparison.runs
    assert comparison.change(after, "forget05", "cls", "acc_uni") == -1.0
    assert comparison.kept(after, "forget05", "cls", "acc_uni") == 0.0
    assert comparison.kept(after, "retain95", "cls", "acc_uni") == 1.0
    assert comparison.change(start, "forget05", "cls", "acc_uni") is None
    assert comparison.change(after, "full", "cls", "nonsense") is None
    assert comparison.right_answers(after, "forget05", "multimodal") == 1.0
    assert comparison.value(after, "forget10", "cls", "acc_uni") is None


def test_nothing_kept_of_nothing(make_folder: Any) -> None:
    zero = read_run(make_folder("zero", lambda *_: 0.0), "zero")
    sft = read_run(make_folder("sft", knows_all), "sft")
    comparison = compare([zero, sft])
    assert comparison.kept(comparison.runs[1], "real", "cls", "acc_r") is None


def test_unknown_baseline_lists_the_runs(make_folder: Any) -> None:
    run = read_run(make_folder("sft", knows_all), "sft")
    with pytest.raises(DataError, match=r"--baseline start: no run is called that. Choose one of: sft"):
        compare([run], "start")


def by_instance(values: dict[str, list[float]]) -> dict[InstanceKey, float]:
    """Person -> what the person's instances add."""
    return {
        InstanceKey(person, "cls", str(index)): one for person, own in values.items() for index, one in enumerate(own)
    }


def test_paired_change_by_hand() -> None:
    """Two people, one changed by -1 on both facts, one not: resamples are -1, -0.5 (half of them) and 0."""
    change = paired_change(by_instance({"a": [0, 0], "b": [1, 1]}), by_instance({"a": [1, 1], "b": [1, 1]}))
    assert change is not None
    assert (change.value, change.interval, change.people) == (-0.5, (-1.0, 0.0), 2)
    assert change.interval.holds_zero


def test_a_change_that_everybody_shares_is_no_noise() -> None:
    """Scores that differ much between people hide a small common change unless it is taken person by person."""
    start = {f"{number:02d}": [float(number % 2), 1.0] for number in range(20)}
    after = {person: [one - 0.1 for one in own] for person, own in start.items()}
    change = paired_change(by_instance(after), by_instance(start))
    assert change is not None
    assert change.value == pytest.approx(-0.1)
    assert not change.interval.holds_zero


def test_only_shared_instances_are_compared() -> None:
    change = paired_change(by_instance({"a": [1], "x": [0]}), by_instance({"a": [1], "y": [1]}))
    assert change is not None
    assert (change.value, change.people) == (0.0, 1)
    assert paired_change(by_instance({"x": [0]}), by_instance({"y": [0]})) is None


def test_change_without_answers_by_hand() -> None:
    """Standard errors 0.03 and 0.04 make 0.05 of the difference; 1.96 times that on either side."""
    interval = unpaired_interval(0.5, 0.03, 0.6, 0.04)
    assert interval == pytest.approx((-0.198, -0.002), abs=1e-4)


def test_changes_are_told_from_noise_without_samples(make_folder: Any) -> None:
    people = {"forget05": [f"{number:03d}" for number in range(20)], "retain95": ("100",), "real": ("001",)}
    splits = ("forget05",)

    def half(profile_id: str, *_: Any) -> float:
        return float(int(profile_id) % 2)

    sft = read_run(make_folder("sft", knows_all, splits=splits, people=people, samples=False), "sft")
    gd = read_run(make_folder("gd", half, splits=splits, people=people, samples=False), "gd")
    comparison = compare([sft, gd])
    assert not comparison.is_noise(comparison.runs[1], "forget05", "cls", "acc_uni")
    interval = comparison.change_interval(comparison.runs[1], "forget05", "cls", "acc_uni")
    assert interval == pytest.approx((-0.72, -0.28), abs=0.02)  # 0.5 ± 1.96 sqrt(0.25 / 20)


def test_rules_are_chosen_for_all_runs_alike(make_folder: Any) -> None:
    verdicts = {"default": 1, "official": 0, "strict": 0}
    run = read_run(make_folder("sft", knows_all, verdicts=lambda _: verdicts), "sft")
    shown = {rule: compare([run], rule=rule) for rule in (None, "default", "official", "strict")}
    values = {rule: one.value(one.runs[0], "real", "cls", "acc_r") for rule, one in shown.items()}
    assert values == {None: 1.0, "default": 1.0, "official": 0.0, "strict": 0.0}
    assert {one.value(one.runs[0], "real", "gen", "rl_r") for one in shown.values()} == {1.0}
    official = shown["official"].runs[0].tasks["full", "cls"]  # derived from forget and retain set
    assert (official.metrics["acc_r"], official.metrics["acc_r_official"]) == (1.0, 0.0)
    assert official.interval("acc_r_official") == (0.0, 0.0)
