"""`umu data check`: everything that is wrong or odd in a data source, found in one pass that stops at nothing."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from tqdm import tqdm

from umu_tasks.benchmarks.errors import DataError, DataNotice
from umu_tasks.benchmarks.instances import MODALITIES, TASK_NAMES, TASKS, KnowledgeInstance, Modality, Profile, Question
from umu_tasks.benchmarks.sources import (
    Part,
    Source,
    declared_rows_differ,
    open_source,
    require_columns,
    set_problems,
)
from umu_tasks.benchmarks.splits import SPLITS
from umu_tasks.scoring.answers import ASSISTANT_TAG
from umu_tasks.scoring.texts import tells_answer

Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class Finding:
    """One problem; `kind` is shared by problems of one sort."""

    severity: Severity
    kind: str
    message: str
    split: str | None = None
    file: str | None = None
    row_id: str | None = None
    column: str | None = None


@dataclass
class SplitCounts:
    """What a split holds: numbers of people, training pairs by modality, instances by task."""

    people: int = 0
    pairs: dict[str, int] = field(default_factory=lambda: dict.fromkeys(MODALITIES, 0))
    instances: dict[str, int] = field(default_factory=lambda: dict.fromkeys(TASKS, 0))


@dataclass
class CheckReport:
    """The outcome of a check."""

    source: str
    kind: str
    splits: dict[str, SplitCounts] = field(default_factory=dict)
    known_splits: tuple[str, ...] = SPLITS
    findings: list[Finding] = field(default_factory=list)

    def of(self, severity: Severity) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity == severity]

    @property
    def ok(self) -> bool:
        return not self.of("error")

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"errors": len(self.of("error")), "warnings": len(self.of("warning")), "ok": self.ok}


def check_source(
    spec: str | None = None, *, benchmark: str = "umu", split: str | None = None, progress: bool = False
) -> CheckReport:
    """Check a data source, or one split of it; collects every problem instead of stopping at the first.

    Args:
        spec: as for `open_source`.
        split: any name of the one split to check; None checks all that are present.
        progress: show a bar on the terminal.
    """
    try:
        source = open_source(spec, benchmark=benchmark)
        names = source.splits() if split is None else (source.resolve(split),)
    except DataError as error:
        return CheckReport(spec or benchmark, "unknown", findings=[_finding(error, split)])
    report = CheckReport(source.spec, source.kind, known_splits=source.rows.SPLITS)
    checks = [_SplitCheck(source, name, report, progress) for name in names]
    complete = {check.split: tuple(check.ids) for check in checks if check.run()}
    _check_sets(source, names, complete, report)
    return report


def _check_sets(
    source: Source, names: Iterable[str], complete: dict[str, tuple[str, ...]], report: CheckReport
) -> None:
    """Compare forget, retain and full sets. Splits that could not be read whole are left out: they are reported."""

    def ids_of(name: str) -> tuple[str, ...] | None:
        if name in complete or name in report.splits:
            return complete.get(name)
        try:
            return source.ids(name)
        except DataError as error:
            report.findings.append(_finding(error, name))
            return None

    forget_splits = {one for name in names for one in source.splits_to_compare(name)}
    for forget in sorted(forget_splits):
        report.findings += [
            Finding("error", "forget, retain and full sets do not fit", f"{source.spec}: {problem}", forget)
            for problem in set_problems(forget, ids_of)
        ]


def _finding(error: DataError, split: str | None) -> Finding:
    severity: Severity = "warning" if isinstance(error, DataNotice) else "error"
    return Finding(severity, error.kind, str(error), split, error.file, error.row_id, error.column)


class _SplitCheck:
    """The check of one split."""

    def __init__(self, source: Source, split: str, report: CheckReport, progress: bool) -> None:
        self.source = source
        self.split = split
        self.report = report
        self.progress = progress
        self.ids: dict[str, None] = {}  # in order
        self.counts = report.splits[split] = SplitCounts()
        self.portraits: dict[bytes, str] = {}  # digest of the pixels -> ID of the first person who has them
        self.without_pairs: dict[Modality, list[str]] = {}

    def run(self) -> bool:
        """Check the split; return whether all of its rows could be read."""
        try:
            read = [self._part(part) for part in self.source.parts(self.split)]
            complete = all(read)
        except DataError as error:
            self._add(error)
            complete = False
        if complete:
            self._check_sizes()
        return complete

    def _part(self, part: Part) -> bool:
        try:
            shard = part.open()
            require_columns(self.source.rows, shard)
        except DataError as error:
            self._add(error)
            return False
        rows = tqdm(
            shard.rows(self.source.rows.IMAGE_COLUMN),
            total=len(shard), desc=self.split, unit="person", disable=None if self.progress else True,
        )  # fmt: skip
        try:
            for row in rows:
                problems: list[DataError] = []
                profile = self.source.rows.parse_row(row, file=part.file, report=problems.append)
                problems += self._profile(profile, part.file, {problem.column for problem in problems})
                for problem in problems:
                    self._add(problem)
        except DataError as error:  # the row itself could not be read, nor can those behind it
            self._add(error)
            return False
        return True

    def _profile(self, profile: Profile, file: str, faulty_columns: set[str | None]) -> Iterator[DataError]:
        self.counts.people += 1
        for pair in profile.pairs:
            self.counts.pairs[pair.modality] += 1
        for modality, column in self.source.rows.QA_COLUMNS.items():
            if column not in faulty_columns and not any(pair.modality == modality for pair in profile.pairs):
                self.without_pairs.setdefault(modality, []).append(profile.profile_id)
        for task, _ in {(question.task, question.key) for question in profile.every_question()}:
            self.counts.instances[task] += 1
        if profile.profile_id in self.ids:
            text = "this ID comes up again in the split. Remove the copy, or give it its own ID."
            yield DataError(text, file=file, row_id=profile.profile_id, kind="duplicate ID")
        self.ids[profile.profile_id] = None
        if self.source.rows.IMAGE_COLUMN not in faulty_columns:
            yield from self._images(profile, file)
        yield from self._cut_golds(profile, file)
        yield from self._told_answers(profile, file)
        for instance in profile.instances if self.source.rows.PAIRED else ():
            yield from _oddities(instance, file)

    def _images(self, profile: Profile, file: str) -> Iterator[DataError]:
        """Open each image; the same pixels must not stand for two people."""
        where = {"file": file, "row_id": profile.profile_id, "column": self.source.rows.IMAGE_COLUMN}
        try:
            for open_image in profile.images():
                image = open_image()
                pixels = hashlib.sha256(f"{image.size}".encode() + image.tobytes()).digest()
                first = self.portraits.setdefault(pixels, profile.profile_id)
                if first != profile.profile_id:
                    text = f"the same portrait as ID {first}: its questions have two answers. Give each their own."
                    yield DataNotice(text, kind="same portrait for two people", **where)
        except DataError as error:
            yield error

    def _cut_golds(self, profile: Profile, file: str) -> Iterator[DataNotice]:
        """Yield the answers that hold ``ASSISTANT:``. Outputs are cut there, so no output can be such an answer."""
        rows = self.source.rows
        answers = [(rows.QA_COLUMNS.get(p.modality), f"{p.modality} pair {p.key}", p.answer) for p in profile.pairs]
        for question in profile.every_question():
            answers.append((None, f"{TASK_NAMES[question.task]} {question.key}, {question.modality}", question.gold))
        for column, name, answer in answers:
            if ASSISTANT_TAG in answer:
                text = f"{name}: the answer {answer!r} holds {ASSISTANT_TAG!r}, where outputs are cut. Take it out."
                kind = "answers that no output can match"
                yield DataNotice(text, file=file, row_id=profile.profile_id, column=column, kind=kind)

    def _told_answers(self, profile: Profile, file: str) -> Iterator[DataNotice]:
        """Yield the questions that say their answer: whoever reads them is right, having forgotten all of it."""
        for question in profile.every_question():
            if question.task != "gen" and tells_answer(question.text, question.gold, question.options.values()):
                name = f"{TASK_NAMES[question.task]} {question.key}, {question.modality}"
                text = f"{name}: {question.text!r} holds the answer {question.gold!r}. Word it in another way."
                kind = "questions that hold their own answer"
                yield DataNotice(text, file=file, row_id=profile.profile_id, kind=kind)

    def _check_sizes(self) -> None:
        if not self.counts.people:
            self._add(DataError("no rows.", file=f"{self.source.spec}, split {self.split}", kind="empty split"))
            return
        for task, count in self.counts.instances.items():
            if not count and (self.source.rows.PAIRED or any(self.counts.instances.values())):
                self._add(
                    DataNotice(
                        f"no {task} instances.", file=f"{self.source.spec}, split {self.split}", kind="no instances"
                    )
                )
        for modality, ids in self.without_pairs.items():
            self._add(self._no_pairs(modality, ids))
        declared = self.source.declared_rows(self.split)
        if declared is not None and declared != self.counts.people:
            text = declared_rows_differ(self.source.spec, self.split, declared, self.counts.people)
            self._add(DataNotice(text, kind="row count differs from the dataset card"))

    def _no_pairs(self, modality: Modality, ids: list[str]) -> DataNotice:
        """Evaluation does without training pairs; training takes what is there, which may be nothing."""
        named = ", ".join(ids[:10]) + (", …" if len(ids) > 10 else "")
        whose = "all" if len(ids) == self.counts.people else f"{len(ids)} of {self.counts.people}"
        return DataNotice(
            f"no {modality} training pairs for {whose} people (ID {named}): training has nothing to learn of them in "
            "this modality. Add some, or train with the other modality only.",
            file=f"{self.source.spec}, split {self.split}",
            column=self.source.rows.QA_COLUMNS[modality],
            kind="no training pairs",
        )

    def _add(self, error: DataError) -> None:
        self.report.findings.append(_finding(error, self.split))


def _oddities(instance: KnowledgeInstance, file: str) -> Iterator[DataNotice]:
    """Yield what can be scored but deserves a look."""
    task, key = instance.unimodal.task, instance.unimodal.key

    def notice(kind: str, text: str) -> DataNotice:
        where = f"{TASK_NAMES[task]} {key}"
        return DataNotice(f"{where}: {text}", file=file, row_id=instance.unimodal.profile_id, kind=kind)

    if task == "cls":
        yield from (notice(*one) for one in _option_oddities(instance.unimodal, instance.multimodal))
    if task == "cloze":
        yield from (notice(*one) for question in instance for one in _full_stop(question))


def _option_oddities(uni: Question, mul: Question) -> Iterator[tuple[str, str]]:
    if uni.stored_letter != mul.stored_letter:
        stored = f"{mul.stored_letter!r}" if mul.stored_letter else "none"
        yield "letters differ between modalities", f"unimodal letter {uni.stored_letter!r}, multimodal {stored}"
    if sorted(uni.options.values()) != sorted(mul.options.values()):
        only = [sorted(set(a.options.values()) - set(b.options.values())) for a, b in ((uni, mul), (mul, uni))]
        yield "option sets differ between modalities", f"only unimodal {only[0]}, only multimodal {only[1]}"
    if mul.gold != mul.official_gold:
        text = f"multimodal gold {mul.gold!r}, under the official rule {mul.official_gold!r}"
        yield "golds differ between the default and the official rule", text
    for question in (uni, mul):
        twice = [text for text, count in Counter(question.options.values()).items() if count > 1]
        if twice:
            yield "options with the same text", f"{question.modality}: {twice}"
        letters = Counter(letter.casefold() for letter in question.options)
        alike = [letter for letter in question.options if letters[letter.casefold()] > 1]
        if alike:  # the strict rule takes a lone letter in either case
            yield "option letters that differ by case only", f"{question.modality}: {', '.join(alike)}"


def _full_stop(question: Question) -> Iterator[tuple[str, str]]:
    kept = question.gold.split(".")[0]
    if kept == question.gold:
        return
    text = f"{question.modality}: gold {question.gold!r} counts as {kept!r} under the default and official rules"
    yield "cloze golds with a full stop", text
    if not kept.strip():
        yield "cloze golds that any output matches", text


def render(report: CheckReport, *, examples: int = 3) -> str:
    """Return the report as text: a table of what was found, then problems by kind with the first few of each."""
    lines = [f"{report.source} ({report.kind})", "", *_table(report)] if report.splits else []
    absent = [split for split in report.known_splits if split not in report.splits]
    if report.splits and absent:
        lines.append(f"not there or not checked: {', '.join(absent)}")
    severities: tuple[Severity, ...] = ("error", "warning")
    for severity in severities:
        findings = report.of(severity)
        for kind, count in Counter(finding.kind for finding in findings).items():
            of_kind = [finding for finding in findings if finding.kind == kind]
            by_split = Counter(finding.split for finding in of_kind)
            where = ", ".join(f"{split} {number}" for split, number in by_split.items() if split)
            lines += ["", f"{severity}: {kind}: {count}" + (f" ({where})" if where else "")]
            lines += [f"  {finding.message.removeprefix(report.source + '/')}" for finding in of_kind[:examples]]
            if count > examples:
                lines.append(f"  … and {count - examples} more (--json lists all)")
    counted = ", ".join(_counted(len(report.of(severity)), severity) for severity in severities)
    return "\n".join([*lines, "", counted]).lstrip("\n")


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _table(report: CheckReport) -> list[str]:
    head = f"{'split':<10}{'people':>8}{'QA mul':>8}{'QA uni':>8}{'cls':>8}{'cloze':>8}{'gen':>8}"
    rows = []
    for split, counts in report.splits.items():
        numbers = [counts.people, counts.pairs["multimodal"], counts.pairs["unimodal"], *counts.instances.values()]
        rows.append(f"{split:<10}" + "".join(f"{number:>8}" for number in numbers))
    return [head, *rows]
