"""`scripts/method_table.py`: what it runs again, and what it makes of results files."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "method_table.py"


@pytest.fixture(scope="module")
def table():
    spec = importlib.util.spec_from_file_location("method_table", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def args(table, tmp_path):
    start = tmp_path / "sft"
    start.mkdir()
    (start / "config.json").write_text("{}", encoding="utf-8")
    return table.parse_arguments(["--start", str(start), "--out", str(tmp_path / "out"), "--device", "cuda"])


def write_results(folder, valid):
    results = {
        f"umu_{split}_{task}": {"acc_uni,none": uni, "acc_mul,none": mul, "rl_uni,none": 0.25, "rl_mul,none": 0.5}
        for split, uni, mul in (("forget10", 0.0, 1.0), ("retain90", 0.9, 0.8), ("real", 0.5, 0.7))
        for task in ("cls", "cloze", "gen")
    }
    file = folder / "results" / "model" / "1_results.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"results": results, "umu": {"validity": {"valid": valid}}}), encoding="utf-8")


def test_a_cell_for_the_start_and_for_each_method_and_modality(table, args):
    cells = list(table.build_cells(args))
    assert len(cells) == 1 + 3 * len(table.objectives.available())
    npo = next(cell for cell in cells if cell.name == "npo-uni")
    training, scoring = (" ".join(command) for command in npo.commands)
    assert "unlearn/mini/npo.yaml" in training
    assert "--modality uni" in training
    assert "--use_cpu False" in training
    assert f"pretrained={npo.folder / 'model'}" in scoring
    assert "--tasks umu10" in scoring


def test_a_finished_cell_is_kept_until_its_config_changes(table, args, tmp_path):
    cell = next(cell for cell in table.build_cells(args) if cell.name == "ga-mix")
    assert cell.done is None
    cell.folder.mkdir(parents=True)
    (cell.folder / "done.json").write_text(json.dumps({"stamp": cell.stamp}), encoding="utf-8")
    assert cell.done
    changed = tmp_path / "ga.yaml"
    changed.write_text("method: ga\nmax_steps: 1\n", encoding="utf-8")
    assert table.Cell(cell.name, "ga", "mix", changed, cell.commands, cell.folder).done is None


def test_a_row_of_the_table(table, args):
    cell = next(cell for cell in table.build_cells(args) if cell.name == "ga-uni")
    write_results(cell.folder, valid=False)
    row = table.scores(cell, 10)
    assert (row["forget_uni"], row["forget_mul"], row["gap"]) == (0.0, 1.0, 1.0)
    assert row["retain_mul"] == pytest.approx(0.8)
    line = table.as_markdown([row]).splitlines()[-1]
    assert line == "| ga (invalid) | uni | 0 | 100 | 100 | 90 | 80 | 50 | 70 | 25 | 50 |"


def test_a_failed_command_is_named_with_its_log(table, args):
    cell = next(cell for cell in table.build_cells(args) if cell.name == "ga-uni")
    broken = table.Cell(cell.name, "ga", "uni", None, ((sys.executable, "-c", "raise SystemExit(3)"),), cell.folder)
    assert table.run_cell(broken, {}) == f"ga-uni: exit status 3, see {cell.folder / 'log.txt'}"
    assert broken.done is None
