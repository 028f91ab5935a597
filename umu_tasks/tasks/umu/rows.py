"""UMU-Bench rows: the only file that knows the raw column names and their misspellings.

One real row (shortened; the last five cells are text):

    ID          '001'
    image       {'bytes': b'\\x89PNG…', 'path': None}
    Biography   'Fionnuala McBride (1992-04-17, Sligo, Ireland). Height: 171 cm. …'
    MM_QA       {'question': {'0': 'What is the occupation of this person in the image?', '1': '…'},
                 'answer':   {'0': 'Sound Engineer', '1': '…'}}
    UM_QA       {'question': {'0': 'What is the occupation of Fionnuala McBride?', …}, 'answer': {'0': '…', …}}
    Classify    {'unimodal':   {'occupation': {'question': 'What is the occupation of Fionnuala McBride?',
                                               'options': {'A': 'Sound Engineer', 'B': 'Electrician', 'C': '…'},
                                               'answer': 'A. Sound Engineer'}, …},
                 'muitimodal': {'occupation': {'question': 'What is the occupation of the person …?', …}, …}}
    Cloze       {'unimodal':   {'height': {'question': 'Fionnuala McBride has a height of [Blank].', 'answer': '…'}},
                 'muitimodal': {'height': {'question': 'The person in the image has a height of [Blank].', …}}}
    Generation  like Cloze, one or two keys, whole sentences as answers
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from umu_tasks.benchmarks.errors import DataError, DataNotice, Report, raise_errors
from umu_tasks.benchmarks.images import StoredImage, is_empty_cell
from umu_tasks.benchmarks.instances import KnowledgeInstance, Modality, Profile, Question, Task, TrainingPair
from umu_tasks.benchmarks.row_reader import UNREADABLE, RowReader
from umu_tasks.benchmarks.splits import SPLITS, resolve_split

if TYPE_CHECKING:
    from umu_tasks.benchmarks.profiles import ProfileSet
    from umu_tasks.benchmarks.sources import Source

__all__ = ["SPLITS", "resolve_split"]  # with the names below, what a source asks of a benchmark's rows

BENCHMARK = "UMU-Bench"
HUB_ID = "linbojunzi/UMU-bench"
PAIRED = True
SUBSETS: dict[str, tuple[str, str]] = {}  # every split has files of its own
ID_COLUMN = "ID"
IMAGE_COLUMN = "image"
BIOGRAPHY_COLUMN = "Biography"
QA_COLUMNS: dict[Modality, str] = {"multimodal": "MM_QA", "unimodal": "UM_QA"}
TASK_COLUMNS: dict[Task, str] = {"cls": "Classify", "cloze": "Cloze", "gen": "Generation"}
COLUMNS = (ID_COLUMN, IMAGE_COLUMN, BIOGRAPHY_COLUMN, *QA_COLUMNS.values(), *TASK_COLUMNS.values())

HALF_NAMES: dict[Modality, tuple[str, ...]] = {
    "unimodal": ("unimodal",),
    "multimodal": ("multimodal", "muitimodal"),  # the published data spells it "muitimodal"
}
IMAGE_MARKER = "<image>"  # prompts mark the place of the portrait with it
MLLMU_COLUMNS = {"Classification_Task", "Generation_Task", "Mask_Task"}

# "B", "B.", "B. text", "B) text", "(B) text", "B: text"; never the first letter of a word.
_LETTER = re.compile(r"\s*\(?([A-Za-z])\s*(?:[.):]\s*(.*?))?\s*", re.DOTALL)


def missing_columns(columns: Iterable[str]) -> list[str]:
    """Return which of the benchmark's columns a file with these columns lacks."""
    found = set(columns)
    return [name for name in COLUMNS if name not in found]


def training_people(source: Source, split: str) -> ProfileSet:
    """Return the people of a split: every row holds its training pairs."""
    return source.load(split)


def merge_rows(profiles: list[Profile]) -> list[Profile]:
    """Return the people of a split: a row is a person."""
    return profiles


