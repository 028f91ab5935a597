"""Write a report: ``report.html`` (one file, pictures inside), ``report.md``, and the pictures as PNG files too."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from umu_tasks import __version__
from umu_tasks.report import tables
from umu_tasks.report.cells import Table, to_markdown
from umu_tasks.report.compare import Comparison
from umu_tasks.report.plots import THEMES, Plot, draw
from umu_tasks.report.runs import RunResult
from umu_tasks.report.story import Sentence, tell
from umu_tasks.report.training import training_facts
from umu_tasks.report.words import GLOSSARY

TITLES = {"umu": "UMU-Bench", "mllmu": "MLLMU-Bench"}


@dataclass(frozen=True, slots=True)
class Files:
    """What was written."""

    html: Path
    markdown: Path
    pictures: tuple[Path, ...]


def write_report(comparison: Comparison, out: Path) -> Files:
    """Write the report of a comparison into the folder `out`, which is made if need be; older files are replaced."""
    out.mkdir(parents=True, exist_ok=True)
    plots = draw(comparison)
    pictures = []
    for plot in plots:
        picture = out / f"{plot.name}.png"
        picture.write_bytes(plot.png["light"])
        pictures.append(picture)
    content = _content(comparison, plots)
    files = Files(out / "report.html", out / "report.md", tuple(pictures))
    files.html.write_text(_render("report.html.jinja", content), encoding="utf-8")
    files.markdown.write_text(_render("report.md.jinja", content), encoding="utf-8")
    return files


def _content(comparison: Comparison, plots: list[Plot]) -> dict[str, Any]:
    return {
        "benchmark": TITLES.get(comparison.baseline.benchmark, comparison.baseline.benchmark),
        "version": __version__,
        "comparison": comparison,
        "sentences": _by_run(tell(comparison)),
        "notices": [*(("", notice) for notice in comparison.notices), *_run_notices(comparison)],
        "summaries": tables.summary(comparison),
        "plots": plots,
        "scores": [tables.scores(comparison, split) for split in comparison.splits],
        "changes": _present([tables.changes(comparison, split) for split in comparison.splits]),
        "outputs": tables.outputs(comparison),
        "origins": [(run, _facts(run)) for run in comparison.runs],
        "glossary": GLOSSARY,
    }


def _present(maybe: list[Table | None]) -> list[Table]:
    return [table for table in maybe if table is not None]


def _by_run(sentences: list[Sentence]) -> list[tuple[str, list[Sentence]]]:
    names = dict.fromkeys(sentence.run for sentence in sentences)
    return [(name, [sentence for sentence in sentences if sentence.run == name]) for name in names]


def _run_notices(comparison: Comparison) -> list[tuple[str, str]]:
    return [(run.name, notice) for run in comparison.runs for notice in run.notices]


def _facts(run: RunResult) -> list[tuple[str, str]]:
    """Return what made a run, as its results files say."""
    facts = [("Folder", str(run.folder))]
    for origin in run.origins:
        versions = ", ".join(sorted(set(origin.task_versions.values()))) or "not recorded"
        settings = ", ".join(f"{name} {one}" for name, one in origin.settings.items()) or "not recorded"
        facts += [
            ("Results file", origin.file.name),
            ("Model", f"{origin.model}, {origin.model_args or 'no model_args recorded'}"),
            ("Date", origin.date),
            ("Tasks", f"{len(origin.task_versions)} tasks, version {versions}"),
            ("lmms-eval", f"{origin.lmms_eval_version}, git {origin.git_hash} (as it found itself installed)"),
            ("Settings", settings + (f", limit {origin.limit}" if origin.limit else "")),
        ]
        trained = training_facts(origin)
        facts += [("Training", f"{trained} (record beside the weights)")] if trained else []
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
    environment.filters["capitalize_first"] = lambda text: text[:1].upper() + text[1:]  # jinja2's lowers the rest
    return environment.get_template(template).render(**content, themes=THEMES)


def _data_uri(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode('ascii')}"
