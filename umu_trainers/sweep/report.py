"""What a sweep ends in: ``sweep.md`` and ``sweep.html``, all trials as JSON and CSV, a plot, ready-to-run configs."""

from __future__ import annotations

import base64
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import yaml

from umu_tasks.benchmarks.errors import DataError
from umu_tasks.report.cells import Cell, Row, Table, number, to_markdown, to_text
from umu_tasks.steps import clock
from umu_trainers.sweep import space
from umu_trainers.sweep.choice import Recommendation, Record, pareto_front, recommend, rule_text
from umu_trainers.sweep.config import START, SweepConfig
from umu_trainers.sweep.locks import locked
from umu_trainers.sweep.objectives import NAMES
from umu_trainers.sweep.picture import draw
from umu_trainers.sweep.records import as_data, start_of, write_csv, write_json, write_whole
from umu_trainers.sweep.trial import RESULTS, RESULTS_OF_A_SETTING

COMPARISON = "report"
"""Folder of the `umu report` on the start model and the recommended trials."""
_PICTURE = "tradeoff"
_ARROWS = {"forget": "forget ↓", "utility": "utility ↑", "gap": "gap ↓"}
_BESIDE = f"Start model and recommended trials side by side: [{COMPARISON}/report.html]({COMPARISON}/report.html)."
_WARNING = (
    "The recommended settings were chosen by their scores on these very questions, out of several tries. The intervals "
    "are those of one trial and do not know about the choice; expect a little less from a run with another seed."
)


@dataclass(frozen=True)
class Report:
    """What was written.

    Attributes:
        configs: method -> its ``recommended-METHOD.yaml``.
        comparison: page of the `umu report` on start and recommended trials; None where their results are elsewhere.
    """

    markdown: Path
    html: Path
    summary: str
    configs: dict[str, Path]
    comparison: Path | None


def write_report(config: SweepConfig, records: Sequence[Record]) -> Report:
    """Write a sweep's report into its output folder; older files are replaced."""
    out = config.output_dir
    chosen = [recommend(method, records, start_of(records), config.keep) for method in config.methods]
    with locked(out):  # several processes may finish at once
        write_json(out / "sweep.json", as_data(config, records, chosen))
        write_csv(out / "sweep.csv", records, chosen)
        picture = draw(records, chosen)
        (out / f"{_PICTURE}.png").write_bytes(picture.png["light"])
        (out / f"{_PICTURE}.svg").write_bytes(picture.svg)
        configs = _write_configs(config, chosen)
        comparison = _compare(config, records, chosen)
        text = markdown(config, records, chosen, comparison is not None)
        write_whole(out / "sweep.md", text)
        write_whole(out / "sweep.html", _page(config, text, picture.png["light"]))
    summary = to_text(recommended_table(chosen))
    return Report(out / "sweep.md", out / "sweep.html", summary, configs, comparison)


# ---- the text ---------------------------------------------------------------------------------------------------


def markdown(
    config: SweepConfig, records: Sequence[Record], chosen: Sequence[Recommendation], has_comparison: bool
) -> str:
    """Return the report's text."""
    front = pareto_front(records)
    return "\n\n".join(
        [
            f"# Sweep {config.name}",
            _lead(config, records),
            *_cautions(config, records),
            "## Recommended settings",
            rule_text(config.keep, start_of(records)),
            to_markdown(recommended_table(chosen)),
            "\n".join(_recommended_lines(chosen)),
            _WARNING,
            *([_BESIDE] if has_comparison else []),
            "## What was forgotten against what was kept",
            f"![Utility over forget score, one point a trial]({_PICTURE}.png)",
            "Rings mark the Pareto front of all three objectives: no trial is at least as good in each and better in "
            "one. Lines are the recommended trials' 95 % intervals. The star is the ideal.",
            "## Pareto front",
            to_markdown(trials_table(front, front)) if front else "No trial has valid scores.",
            "## All trials",
            to_markdown(trials_table(records, front)),
            "## What the columns are",
            "\n".join(f"- **{name}**: {one.described()}" for name, one in config.objectives.items()),
            "Scores are percent (gap: percentage points), with 95 % intervals by bootstrap over people.",
        ]
    ) + "\n"  # fmt: skip


def _lead(config: SweepConfig, records: Sequence[Record]) -> str:
    own = [one for one in records if one.method != START]
    ended = {kind: sum(one.kind == kind for one in own) for kind in RESULTS_OF_A_SETTING}
    counts = ", ".join(f"{count} {kind}" for kind, count in ended.items() if count) or "none finished"
    length = config.shared
    steps = (
        f"{length['max_steps']} steps" if length.get("max_steps", -1) > 0 else f"{length['num_train_epochs']} epochs"
    )
    return (
        f"{len(config.methods)} methods ({', '.join(config.methods)}), {config.trials} trials each of at most {steps}; "
        f"sampler {config.sampler}, seed {config.seed}; scored on {', '.join(config.scoring.tasks)}. "
        f"Trials: {counts}, in {clock(sum(one.seconds for one in own))} minutes of computing."
    )