def explain_columns(columns: Iterable[str]) -> str | None:
    """Return what a file with these columns is when it is not UMU-Bench data, None if it resembles nothing known."""
    found = MLLMU_COLUMNS & set(columns)
    if not found:
        return None
    return f"This looks like MLLMU-Bench (column {min(found)}): use the mllmu tasks and MLLMU_DATA for it."


def parse_row(row: Mapping[str, object], *, file: str, report: Report = raise_errors) -> Profile:
    """Turn one raw row into a profile.

    Args:
        row: column name -> cell. The image cell: ``{"bytes", "path"}``, a Pillow image, or a function that reads it.
        file: where the row comes from, for messages and for relative image paths.
        report: receives each problem. If it returns, what could be parsed is kept and the rest is left out.

    Raises:
        DataError: by the default `report`, for whatever cannot be used.
    """
    profile_id = parse_id(row.get(ID_COLUMN), file=file, report=report)
    reader = _RowReader(row, file, profile_id, report)
    if is_empty_cell(row.get(IMAGE_COLUMN)):
        reader.problem(IMAGE_COLUMN, "missing image", "no image. Add one, or drop the row.")
    profile = Profile(
        profile_id=profile_id,
        biography=reader.plain(BIOGRAPHY_COLUMN),
        open_image=StoredImage(row.get(IMAGE_COLUMN), file=file, row_id=profile_id, column=IMAGE_COLUMN),
        pairs=tuple(pair for modality, column in QA_COLUMNS.items() for pair in reader.pairs(column, modality)),
        instances=tuple(one for task, column in TASK_COLUMNS.items() for one in reader.instances(column, task)),
    )
    reader.placeholders(profile)
    return profile


def parse_id(cell: object, *, file: str, report: Report = raise_errors) -> str:
    """Return the profile ID as text; a number becomes its digits (``17`` and ``17.0`` become ``"17"``)."""
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    profile_id = "" if cell is None else str(cell)
    if not profile_id.strip():
        report(
            DataError(
                "a row without ID. Give each person one, unique within the split.",
                file=file,
                column=ID_COLUMN,
                kind="missing ID",
            )
        )
    return profile_id


