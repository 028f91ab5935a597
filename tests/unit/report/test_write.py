"""The written report: complete, self-contained, and never showing what was not measured as zero."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from umu_tasks.cli import main
from umu_tasks.report import plots, plots_detail, write
from umu_tasks.report.canvas import Picture
from umu_tasks.report.cells import Cell, Row, Table, points, to_markdown, to_text
from umu_tasks.report.compare import compare
from umu_tasks.report.plots import draw
from umu_tasks.report.read import read_run
from umu_tasks.report.tables import changes, outputs, scores, summary
from umu_tasks.report.training import training_facts


def knows_all(*_: Any) -> float:
    return 1.0


def text_forgotten(profile_id: str, task: str, key: str, modality: str) -> float:
    return 0.0 if profile_id in ("001", "002") and modality == "unimodal" else 1.0


@pytest.fixture
def folders(make_folder: Any) -> list[str]:
    return [
        f"base={make_folder('base', lambda *_: 0.0, splits=('full', 'real'))}",
        f"sft={make_folder('sft', knows_all)}",
        f"gd text={make_folder('gd', text_forgotten)}",
    ]


def test_command_writes_a_self_contained_report(folders: list[str], tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "report"
    assert main(["report", *folders, "--baseline", "sft", "--out", str(out)]) == 0
    plots = ("tradeoff_forget05", "modality_gap_forget05", "decomposition_forget05", "fields_forget05", "knowledge")
    pictures = {f"{name}.{ending}" for name in plots for ending in ("png", "svg", "csv")}
    tables = {"report.html", "report.md", "tables.tex", "scores.csv", "outputs.csv", "fields.csv"}
    assert {file.name for file in out.iterdir()} == pictures | tables
    page = (out / "report.html").read_text()
    outside = [link for link in Links.of(page) if not link.startswith(("#", "data:image/png;base64,"))]
    assert outside == []
    assert page.count("data:image/png;base64,") == 10
    assert "prefers-color-scheme: dark" in page
    text = (out / "report.md").read_text()
    for wanted in ("gd text", "modality gap", "pretrained=checkpoints/sft", "v0.7.3", "2026-01-02"):
        assert wanted in page
        assert wanted in text
    assert "abc1234" not in page + text  # the commit of whatever repository lmms-eval was started in
    for picture in re.findall(r"\]\((.*?\.png)\)", text):
        with Image.open(out / picture) as image:
            assert image.width > 1000
    printed = capsys.readouterr().out
    assert "gd text" in printed
    assert str(out / "report.html") in printed


@pytest.fixture
def without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes most of a report's time; tests that look at words and tables do without."""
    monkeypatch.setattr(write, "draw", lambda *_: [])


@pytest.mark.usefixtures("without_pictures")
def test_names_are_escaped(make_folder: Any, tmp_path: Path) -> None:
    folder = make_folder("sft", knows_all)
    assert main(["report", f"<b>|x={folder}", "--out", str(tmp_path / "out")]) == 0
    assert "<b>|x" not in (tmp_path / "out" / "report.html").read_text()
    assert "| <b>\\|x" in (tmp_path / "out" / "report.md").read_text()


@pytest.mark.usefixtures("without_pictures")
def test_an_invalid_run_is_shouted_and_ends_with_status_3(make_folder: Any, tmp_path: Path, capsys: Any) -> None:
    """A script that goes on after a destroyed model would publish "perfect forgetting"."""
    sft = make_folder("sft", knows_all)
    broken = make_folder("ga", lambda *_: 0.0, output=lambda *_: "")
    assert main(["report", str(sft), str(broken), "--out", str(tmp_path / "out")]) == 3
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Invalid run: ga" in page
    assert page.index("Invalid run: ga") < page.index("What this shows</h2>")
    assert "gone in both" not in page
    text = (tmp_path / "out" / "report.md").read_text()
    assert "~~0.0~~" in text
    assert "| ga (invalid) | 0.0" not in text.replace("**", "")
    assert "INVALID RUN: ga" in (tmp_path / "out" / "report.md").read_text()
    assert "INVALID RUN ga" in capsys.readouterr().out