def _cautions(config: SweepConfig, records: Sequence[Record]) -> Iterator[str]:
    if config.scoring.limit is not None:
        yield f"> **Only {config.scoring.limit} questions a task were asked: these numbers mean nothing.**"
    expected = config.trials * len(config.methods)
    done = sum(one.kind in RESULTS_OF_A_SETTING for one in records if one.method != START)
    if done < expected:
        yield f"> **Not finished: {done} of {expected} trials.** Run the same `umu sweep` again to go on."
    failed = [one for one in records if one.kind in ("invalid", "stopped")]
    if failed:
        yield (
            f"> {len(failed)} trials gave models whose answers are no evidence of forgetting (empty or failed outputs, "
            "diverged training). They have no scores here and take no part in front and recommendation."
        )


def recommended_table(chosen: Sequence[Recommendation]) -> Table:
    """Return the recommended trials' scores with intervals."""
    rows = []
    for one in chosen:
        if one.record is None:
            rows.append(Row((Cell(one.method), Cell("none", tone="muted"), *[Cell("–", tone="muted")] * len(NAMES))))
        else:
            rows.append(Row((Cell(one.method), Cell(one.record.name), *_scores(one.record))))
    return Table("Recommended", "", ("method", "trial", *_ARROWS.values()), tuple(rows), labels=2)


def _recommended_lines(chosen: Sequence[Recommendation]) -> Iterator[str]:
    for one in chosen:
        if one.record is None:
            yield f"- **{one.method}**: no recommendation: {one.why}."
        else:
            settings, file = space.shown(one.record.values), config_name(one.method)
            yield f"- **{one.method}**: `{settings}` ({one.why}). `{file}` runs it."


def trials_table(records: Sequence[Record], front: Sequence[Record]) -> Table:
    """Return all trials with their settings and scores."""
    names = {one.name for one in front}
    rows = tuple(
        Row((
            Cell(one.name),
            Cell(space.shown(one.values)),
            Cell(one.kind + (", front" if one.name in names else ""), note=one.reason[:200]),
            *_scores(one),
        ))
        for one in records
    )  # fmt: skip
    return Table("Trials", "", ("trial", "settings", "ended", *_ARROWS.values()), rows, labels=3)


def _scores(record: Record) -> Iterator[Cell]:
    for name in NAMES:
        if name not in record.scores:
            yield Cell("–", tone="muted")
            continue
        span = record.intervals.get(name)
        note = f"{number(span[0])} to {number(span[1])}" if span else ""
        yield Cell(number(record.scores[name]), note)


def _page(config: SweepConfig, text: str, png: bytes) -> str:
    """Return the text as one HTML file with the picture inside."""
    import markdown as renderer

    style = (Path(__file__).parents[2] / "umu_tasks" / "report" / "templates" / "style.css").read_text("utf-8")
    picture = f"data:image/png;base64,{base64.b64encode(png).decode('ascii')}"
    convert = renderer.Markdown(extensions=["tables"])
    convert.preprocessors.deregister("html_block")  # a log's last line may hold <…>, which is text here
    convert.inlinePatterns.deregister("html")
    body = convert.convert(text).replace(f'src="{_PICTURE}.png"', f'src="{picture}"')
    body = body.replace("<table>", '<div class="scroll" tabindex="0"><table>').replace("</table>", "</table></div>")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>Sweep {escape(config.name)}</title>\n<style>\n{style}\nimg {{ max-width: 100%; }}\n</style>\n"
        f"</head>\n<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


# ---- configs, comparison ----------------------------------------------------------------------------------------


def config_name(method: str) -> str:
    return f"recommended-{method}.yaml"


def _write_configs(config: SweepConfig, chosen: Sequence[Recommendation]) -> dict[str, Path]:
    """Write a config for `unlearn.py` a method; one of an earlier report that is no longer recommended is removed."""
    written = {}
    for one in chosen:
        file = config.output_dir / config_name(one.method)
        if one.record is None:
            file.unlink(missing_ok=True)
            continue
        settings = space.apply(config.settings[one.method], one.record.values)
        settings["output_dir"] = str(config.output_dir / f"recommended-{one.method}")
        head = (
            f"# Recommended by sweep {config.name}: trial {one.record.name}, "
            + ", ".join(f"{name} {number(one.record.scores[name])}" for name in NAMES)
            + " (percent).\n#   accelerate launch umu_trainers/unlearn.py --config "
            + f"{shlex.quote(str(file))}\n"
        )
        write_whole(file, head + yaml.safe_dump(settings, sort_keys=False))
        written[one.method] = file
    return written


def _compare(config: SweepConfig, records: Sequence[Record], chosen: Sequence[Recommendation]) -> Path | None:
    """Write the `umu report` on the start model and the recommended trials whose results lie on this machine."""
    from umu_tasks.report.compare import compare
    from umu_tasks.report.read import read_runs
    from umu_tasks.report.write import write_report as write_comparison

    shown = [start_of(records), *(one.record for one in chosen)]
    folders = [(one.name, config.output_dir / "trials" / one.name / RESULTS) for one in shown if one is not None]
    there = [f"{name}={folder}" for name, folder in folders if any(folder.rglob("*_results.json"))]
    if len(there) < 2 or not there[0].startswith(f"{START}="):
        return None
    try:
        runs = read_runs(there, str(config.shared.get("benchmark", "umu")))
        return write_comparison(compare(runs, START), config.output_dir / COMPARISON).html
    except DataError as problem:  # the sweep's own report does not depend on it
        print(f"no report side by side: {problem}", file=sys.stderr)
        return None