@dataclass(frozen=True)
class _RowReader(RowReader):
    """Reads the text cells of one row; sends each problem to `report` and goes on."""

    def placeholders(self, profile: Profile) -> None:
        """Report texts with an image marker: a model would look for an image that is not there, or for a second one."""
        for pair in profile.pairs:
            self._placeholder(QA_COLUMNS[pair.modality], f"question {pair.key}", pair.modality, [pair.question])
        for question in (one for instance in profile.instances for one in instance):
            texts = [question.text, *question.options.values()]
            self._placeholder(
                TASK_COLUMNS[question.task], f"{question.modality} {question.key}", question.modality, texts
            )

    def _placeholder(self, column: str, name: str, modality: Modality, texts: list[str]) -> None:
        if any(IMAGE_MARKER in text for text in texts):
            kind = f"image marker in a {modality} question"
            text = f"{name}: the text holds {IMAGE_MARKER!r}, which models read as an image. Take it out."
            self.problem(column, kind, text, DataError if modality == "unimodal" else DataNotice)

    def pairs(self, column: str, modality: Modality) -> list[TrainingPair]:
        """Return the training pairs of `MM_QA` or `UM_QA`."""
        table = self._cell(column)
        questions = self._mapping(column, table, "question")
        answers = self._mapping(column, table, "answer")
        if questions.keys() != answers.keys():
            self.problem(
                column,
                "question without answer or answer without question",
                f"questions and answers do not pair: {_difference(questions, answers, 'question', 'answer')}. "
                "Give every key both.",
            )
        return [
            TrainingPair(self.profile_id, key, modality, self.text(column, f"question {key}", question), answer)
            for key, question in questions.items()
            if key in answers
            for answer in [self.text(column, f"answer {key}", answers[key])]
        ]

    def instances(self, column: str, task: Task) -> list[KnowledgeInstance]:
        """Return the knowledge instances of one task, the unimodal half's order; paired by key, never by position."""
        halves = self._halves(column)
        if halves is None:
            return []
        unimodal, multimodal = halves
        if unimodal.keys() != multimodal.keys():
            self.problem(
                column,
                "missing partner question",
                f"questions without partner: {_difference(unimodal, multimodal, 'unimodal', 'multimodal')}. "
                "Add the missing questions, or drop the row.",
            )
        build = self._classification if task == "cls" else self._open_ended
        built = (build(column, task, key, unimodal[key], multimodal[key]) for key in unimodal if key in multimodal)
        return [instance for instance in built if instance is not None]

    def _halves(self, column: str) -> tuple[dict[str, object], dict[str, object]] | None:
        table = self._cell(column)
        if table is None:
            return None
        found: list[dict[str, object]] = []
        for modality, names in HALF_NAMES.items():
            present = [name for name in names if name in table]
            if len(present) != 1:
                state = f"both {' and '.join(map(repr, present))}" if present else f"no {modality!r} part"
                text = f"{state}; found keys {_keys(table)}. Add the missing questions, or drop the row."
                self.problem(column, "missing partner question", text)
                return None
            found.append(self._mapping(column, table, present[0]))
        return found[0], found[1]

    def _classification(
        self, column: str, task: Task, key: str, unimodal: object, multimodal: object
    ) -> KnowledgeInstance | None:
        """Build a classification instance. The gold is the unimodal gold *text*, whatever its multimodal letter."""
        texts, options = [], []
        for modality, entry in (("unimodal", unimodal), ("multimodal", multimodal)):
            texts.append(self._field(column, f"{modality} {key}", entry, "question"))
            options.append(self._options(column, f"{modality} {key}", entry))
        letter = self._letter(column, f"unimodal {key}", unimodal, options[0])
        if not all(options) or letter is None or None in texts:
            return None
        if letter not in options[1]:
            self.problem(
                column,
                "option set without the gold letter",
                f"multimodal {key}: no option {letter!r}, the unimodal answer's letter; found {_keys(options[1])}. "
                "Add the option, or drop the row.",
            )
            return None
        gold = options[0][letter]
        # Letters of the multimodal entries may be missing or wrong in the published data: noted, not needed.
        stored = self._letter(column, f"multimodal {key}", multimodal, options[1], error=DataNotice)
        return KnowledgeInstance(
            Question(
                self.profile_id, task, key, "unimodal", str(texts[0]), gold, options[0], letter, gold, letter
            ),
            Question(
                self.profile_id, task, key, "multimodal", str(texts[1]),
                gold=gold if gold in options[1].values() else options[1][letter],
                options=options[1],
                gold_letter=_gold_letter(gold, options[1], letter, stored),
                official_gold=options[1][letter],
                stored_letter=stored,
            ),
        )  # fmt: skip

    def _open_ended(
        self, column: str, task: Task, key: str, unimodal: object, multimodal: object
    ) -> KnowledgeInstance | None:
        """Build a cloze or generation instance; each modality has its own answer."""
        questions = []
        for modality, entry in (("unimodal", unimodal), ("multimodal", multimodal)):
            text = self._field(column, f"{modality} {key}", entry, "question")
            gold = self._field(column, f"{modality} {key}", entry, "answer")
            if text is None or gold is None:
                return None
            questions.append(Question(self.profile_id, task, key, _MODALITY[modality], text, gold, official_gold=gold))
        return KnowledgeInstance(*questions)

    def _options(self, column: str, name: str, entry: object) -> dict[str, str]:
        """Return the options as stored, unstripped; two may be the same text."""
        table = entry.get("options") if isinstance(entry, Mapping) else None
        if not isinstance(table, Mapping) or not table:
            text = f"{name}: no 'options'; expected letter -> text. Add them, or drop the row."
            self.problem(column, "missing field", text)
            return {}
        return {str(letter): self.text(column, f"{name}, option {letter}", text) for letter, text in table.items()}

    def _letter(
        self, column: str, name: str, entry: object, options: dict[str, str], error: type[DataError] = DataError
    ) -> str | None:
        """Return the letter an entry's answer names, or None after reporting that it names none of the options."""
        answer = entry.get("answer") if isinstance(entry, Mapping) else None
        if not options:
            return None
        letter, text = answer_letter(answer, options)
        if letter is None:
            self.problem(
                column,
                "answer that names no option",
                f"{name}: answer {answer!r} names none of the options {_keys(options)}. "
                "Expected a letter ('B') or letter and text ('B. text'). Correct the answer, or drop the row.",
                error,
            )
        elif text and text.strip() != options[letter].strip():
            disagreement = f"{name}: answer {answer!r} but option {letter} is {options[letter]!r}; the letter counts."
            self.problem(column, "answer text that differs from its option", disagreement, DataNotice)
        return letter

    def _field(self, column: str, name: str, entry: object, field: str) -> str | None:
        if not isinstance(entry, Mapping) or entry.get(field) is None:
            found = _keys(entry) if isinstance(entry, Mapping) else repr(entry)
            self.problem(column, "missing field", f"{name}: no {field!r}; found {found}. Add it, or drop the row.")
            return None
        return self.text(column, f"{name}, {field}", entry[field])

    def _cell(self, column: str) -> dict[str, object] | None:
        table = self.structure(column)
        if table is UNREADABLE:
            return None
        if not isinstance(table, Mapping):
            text = f"expected a dictionary, found {type(table).__name__}. Repair it, or drop the row."
            self.problem(column, "cell does not parse", text)
            return None
        return {str(key): value for key, value in table.items()}

    def _mapping(self, column: str, table: dict[str, object] | None, name: str) -> dict[str, object]:
        """Return ``table[name]`` with text keys; keys without value (as a struct column fills them in) are left out."""
        if table is None:
            return {}
        part = table.get(name)
        if not isinstance(part, Mapping):
            found = f"found keys {_keys(table)}" if part is None else f"found {type(part).__name__}"
            self.problem(column, "missing field", f"no dictionary {name!r}; {found}. Add it, or drop the row.")
            return {}
        return {str(key): value for key, value in part.items() if value is not None}


