"""General ability from real runs: a task of somebody else's, and ours, asked by lmms-eval's own command."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from umu_tasks.benchmarks.sources import open_source
from umu_tasks.cli import main
from umu_tasks.mini import base_model_dir
from umu_tasks.tasks.umu.prompts import user_text

QUESTIONS = 16
TASK = """
task: real_facts
dataset_path: json
dataset_kwargs:
  data_files: {test: %s}
test_split: test
output_type: generate_until
doc_to_visual: !function utils.no_pictures
doc_to_text: "{{question}}"
doc_to_target: "{{answer}}"
generation_kwargs: {max_new_tokens: 8}
metric_list:
  - {metric: exact_match, aggregation: mean, higher_is_better: true}
metadata: {version: 1.0}
"""


def write_task(folder: Path) -> Path:
    """Write a task such as people keep for themselves: a YAML, a JSON file of questions, a function beside it."""
    folder.mkdir()
    facts = [one.unimodal for person in open_source("mini").load("real") for one in person.instances]
    rows = [{"question": user_text(one), "answer": one.gold} for one in facts if one.task == "cloze"][:QUESTIONS]
    (folder / "questions.json").write_text(json.dumps(rows), encoding="utf-8")
    (folder / "utils.py").write_text("def no_pictures(doc):\n    return []\n", encoding="utf-8")
    (folder / "real_facts.yaml").write_text(TASK % (folder / "questions.json"), encoding="utf-8")
    return folder


def damaged(base: Path, folder: Path) -> Path:
    """A copy of a model that can't write "cm" any more: it gets heights wrong, and nothing else."""
    from safetensors.numpy import load_file, save_file

    shutil.copytree(base, folder)
    vocabulary = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    weights = load_file(folder / "model.safetensors")
    weights["language_model.model.embed_tokens.weight"][vocabulary["Ġcm"]] = 0
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    """Run name -> its folders: the start model's tasks in one command, the other model's in two."""
    folder = tmp_path_factory.mktemp("general ability")
    models = {"start": base_model_dir(), "damaged": damaged(base_model_dir(), folder / "model")}
    asked = {
        "all": ("start", "real_facts,umu_forget05_cls"),
        "ours": ("damaged", "umu_forget05_cls"),
        "others": ("damaged", "real_facts"),
    }
    tasks = str(write_task(folder / "tasks"))
    evaluations: list[dict[str, Any]] = [
        {
            "model": "umu_hf",
            "model_args": f"pretrained={models[model]},prompt=chat,batch_size=16",
            "tasks": names,
            "include_path": tasks,
            "output_path": str(folder / name),
            "log_samples": True,
        }
        for name, (model, names) in asked.items()
    ]
    config = folder / "evaluations.yaml"
    config.write_text(json.dumps(evaluations), encoding="utf-8")  # JSON is YAML
    command = [sys.executable, "-m", "lmms_eval", "--config", str(config)]
    environment = {**os.environ, "UMU_DATA": "mini", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return {"start": [folder / "all"], "damaged": [folder / "ours", folder / "others"]}


def test_report_shows_what_the_model_lost_elsewhere(runs: dict[str, list[Path]], tmp_path: Path) -> None:
    """The scores in the report are lmms-eval's, and the change is between them, with both standard errors in it."""
    arguments = [f"{name}={folder}" for name, folders in runs.items() for folder in folders]
    assert main(["report", *arguments, "--out", str(tmp_path)]) == 0
    written = {name: results(folders)["results"]["real_facts"] for name, folders in runs.items()}
    with (tmp_path / "general.csv").open(newline="") as lines:
        rows = {row["run"]: row for row in csv.DictReader(lines)}
    assert {row["task"] for row in rows.values()} == {"real_facts"}  # ours are no general ability
    for name, row in rows.items():
        assert float(row["value"]) == written[name]["exact_match,none"]
        assert float(row["stderr"]) == written[name]["exact_match_stderr,none"]
        assert (row["higher_is_better"], row["questions"]) == ("True", str(QUESTIONS))
    heights = sum(json.loads(line)["target"].endswith(" cm") for line in asked(runs["start"][0]))
    assert 0 < heights < QUESTIONS
    assert (float(rows["start"]["value"]), float(rows["damaged"]["value"])) == (1, 1 - heights / QUESTIONS)
    spread = sum(float(row["stderr"]) ** 2 for row in rows.values()) ** 0.5
    change = float(rows["damaged"]["value"]) - float(rows["start"]["value"])
    assert float(rows["damaged"]["change"]) == pytest.approx(change)
    assert float(rows["damaged"]["change_low"]) == pytest.approx(change - 1.96 * spread, abs=1e-4)
    text = (tmp_path / "report.md").read_text()
    assert "| real_facts | exact_match ↑ |" in text
    assert "not run alike" not in text
    assert "is that the same model" not in text


def test_a_suite_on_one_model_only_is_pointed_out(runs: dict[str, list[Path]], tmp_path: Path, capsys: Any) -> None:
    arguments = [f"start={runs['start'][0]}", f"damaged={runs['damaged'][0]}"]
    assert main(["report", *arguments, "--out", str(tmp_path)]) == 0
    assert "The suite real_facts was run on start and not on damaged" in capsys.readouterr().out


def results(folders: list[Path]) -> Any:
    """Return the results file that holds the other task."""
    files = [file for folder in folders for file in folder.rglob("*_results.json")]
    contents = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    return next(content for content in contents if "real_facts" in content["results"])


def asked(folder: Path) -> list[str]:
    (file,) = folder.rglob("*_samples_real_facts.jsonl")
    return file.read_text(encoding="utf-8").splitlines()
