"""MLLMU-Bench rows: the only file that knows the raw column names.

One row of `forget_5` (shortened; the task columns are nested structs, in some copies their JSON text):

    ID                   '017'                      (a number in some copies: 17 is the same person)
    image                {'bytes': b'\\x89PNG…', 'path': None}       in Test_Set: images, a list of such cells
    Directory            '…/017.png'
    biography            'Ada Crane was born in Sapporo …'
    question, answer     'What can you tell about the person in the image?', 'Ada Crane is a pilot …'
    Classification_Task  {'Image_Textual_Questions': [{'Question': 'What is this person\\'s occupation?',
                                                       'Options': {'A': 'Pilot', 'B': 'Baker', 'C': '…', 'D': '…'},
                                                       'Correct_Answer': 'A'}, …],
                          'Pure_Text_Questions': [{'Question': 'What is the occupation of Ada Crane?', …}, …]}
    Generation_Task      [{'Type': 'Image_Textual', 'Question': '…', 'Ground_Truth': '…'}, {'Type': 'Pure_Text', …}, …]
    Mask_Task            [{'Type': 'Pure_Text', 'Question': 'Ada Crane lives in __.', 'Ground_Truth': 'Sapporo'}, …]

Training data has other columns: `ft_Data` and the separate `baseline_train_split` hold `image` and `metadata`, the JSON
text of [{'Question': '…', 'Answer': '…'}, …], or `question` and `answer`, one row a pair.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from umu_tasks.benchmarks.errors import DataError, DataNotice, Report, raise_errors
from umu_tasks.benchmarks.images import is_empty_cell
from umu_tasks.benchmarks.instances import MODALITIES, KnowledgeInstance, Modality, Question, Task, TrainingPair
from umu_tasks.benchmarks.profiles import ProfileSet
from umu_tasks.benchmarks.row_reader import REPAIR, UNREADABLE, RowReader
from umu_tasks.tasks.mllmu.fields import Entry, field_of, pair_keys
from umu_tasks.tasks.mllmu.profiles import MllmuProfile, Portraits
from umu_tasks.tasks.mllmu.splits import FINE_TUNING, SPLITS, SUBSETS, resolve_split

if TYPE_CHECKING:
    from umu_tasks.benchmarks.sources import Source

__all__ = ["SPLITS", "SUBSETS", "resolve_split"]  # with the names below, what a source asks of a benchmark's rows

BENCHMARK = "MLLMU-Bench"
HUB_ID = "MLLMMU/MLLMU-Bench"
PAIRED = False  # some facts are asked in one modality only; options and letters of the two differ at will
ID_COLUMN = "ID"
IMAGE_COLUMN = "image"
IMAGES_COLUMN = "images"  # Test_Set: a list of image cells
BIOGRAPHY_COLUMN = "biography"
QUESTION_COLUMN, ANSWER_COLUMN, METADATA_COLUMN = "question", "answer", "metadata"
TASK_COLUMNS: dict[Task, str] = {"cls": "Classification_Task", "cloze": "Mask_Task", "gen": "Generation_Task"}
QA_COLUMNS: dict[Modality, str] = {}  # none that holds pairs of one modality for every person
TRAINING_COLUMNS = (QUESTION_COLUMN, ANSWER_COLUMN, METADATA_COLUMN)
COLUMNS = (ID_COLUMN, IMAGE_COLUMN, BIOGRAPHY_COLUMN, *TRAINING_COLUMNS, *TASK_COLUMNS.values())

LIST_NAMES: dict[Modality, str] = {"unimodal": "Pure_Text_Questions", "multimodal": "Image_Textual_Questions"}
TYPE_NAMES: dict[Modality, str] = {"unimodal": "Pure_Text", "multimodal": "Image_Textual"}
UMU_COLUMNS = {"Classify", "Cloze", "MM_QA", "UM_QA"}

# "B", "B.", "B. text", "(B) text"; never the first letter of a word.
_LETTER = re.compile(r"\s*\(?([A-Za-z])\s*(?:[.):].*)?\s*", re.DOTALL)


def missing_columns(columns: Iterable[str]) -> list[str]:
    """Return what a file with these columns lacks: the image, and tasks to ask or pairs to train on."""
    found = set(columns)
    image = [] if {IMAGE_COLUMN, IMAGES_COLUMN} & found else [IMAGE_COLUMN]
    if METADATA_COLUMN in found:
        return image
    needed = [ID_COLUMN, *TASK_COLUMNS.values()]
    if {QUESTION_COLUMN, ANSWER_COLUMN} <= found and not set(TASK_COLUMNS.values()) & found and not UMU_COLUMNS & found:
        needed = [ID_COLUMN]  # ft_Data: pairs and no task
    return [*[name for name in needed if name not in found], *image]


def explain_columns(columns: Iterable[str]) -> str | None:
    """Return what a file with these columns is when it is not MLLMU-Bench data, None if it resembles nothing known."""
    found = UMU_COLUMNS & set(columns)
    if not found:
        return None
    return f"This looks like UMU-Bench (column {min(found)}): use the umu tasks and UMU_DATA for it."


def parse_id(cell: object, *, file: str, report: Report = raise_errors) -> str:
    """Return the profile ID as text; a number gets three digits, so that 17, 17.0, ``"17"`` and ``"017"`` are one."""
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    profile_id = "" if cell is None else str(cell).strip()
    if not profile_id:
        problem = "a row without ID. Give each person one, unique within the split."
        report(DataError(problem, file=file, column=ID_COLUMN, kind="missing ID"))
    return profile_id.zfill(3) if profile_id.isascii() and profile_id.isdigit() else profile_id


def parse_row(row: Mapping[str, object], *, file: str, report: Report = raise_errors) -> MllmuProfile:
    """Turn one raw row into a profile.

    Args:
        row: column name -> cell. The image cell stands under ``image`` or ``images``: ``{"bytes", "path"}``, a Pillow
            image, a list of these, or a function that reads it.
        file: where the row comes from, for messages and for relative image paths.
        report: receives each problem. If it returns, what could be parsed is kept and the rest is left out.

    Raises:
        DataError: by the default `report`, for whatever cannot be used.
    """
    profile_id = _profile_id(row, file, report)
    reader = _RowReader(row, file, profile_id, report)
    column = IMAGE_COLUMN if row.get(IMAGE_COLUMN) is not None else IMAGES_COLUMN
    cell = row.get(column)
    if is_empty_cell(cell) or (isinstance(cell, list) and not cell):
        reader.problem(IMAGE_COLUMN, "missing image", "no image. Add one, or drop the row.")
    portraits = Portraits(cell, file, profile_id, column)
    halves = {task: reader.questions(task) for task in TASK_COLUMNS}
    asked = tuple(question for task in halves for modality in MODALITIES for question in halves[task][modality])
    return MllmuProfile(
        profile_id=profile_id,
        biography=reader.plain(BIOGRAPHY_COLUMN),
        open_image=portraits.image(0),
        pairs=tuple(reader.pairs()),
        instances=_instances(asked),
        portraits=portraits,
        asked=asked,
        fields={question.key: field for question in asked if (field := field_of(question.text)) is not None},
    )


def training_people(source: Source, split: str) -> ProfileSet:
    """Return the people of a split with the training pairs of `ft_Data`, where the source has it and they are there.

    The rows of forget and retain sets hold one pair each; the published scripts train on `baseline_train_split`, whose
    rows hold all of them.
    """
    people = source.load(split)
    if FINE_TUNING not in source.splits() or people.split == FINE_TUNING:
        return people
    taught = {person.profile_id: person.pairs for person in source.load(FINE_TUNING)}
    # Real people have IDs of invented ones and are never taught.
    complete = (p if split == "real" else replace(p, pairs=taught.get(p.profile_id, p.pairs)) for p in people)
    return ProfileSet(people.split, complete, source=people.source)


def merge_rows(profiles: list[MllmuProfile]) -> list[MllmuProfile]:
    """Merge the rows of one person in training data that has a row for each pair; other rows are left as they are."""
    people: dict[str, MllmuProfile] = {}
    gathered: list[MllmuProfile] = []
    for profile in profiles:
        first = people.get(profile.profile_id)
        if first is None or first.asked or profile.asked:
            people.setdefault(profile.profile_id, profile)
            gathered.append(profile)
            continue
        pairs = (*first.pairs, *profile.pairs)
        merged = replace(first, pairs=tuple(replace(pair, key=str(number)) for number, pair in enumerate(pairs)))
        gathered[gathered.index(first)] = people[profile.profile_id] = merged
    return gathered


def _profile_id(row: Mapping[str, object], file: str, report: Report) -> str:
    """Return the ID; training data may have none, and then the content names the row."""
    if row.get(ID_COLUMN) is None and row.get(METADATA_COLUMN):
        return f"row-{hashlib.sha256(str(row[METADATA_COLUMN]).encode()).hexdigest()[:8]}"
    return parse_id(row.get(ID_COLUMN), file=file, report=report)


def _instances(asked: Sequence[Question]) -> tuple[KnowledgeInstance, ...]:
    """Return the pairs among the questions: same task and key in both modalities."""
    multimodal = {(one.task, one.key): one for one in asked if one.has_image}
    return tuple(
        KnowledgeInstance(one, multimodal[one.task, one.key])
        for one in asked
        if not one.has_image and (one.task, one.key) in multimodal
    )


@dataclass(frozen=True)
class _RowReader(RowReader):
    """Reads the cells of one row; sends each problem to `report` and goes on."""

    # ---- questions ----------------------------------------------------------------------------------------------

    def questions(self, task: Task) -> dict[Modality, list[Question]]:
        """Return one task's questions by modality, each in stored order, with the keys that pair them."""
        column = TASK_COLUMNS[task]
        if self.row.get(column) is None:  # training data has no tasks; `missing_columns` has looked at the file
            return {modality: [] for modality in MODALITIES}
        entries = self._lists(column) if task == "cls" else self._typed(column)
        build = self._classification if task == "cls" else self._open_ended
        found: dict[Modality, list[Question]] = {}
        for modality in MODALITIES:
            built = (
                build(column, task, modality, f"{TYPE_NAMES[modality]} question {number}", entry)
                for number, entry in enumerate(entries[modality])
            )
            found[modality] = [question for question in built if question is not None]
        unimodal, multimodal = ([Entry(field_of(one.text), one.gold) for one in found[half]] for half in MODALITIES)
        for modality, keys in zip(MODALITIES, pair_keys(unimodal, multimodal), strict=True):
            found[modality] = [replace(one, key=key) for one, key in zip(found[modality], keys, strict=True)]
        return found

    def _lists(self, column: str) -> dict[Modality, Sequence[object]]:
        table = self._cell(column)
        if not isinstance(table, Mapping):
            self.problem(column, "cell does not parse", f"expected a dictionary, found {_kind(table)}. {REPAIR}")
            return {modality: [] for modality in MODALITIES}
        found: dict[Modality, Sequence[object]] = {}
        for modality, name in LIST_NAMES.items():
            part = table.get(name)
            if not isinstance(part, list):
                keys = ", ".join(map(repr, table)) or "none"
                self.problem(column, "missing field", f"no list {name!r}; found keys {keys}. {REPAIR}")
            found[modality] = part if isinstance(part, list) else []
        return found

    def _typed(self, column: str) -> dict[Modality, Sequence[object]]:
        entries = self._cell(column)
        found: dict[Modality, list[object]] = {modality: [] for modality in MODALITIES}
        if not isinstance(entries, list):
            self.problem(column, "cell does not parse", f"expected a list, found {_kind(entries)}. {REPAIR}")
            return {**found}
        modalities = {name: modality for modality, name in TYPE_NAMES.items()}
        for number, entry in enumerate(entries):
            kind = entry.get("Type") if isinstance(entry, Mapping) else None
            if kind in modalities:
                found[modalities[str(kind)]].append(entry)
            else:
                text = f"entry {number}: Type {kind!r}; expected {' or '.join(map(repr, modalities))}. {REPAIR}"
                self.problem(column, "unknown question type", text)
        return {**found}

    def _classification(self, column: str, task: Task, modality: Modality, name: str, entry: object) -> Question | None:
        text = self._field(column, name, entry, "Question")
        options = self._options(column, name, entry)
        answer = self._field(column, name, entry, "Correct_Answer")
        if text is None or not options or answer is None:
            return None
        letter = _answer_letter(answer, options)
        if letter is None:
            self.problem(
                column,
                "answer that names no option",
                f"{name}: Correct_Answer {answer!r} names none of the options {', '.join(map(repr, options))}. "
                "Expected a letter. Correct the answer, or drop the row.",
            )
            return None
        return Question(
            self.profile_id, task, "", modality, text, options[letter], options, letter, options[letter], letter
        )

    def _open_ended(self, column: str, task: Task, modality: Modality, name: str, entry: object) -> Question | None:
        text = self._field(column, name, entry, "Question")
        gold = self._field(column, name, entry, "Ground_Truth")
        if text is None or gold is None:
            return None
        if task == "cloze" and "__" not in text and "[Blank]" not in text:
            self.problem(column, "cloze question without blank", f"{name}: no '__' in {text!r}.", DataNotice)
        return Question(self.profile_id, task, "", modality, text, gold, official_gold=gold)

    def _options(self, column: str, name: str, entry: object) -> dict[str, str]:
        table = entry.get("Options") if isinstance(entry, Mapping) else None
        present = (
            {str(one): value for one, value in table.items() if value is not None} if isinstance(table, Mapping) else {}
        )
        if not present:
            self.problem(column, "missing field", f"{name}: no 'Options'; expected letter -> text. {REPAIR}")
        return {letter: self.text(column, f"{name}, option {letter}", value) for letter, value in present.items()}

    # ---- training pairs -----------------------------------------------------------------------------------------

    def pairs(self) -> list[TrainingPair]:
        """Return the training pairs: those of `metadata`, else the row's question and answer. All show the portrait,
        except entries of `metadata` that say ``"Type": "Pure_Text"``."""
        if self.row.get(METADATA_COLUMN):
            return self._metadata_pairs()
        if not self.row.get(QUESTION_COLUMN) or self.row.get(ANSWER_COLUMN) is None:
            return []
        question, answer = self.plain(QUESTION_COLUMN), self.plain(ANSWER_COLUMN)
        return [TrainingPair(self.profile_id, "0", "multimodal", question, answer)]

    def _metadata_pairs(self) -> list[TrainingPair]:
        entries = self._cell(METADATA_COLUMN)
        if not isinstance(entries, list):
            text = f"expected a list of questions and answers, found {_kind(entries)}. {REPAIR}"
            self.problem(METADATA_COLUMN, "cell does not parse", text)
            return []
        pairs = []
        for number, entry in enumerate(entries):
            question = self._field(METADATA_COLUMN, f"entry {number}", entry, "Question")
            answer = self._field(METADATA_COLUMN, f"entry {number}", entry, "Answer")
            if question is not None and answer is not None:
                pure = isinstance(entry, Mapping) and entry.get("Type") == TYPE_NAMES["unimodal"]
                modality: Modality = "unimodal" if pure else "multimodal"
                pairs.append(TrainingPair(self.profile_id, str(number), modality, question, answer))
        return pairs

    # ---- cells --------------------------------------------------------------------------------------------------

    def _field(self, column: str, name: str, entry: object, field: str) -> str | None:
        if not isinstance(entry, Mapping) or entry.get(field) is None:
            found = ", ".join(map(repr, entry)) if isinstance(entry, Mapping) else repr(entry)
            self.problem(column, "missing field", f"{name}: no {field!r}; found {found}. {REPAIR}")
            return None
        return self.text(column, f"{name}, {field}", entry[field])

    def _cell(self, column: str) -> object:
        found = self.structure(column)
        if found is not UNREADABLE:
            return found
        return {} if column == TASK_COLUMNS["cls"] else []


def _answer_letter(answer: str, options: Mapping[str, str]) -> str | None:
    """Return the letter of the option that an answer names by its letter, or by its whole text."""
    match = _LETTER.fullmatch(answer)
    letter = next((form for form in (match[1], match[1].upper()) if form in options), None) if match else None
    if letter is not None:
        return letter
    same = [one for one, text in options.items() if text == answer]
    return same[0] if len(same) == 1 else None


def _kind(value: object) -> str:
    return type(value).__name__