_MODALITY: dict[str, Modality] = {"unimodal": "unimodal", "multimodal": "multimodal"}


def answer_letter(answer: object, options: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Return the option letter an answer names and the text that follows it; (None, None) if it names no option.

    >>> answer_letter("B. Paris", {"A": "Lyon", "B": "Paris"}), answer_letter("b", {"A": "Lyon", "B": "Paris"})
    (('B', 'Paris'), ('B', None))
    >>> answer_letter("Botanist", {"A": "Lyon", "B": "Paris"}), answer_letter("Lyon", {"A": "Lyon", "B": "Paris"})
    ((None, None), ('A', None))
    """
    if not isinstance(answer, str):
        return None, None
    match = _LETTER.fullmatch(answer)
    letter = next((form for form in (match[1], match[1].upper()) if form in options), None) if match else None
    text = match[2] if match else None
    if letter is not None and (not text or text.strip() == options[letter].strip()):
        return letter, text
    # An option can itself read like a letter and a text ("A. Smith"): a whole answer equal to an option names it.
    same = [one for one, option in options.items() if option == answer]
    if len(same) == 1:
        return same[0], None
    return (letter, text) if letter is not None else (None, None)


def _gold_letter(gold: str, options: Mapping[str, str], unimodal_letter: str, stored_letter: str | None) -> str:
    """Return the letter of the option with the gold text; of several the one an answer names, else the first."""
    same = [letter for letter, text in options.items() if text == gold]
    preferred = [letter for letter in (unimodal_letter, stored_letter) if letter in same]
    return (preferred or same or [unimodal_letter])[0]


def _difference(left: Mapping[str, object], right: Mapping[str, object], left_name: str, right_name: str) -> str:
    parts = [
        f"{', '.join(map(repr, only))} only in the {name} part"
        for name, only in (
            (left_name, [key for key in left if key not in right]),
            (right_name, [key for key in right if key not in left]),
        )
        if only
    ]
    return "; ".join(parts)


def _keys(table: Mapping[str, object]) -> str:
    return ", ".join(map(repr, table)) or "none"
