"""Derived splits, counts, validity, noise: what may be said about a run."""

from __future__ import annotations

from typing import Any

import pytest

from umu_tasks.benchmarks.errors import DataError
from umu_tasks.report.compare import compare, right_answers, value
from umu_tasks.report.intervals import difference, wilson, within_noise
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
    run = read_run(make_folder("x", knows_all, samples=False), "x")
    assert count_outputs(run.tasks.values()) is None
    assert compare([run]).invalid == {}


def test_a_run_with_empty_outputs_is_invalid_and_one_stray_empty_output_is_not(make_folder: Any) -> None:
    """Forget sets are small: one empty output in 24 is more than 1 %, and no sign of a destroyed model."""
    written = 0

    def one_empty(answer: str, score: float) -> str:
        nonlocal written
        written += 1
        return "" if written == 1 else answer

    healthy = read_run(make_folder("healthy", knows_all, output=one_empty), "healthy")
    broken = read_run(make_folder("broken", lambda *_: 0.0, output=lambda *_: ""), "broken")
    invalid = compare([healthy, broken]).invalid
    assert list(invalid) == ["broken"]
    assert "24 of 24 on forget05" in invalid["broken"]


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
    assert right_answers(after, "forget05", "multimodal") == 1.0
    assert value(after, "forget10", "cls", "acc_uni") is None


def test_nothing_kept_of_nothing(make_folder: Any) -> None:
    zero = read_run(make_folder("zero", lambda *_: 0.0), "zero")
    sft = read_run(make_folder("sft", knows_all), "sft")
    comparison = compare([zero, sft])
    assert comparison.kept(comparison.runs[1], "real", "cls", "acc_r") is None


def test_unknown_baseline_lists_the_runs(make_folder: Any) -> None:
    run = read_run(make_folder("sft", knows_all), "sft")
    with pytest.raises(DataError, match=r"--baseline start: no run is called that. Choose one of: sft"):
        compare([run], "start")


def test_wilson_interval_by_hand() -> None:
    """0 of 6 and 5 of 10, from the closed form: z²/(n + z²) = 0.3903; 0.5 ± 0.2634."""
    assert wilson(0.0, 6) == pytest.approx((0.0, 0.39033), abs=1e-4)
    assert wilson(0.5, 10) == pytest.approx((0.23659, 0.76341), abs=1e-4)
    with pytest.raises(ValueError, match="at least one"):
        wilson(0.5, 0)


def test_difference_by_a_published_example() -> None:
    """Newcombe 1998, Table II, example (a): 56/70 - 48/80, method 10 gives 0.0524 to 0.3339."""
    assert difference(56 / 70, 70, 48 / 80, 80) == pytest.approx((0.0524, 0.3339), abs=1e-4)


def test_small_sets_are_noisy_and_large_ones_are_not() -> None:
    assert within_noise(0.8, 6, 1.0, 6)
    assert not within_noise(0.8, 600, 1.0, 600)
    assert not within_noise(0.0, 6, 1.0, 6)
