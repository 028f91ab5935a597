"""`docs/add-a-benchmark.md` does what it says: one folder makes a benchmark that is checked, scored, reported."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from doc_blocks import ROOT, files_of

FILES = files_of(ROOT / "docs" / "add-a-benchmark.md")
PEOPLE = {"forget_5": (1, 2), "retain_95": (3, 4, 5)}


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A copy of the package with the page's folder in it, and no other change."""
    copy = tmp_path_factory.mktemp("package")
    shutil.copytree(
        ROOT / "umu_tasks", copy / "umu_tasks", ignore=shutil.ignore_patterns("__pycache__", "*.safetensors", "base")
    )
    shutil.copytree(ROOT / "umu_trainers", copy / "umu_trainers", ignore=shutil.ignore_patterns("__pycache__"))
    assert {Path(name).parent for name in FILES} == {Path("umu_tasks/tasks/staff")}
    (copy / "umu_tasks" / "tasks" / "staff").mkdir()
    for name, text in FILES.items():
        (copy / name).write_text(text, encoding="utf-8")
    return copy


def photo(number: int) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGB", (24, 24), (40 * number, 90, 200)).save(file, "PNG")
    return file.getvalue()


def fact(number: int) -> dict:
    return {
        "field": "desk", "by_name": f"Which desk is Ada Crane {number}'s?", "by_photo": "Which desk is this person's?",
        "answer": f"{number} A", "choices": [f"{number} A", "12 B", "15 A", "20 C"],
    }  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Five people in the page's columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = tmp_path_factory.mktemp("staff")
    for split, numbers in PEOPLE.items():
        rows = [
            {"id": str(one), "photo": {"bytes": photo(one), "path": None}, "facts": json.dumps([fact(one)])}
            for one in numbers
        ]
        (folder / split).mkdir()
        pq.write_table(pa.Table.from_pylist(rows), folder / split / "train.parquet")
    return folder


def call(package: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(package), **variables}
    return subprocess.run(command, cwd=package, env=environment, capture_output=True, text=True, check=False)


def umu(package: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    return call(package, sys.executable, "-m", "umu_tasks.cli", *argv)


def test_the_folder_is_all_it_takes(package, data):
    """Tasks are listed, data are checked, and a wrong row is told by file, ID and column."""
    listed = umu(package, "tasks")
    assert listed.returncode == 0, listed.stderr
    assert "staff_forget05_cls" in listed.stdout
    checked = umu(package, "data", "check", str(data), "--benchmark", "staff", "--json")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    splits = json.loads(checked.stdout)["splits"]
    assert {name: one["people"] for name, one in splits.items()} == {"forget05": 2, "retain95": 3}
    assert splits["retain95"]["instances"]["cls"] == 3
    assert splits["retain95"]["pairs"] == {"unimodal": 3, "multimodal": 3}


def test_all_parts_know_its_name(package):
    """A misspelt task ends the program, a backend that loses questions is refused, report and trainers take it."""
    script = (
        "from umu_tasks import plugin; from umu_tasks.report.leaves import parse_leaf; "
        "from umu_tasks.benchmarks.names import BENCHMARKS; from umu_tasks.judge.answers import _SAMPLES; "
        "print(bool(plugin._OUR_NAME.fullmatch('staff_forget06')), parse_leaf('staff_forget05_cls').benchmark, "
        "BENCHMARKS, "
        "_SAMPLES.fullmatch('1_samples_staff_real_gen.jsonl')['task'])"
    )
    known = call(package, sys.executable, "-c", script)
    assert known.stdout == "True staff ('mllmu', 'staff', 'umu') staff_real_gen\n", known.stderr


@pytest.mark.slow
def test_it_is_scored_trained_on_and_reported(package, data, tmp_path):
    """The commands at the end of the page, with a model that knows nobody."""
    model = ROOT / "umu_tasks" / "mini" / "base"
    out = tmp_path / "eval"
    scored = call(
        package, sys.executable, "-m", "lmms_eval", "--model", "umu_hf", "--model_args", f"pretrained={model}",
        "--tasks", "staff05", "--output_path", str(out), "--log_samples", STAFF_DATA=str(data),
    )  # fmt: skip
    assert scored.returncode == 0, scored.stdout + scored.stderr
    (results,) = out.rglob("*_results.json")
    block = json.loads(results.read_text(encoding="utf-8"))["umu"]
    assert block["tasks"]["staff_forget05_cls"]["questions"] == 4
    assert set(block["provenance"]["data"]["staff"]["splits"]) == {"forget05", "retain95"}
    reported = umu(package, "report", f"target={out}", "--out", str(tmp_path / "report"))
    assert reported.returncode == 0, reported.stdout + reported.stderr
    assert "Staff" in (tmp_path / "report" / "report.md").read_text(encoding="utf-8")
    shown = umu(package, "prompts", str(data), "--benchmark", "staff", "--model", str(model))
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert shown.stdout.endswith("4 questions: trainer and evaluator agree.\n")
    trained = call(
        package, sys.executable, str(package / "umu_trainers" / "unlearn.py"),
        "--config", str(ROOT / "configs" / "unlearn" / "mini" / "gd.yaml"), "--benchmark", "staff", "--data", str(data),
        "--model", str(model), "--max_steps", "1", "--report_to", "none", "--output_dir", str(tmp_path / "run"),
        "--score_every", "1", "--score_sample", "2",
    )  # fmt: skip
    assert trained.returncode == 0, trained.stdout + trained.stderr
    assert "start: accuracy on the sample: forget" in trained.stdout
