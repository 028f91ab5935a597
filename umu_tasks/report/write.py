"""Write a report: ``report.html`` (one file, pictures inside), ``report.md``, ``tables.tex``, and all of it as data."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from umu_tasks import __version__
from umu_tasks.benchmarks.sources import row_parser
from umu_tasks.report import details, factuality, general, tables
from umu_tasks.report.canvas import THEMES, Plot
from umu_tasks.report.cautions import cautions, collapsed
from umu_tasks.report.cells import Table, to_markdown
from umu_tasks.report.compare import Comparison
from umu_tasks.report.data import write_data
from umu_tasks.report.examples import RULE, examples
from umu_tasks.report.latex import to_latex
from umu_tasks.report.plots import draw
from umu_tasks.report.provenance import lmms_eval_version, provenance_facts
from umu_tasks.report.published import MISSING
from umu_tasks.report.runs import RunResult
from umu_tasks.report.story import Sentence, tell
from umu_tasks.report.training import read_curves, training_facts
from umu_tasks.report.words import glossary


@dataclass(frozen=True, slots=True)
class Files:
    """What was written.

    Attributes:
        latex: None where no forget set was scored.
        pictures: a PNG and an SVG file each.
        data: CSV files.
    """

    html: Path
    markdown: Path
    latex: Path | None
    pictures: tuple[Path, ...]
    data: tuple[Path, ...]


def write_report(
    comparison: Comparison, out: Path, portraits: str | None = None, training: Mapping[str, Path] | None = None
) -> Files:
    """Write the report of a comparison into the folder `out`, which is made if need be; older files are replaced.

    Args:
        portraits: data source to take the examples' portraits from; None: the one that the runs record.
        training: run name -> output folder of its training; of other runs, where their weights lie.

    Raises:
        DataError: a folder of `training` has no log.
    """
    known = training or {}
    curves = {run.name: log for run in comparison.runs if (log := read_curves(run, known.get(run.name)))}
    out.mkdir(parents=True, exist_ok=True)
    plots = draw(comparison, curves)
    pictures = tuple(file for plot in plots for file in _write_pictures(plot, out))
    data = write_data(comparison, plots, out)
    content = _content(comparison, plots, portraits) | {
        "origins": [(run, _facts(run, known.get(run.name))) for run in comparison.runs],
    }
    files = Files(out / "report.html", out / "report.md", _write_latex(comparison, out), pictures, tuple(data))
    files.html.write_text(_render("report.html.jinja", content), encoding="utf-8")
    files.markdown.write_text(_render("report.md.jinja", content), encoding="utf-8")
    return files


def _write_pictures(plot: Plot, out: Path) -> tuple[Path, Path]:
    png, svg = out / f"{plot.name}.png", out / f"{plot.name}.svg"
    png.write_bytes(plot.picture.png["light"])
    svg.write_bytes(plot.picture.svg)
    return png, svg


def _write_latex(comparison: Comparison, out: Path) -> Path | None:
    latex, file = to_latex(comparison), out / "tables.tex"
    if not latex:
        return None
    file.write_text(latex, encoding="utf-8")
    return file


def _content(comparison: Comparison, plots: list[Plot], portraits: str | None) -> dict[str, Any]:
    return {
        "benchmark": row_parser(comparison.baseline.benchmark).BENCHMARK,
        "version": __version__,
        "comparison": comparison,
        "collapsed": collapsed(comparison),
        "cautions": cautions(comparison),
        "sentences": _by_run(tell(comparison)),
        "notices": [(run.name, notice) for run in comparison.runs for notice in run.notices],
        "summaries": tables.summary(comparison),
        "plots": plots,
        "scores": [tables.scores(comparison, split) for split in comparison.splits],
        "changes": _present([tables.changes(comparison, split) for split in comparison.splits]),
        "rules": details.rules(comparison),
        "fields": _present([details.fields(comparison, split) for split in comparison.splits]),
        "examples": examples(comparison, portraits),
        "examples_rule": RULE,
        "outputs": tables.outputs(comparison),
        "general": general.table(comparison),
        "factuality": factuality.table(comparison),
        "glossary": glossary(comparison.baseline.benchmark),
    }


def _present(maybe: list[Table | None]) -> list[Table]:
    return [table for table in maybe if table is not None]


def _by_run(sentences: list[Sentence]) -> list[tuple[str, list[Sentence]]]:
    names = dict.fromkeys(sentence.run for sentence in sentences)
    return [(name, [sentence for sentence in sentences if sentence.run == name]) for name in names]


def _facts(run: RunResult, training: Path | None) -> list[tuple[str, str]]:
    """Return what made a run, as its results files say."""
    if run.is_published:
        return [("File", str(run.folder)), ("Made by", "the published evaluator"), ("Model", MISSING)]
    facts = [("Folder", str(folder)) for folder in (run.folder, *run.more_folders)]
    for origin in run.origins:
        versions = ", ".join(sorted(set(origin.task_versions.values()))) or "not recorded"
        settings = ", ".join(f"{name} {one}" for name, one in origin.settings.items()) or "not recorded"
        facts += [
            ("Results file", origin.file.name),
            ("Model", f"{origin.model}, {origin.model_args or 'no model_args recorded'}"),
            ("Date", origin.date),
            ("Tasks", f"{len(origin.task_versions)} tasks, version {versions}"),
            ("lmms-eval", lmms_eval_version(origin)),
            ("Settings", settings + (f", limit {origin.limit}" if origin.limit else "")),
        ]
        facts += provenance_facts(origin.provenance)
        trained, where = training_facts(origin, training), "in --training" if training else "beside the weights"
        facts += [("Training", f"{trained} (record {where})")] if trained else []
    others = {score.origin.file.name: score.origin for score in run.general.values()}
    facts += [("Other tasks", f"{name}: {one.model}, {one.model_args}") for name, one in others.items()]
    judges = dict.fromkeys(factuality.judge_of(numbers) for numbers in run.factuality.values())
    facts += [("Judge", judge) for judge in judges if judge]
    return facts


def _render(template: str, content: dict[str, Any]) -> str:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("umu_tasks.report"),
        autoescape=jinja2.select_autoescape(("html.jinja",)),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["markdown_table"] = to_markdown
    environment.filters["data_uri"] = _data_uri
    environment.filters["oneline"] = lambda text: " ".join(text.replace("`", "'").split())
    environment.filters["capitalize_first"] = lambda text: text[:1].upper() + text[1:]  # jinja2's lowers the rest
    return environment.get_template(template).render(**content, themes=THEMES)


def _data_uri(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode('ascii')}"