def test_errors_reach_the_user_as_one_line(tmp_path: Path, capsys: Any) -> None:
    assert main(["report", str(tmp_path / "nowhere"), "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"umu: {tmp_path / 'nowhere'}: no such folder.")
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_split_that_was_not_run_is_not_zero(make_folder: Any) -> None:
    sft = read_run(make_folder("sft", knows_all), "sft")
    other = read_run(make_folder("other", knows_all, splits=("real",)), "other")
    comparison = compare([sft, other])
    (cls, *_) = [row for row in scores(comparison, "forget05").rows if row.cells[1].text == "other"]
    assert cls.cells[2].text == "not run"
    assert {cell.text for cell in cls.cells[3:]} == {"–"}
    (table,) = summary(comparison)
    row = next(row for row in table.rows if row.cells[0].text == "other")
    shown = dict(zip(table.columns, row.cells, strict=True))
    assert shown["forget05 text"].text == "not run"
    assert shown["forget05 gap"].text == "–"
    assert shown["real text"].text == "100.0"
    assert changes(comparison, "forget05") is None


def test_unknown_counts_are_not_zero(make_folder: Any) -> None:
    run = read_run(make_folder("sft", knows_all, samples=False, block=False), "sft")
    comparison = compare([run])
    (table,) = summary(comparison)
    assert [cell.text for cell in table.rows[0].cells[-2:]] == ["?", "?"]
    assert outputs(comparison).rows[0].cells[2].text == "not counted"


def test_numbers_of_the_tables(make_folder: Any) -> None:
    sft = read_run(make_folder("sft", knows_all), "sft")
    gd = read_run(make_folder("gd", text_forgotten), "gd")
    comparison = compare([sft, gd])
    table = scores(comparison, "forget05")
    row = next(row for row in table.rows if row.cells[1].text == "gd")
    assert [cell.text for cell in row.cells[2:]] == [
        "100.0",
        "0.0",
        "+100.0",
        "100.0",
        "66.7",
        "4",
        "0.0",
        "0.0",
        "0.0",
    ]
    assert table.columns[5:7] == ("Any", "acc_f / rl_f")
    assert scores(comparison, "retain95").columns[5:7] == ("Both", "acc_r / rl_r")
    moved = changes(comparison, "forget05")
    assert moved is not None
    assert [cell.text for cell in moved.rows[0].cells[2:]] == ["≈ 0.0", "−100.0", "−33.3", "100.0", "0.0", "66.7"]
    kept = changes(comparison, "retain95")
    assert kept is not None
    assert [cell.text for cell in kept.rows[0].cells[5:]] == ["100.0", "100.0", "100.0"]


def test_derived_scores_are_marked(make_folder: Any) -> None:
    comparison = compare([read_run(make_folder("sft", knows_all), "sft")])
    assert scores(comparison, "full").rows[0].cells[7].text == "12†"
    (table,) = summary(comparison)
    assert dict(zip(table.columns, table.rows[0].cells, strict=True))["full text"].text == "100.0†"


def test_a_split_scored_in_part_is_not_called_not_run(make_folder: Any) -> None:
    """Whoever ran classification only must see its score, and that the mean of both tasks is missing."""
    folder = make_folder("sft", knows_all)
    (file,) = folder.rglob("*_results.json")
    content = json.loads(file.read_text())
    del content["results"]["umu_forget05_cloze"]
    del content["results"]["umu_real_cls"], content["results"]["umu_real_cloze"]
    file.write_text(json.dumps(content))
    (table,) = summary(compare([read_run(folder, "sft")]))
    shown = dict(zip(table.columns, table.rows[0].cells, strict=True))
    assert (shown["forget05 text"].text, shown["forget05 text"].note) == ("in part", "classification 100.0 only")
    assert (shown["real image"].text, shown["real image"].note) == ("in part", "generation only")
    assert shown["retain95 text"].text == "100.0"


def test_generation_scores_stand_under_their_heads(make_folder: Any) -> None:
    """Generation has no "any" and no "both": its joint score must not slip into their column."""
    comparison = compare([read_run(make_folder("sft", knows_all), "sft")])
    table = scores(comparison, "forget05")
    row = next(row for row in table.rows if row.cells[0].text == "Generation")
    shown = dict(zip(table.columns, row.cells, strict=True))
    assert (shown["Any"].text, shown["acc_f / rl_f"].text) == ("–", "100.0")
    assert shown["acc_f / rl_f"].note == "100–100"


def test_a_report_without_a_forget_set(make_folder: Any, tmp_path: Path) -> None:
    folder = make_folder("base", knows_all, splits=("real",))
    assert main(["report", str(folder), "--out", str(tmp_path / "out")]) == 0
    assert [plot.name for plot in draw(compare([read_run(folder, "base")]))] == ["knowledge"]
    assert not (tmp_path / "out" / "tables.tex").exists()
    assert "no statement about forgetting" in (tmp_path / "out" / "report.md").read_text()


def test_three_forget_sets_get_a_table_and_pictures_each(make_folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (plots, plots_detail):
        monkeypatch.setattr(module, "render", lambda *_: Picture({"light": b"", "dark": b""}, b""))
    people = {
        **{f"forget{ratio}": ("001", "002") for ratio in ("05", "10")},
        **{f"retain{ratio}": ("003", "004") for ratio in ("95", "90")},
    }
    run = read_run(make_folder("sft", knows_all, splits=tuple(people), people=people), "sft")
    comparison = compare([run])
    assert [table.title for table in summary(comparison)] == ["Right answers, forget05", "Right answers, forget10"]
    names = [plot.name for plot in draw(comparison)]
    assert "tradeoff_forget10" in names
    assert "modality_gap_forget05" in names


@pytest.mark.usefixtures("without_pictures")
def test_training_settings_are_shown_where_the_weights_lie(make_folder: Any, tmp_path: Path) -> None:
    """What made a run is the first thing a reader asks; a record that is missing or odd must not stop the report."""
    model = tmp_path / "checkpoint"
    folder = make_folder("gd", knows_all, model_args=f"pretrained={model},batch_size=8")
    origin = read_run(folder, "gd").origins[0]
    assert training_facts(origin) == ""
    model.mkdir()
    (model / "training_record.json").write_text("[]")
    assert training_facts(origin) == ""
    record = {
        "command": "unlearn",
        "start": {"model": "models/sft"},
        "settings": {"method": "gd", "modality": "uni", "learning_rate": 1e-4, "warmup_steps": 3, "gamma": None},
        "result": {"steps": 30},
    }
    (model / "training_record.json").write_text(json.dumps(record))
    told = "unlearn, method gd, rows uni, learning rate 0.0001, 30 steps, from models/sft"
    assert training_facts(origin) == told
    assert main(["report", str(folder), "--out", str(tmp_path / "out")]) == 0
    assert told in (tmp_path / "out" / "report.md").read_text()


def test_cells_and_text_forms() -> None:
    assert points(-0.00004).text == "0.0"
    assert points(-0.123).text == "−12.3"
    assert points(None).text == "–"
    table = Table("T", "", ("Run", "Score"), (Row((Cell("a", "start"), Cell("9.0", tone="warning"))),))
    assert to_markdown(table).splitlines() == ["| Run | Score |", "| --- | ---: |", "| a (start) | **9.0** |"]
    assert to_text(table).splitlines()[2] == "a (start)    9.0"


def test_headings_of_numbers_take_as_many_lines_as_words() -> None:
    """The demo's last words are a table of eleven numbers, which broke on a terminal narrower than 157 columns."""
    table = Table("T", "", ("Run", "forget05 text", "n"), (Row((Cell("gd mix"), Cell("8.3"), Cell("6"))),))
    assert to_text(table).splitlines() == [
        "        forget05",
        "Run         text  n",
        "──────  ────────  ─",
        "gd mix       8.3  6",
    ]


class Links(HTMLParser):
    """Collects whatever a page would load or lead to."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [target or "" for name, target in attrs if name in ("src", "href", "srcset")]

    @classmethod
    def of(cls, page: str) -> list[str]:
        assert "@import" not in page
        assert "url(" not in page
        parser = cls()
        parser.feed(page)
        return parser.found
