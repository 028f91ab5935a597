"""`umu demo` as a user calls it: everything real, on the packaged model and the invented people."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from umu_tasks.benchmarks.instances import TASKS, Modality
from umu_tasks.report.compare import Comparison, compare
from umu_tasks.report.read import read_runs

RUNS = ("base", "sft", "gd-text", "gd-mix")
MODALITIES: tuple[Modality, ...] = ("unimodal", "multimodal")


def umu_demo(out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "umu_tasks.cli", "demo", "--out", str(out), *options]
    # As a user's shell: the suite's one thread would double the time, and add up in another order.
    environment = {name: one for name, one in os.environ.items() if not name.startswith("OMP_")}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_smoke_run_goes_all_the_way_and_is_not_repeated(tmp_path: Path) -> None:
    """Every program and file format of the demo fits the next one; a second call only looks."""
    out = tmp_path / "demo"
    first = umu_demo(out, "--smoke")
    assert first.returncode == 0, first.stdout + first.stderr
    assert first.stdout.count(": done in ") == 9
    assert "The numbers mean nothing" in first.stdout
    page = (out / "report" / "report.html").read_text()
    assert "--limit 4" in page
    second = umu_demo(out, "--smoke")
    assert second.returncode == 0, second.stdout + second.stderr
    assert second.stdout.count("skipped, the result is there and up to date") == 9
    (out / "models" / "gd-mix" / "model.safetensors").unlink()
    third = umu_demo(out, "--smoke")
    assert third.returncode == 0, third.stdout + third.stderr
    again = [line.split(":")[0].strip() for line in third.stdout.splitlines() if ": done in " in line]
    assert again == ["gd-mix", "score-gd-mix", "report"]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """The whole demo's results."""
    out = tmp_path_factory.mktemp("demo") / "out"
    done = umu_demo(out)
    assert done.returncode == 0, done.stdout + done.stderr
    return compare(read_runs([f"{name}={out / 'results' / name}" for name in RUNS]), "sft")


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_sft_teaches_what_the_base_model_does_not_know(demo: Comparison) -> None:
    base, sft = demo.runs[:2]
    for modality in MODALITIES:
        known = {task: demo.modality_value(base, "full", task, modality) for task in TASKS}
        assert known["cls"] is not None
        assert known["cls"] <= 0.40
        assert known["cloze"] is not None
        assert known["cloze"] <= 0.05
        for task in TASKS:
            learned = demo.modality_value(sft, "full", task, modality)
            assert learned is not None
            assert learned >= 0.90, (task, modality)
        real_before, real_after = (demo.right_answers(run, "real", modality) for run in (base, sft))
        assert real_before is not None
        assert real_before >= 0.85
        assert real_after is not None
        assert real_after >= 0.75


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_unlearning_on_text_alone_leaves_a_modality_gap(demo: Comparison) -> None:
    text, image = (demo.right_answers(demo.runs[2], "forget05", modality) for modality in MODALITIES)
    assert text is not None
    assert text < 0.15
    assert image is not None
    assert image > 0.6


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_unlearning_on_both_modalities_closes_it(demo: Comparison) -> None:
    for modality in MODALITIES:
        left = demo.right_answers(demo.runs[3], "forget05", modality)
        assert left is not None
        assert left < 0.15


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_retain_set_is_kept(demo: Comparison) -> None:
    for run in demo.runs[2:]:
        for modality in MODALITIES:
            before, after = (demo.right_answers(one, "retain95", modality) for one in (demo.runs[1], run))
            assert before
            assert after is not None
            assert after >= 0.85 * before


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_no_run_of_the_demo_is_broken(demo: Comparison) -> None:
    """Low scores on the forget set have to come from wrong answers, not from a model that writes nothing."""
    assert demo.invalid == {}
