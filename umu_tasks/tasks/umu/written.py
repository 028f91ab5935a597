"""Writes what `rows.py` reads: profiles as parquet files with UMU-Bench's columns, one folder a split.

    ID          001
    image       {'bytes': PNG, 'path': '001.png'}
    Biography   Aiko Cardoso was born on 2 June 1994 in Sapporo, Japan. …
    MM_QA       {'question': {'0': 'Where was this person born?', …}, 'answer': {'0': 'Sapporo, Japan', …}}
    UM_QA       {'question': {'0': 'Where was Aiko Cardoso born?', …}, 'answer': {'0': 'Sapporo, Japan', …}}
    Classify    {'unimodal': {'education': {'question': …, 'options': {'A': …}, 'answer': 'B. …'}}, 'muitimodal': {…}}
    Cloze       {'unimodal': {'height': {'question': …, 'answer': '171 cm'}}, 'muitimodal': {…}}
    Generation  {'unimodal': {'life': {'question': …, 'answer': …}}, 'muitimodal': {…}}

The last five columns are strings with a Python literal inside, and "multimodal" is misspelt, as in the published data.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

import pyarrow as pa
import pyarrow.parquet as pq

from umu_tasks.benchmarks.instances import KnowledgeInstance, Modality, Question, TrainingPair
from umu_tasks.tasks.umu.rows import BIOGRAPHY_COLUMN, ID_COLUMN, IMAGE_COLUMN, QA_COLUMNS, TASK_COLUMNS

FILE_NAME = "train-00000-of-00001.parquet"
_PARTS: dict[Modality, str] = {"unimodal": "unimodal", "multimodal": "muitimodal"}  # sic, as published
_TEXT_COLUMNS = (BIOGRAPHY_COLUMN, *QA_COLUMNS.values(), *TASK_COLUMNS.values())
_BATCH_ROWS, _BATCH_BYTES = 64, 32 * 2**20  # of photos held in memory before they are written

Row = dict[str, object]


def to_row(
    profile_id: str,
    image: bytes,
    image_name: str,
    biography: str,
    pairs: Sequence[TrainingPair],
    instances: Sequence[KnowledgeInstance],
) -> Row:
    """Return one person's row."""
    row: Row = {ID_COLUMN: profile_id, IMAGE_COLUMN: {"bytes": image, "path": image_name}, BIOGRAPHY_COLUMN: biography}
    for modality, column in QA_COLUMNS.items():
        row[column] = _pairs_cell([pair for pair in pairs if pair.modality == modality])
    for task, column in TASK_COLUMNS.items():
        entry = _classification_entry if task == "cls" else _plain_entry
        row[column] = _questions_cell([one for one in instances if one.unimodal.task == task], entry)
    return row


def _pairs_cell(pairs: Sequence[TrainingPair]) -> str:
    return repr({"question": {p.key: p.question for p in pairs}, "answer": {p.key: p.answer for p in pairs}})


def _questions_cell(asked: Sequence[KnowledgeInstance], entry: Callable[[Question], Row]) -> str:
    cell: dict[str, dict[str, Row]] = {part: {} for part in _PARTS.values()}
    for instance in asked:
        for question in instance:
            cell[_PARTS[question.modality]][question.key] = entry(question)
    return repr(cell)


def _plain_entry(question: Question) -> Row:
    return {"question": question.text, "answer": question.gold}


def _classification_entry(question: Question) -> Row:
    letter = question.gold_letter
    answer = letter if question.has_image else f"{letter}. {question.gold}"  # both forms occur in the published data
    return {"question": question.text, "options": question.options, "answer": answer}


def schema() -> pa.Schema:
    """Return the columns, with the features that `datasets` needs to decode the image by itself."""
    features: dict[str, dict[str, str]] = {
        ID_COLUMN: {"dtype": "string", "_type": "Value"},
        IMAGE_COLUMN: {"_type": "Image"},
    }
    features |= {name: {"dtype": "string", "_type": "Value"} for name in _TEXT_COLUMNS}
    return pa.schema(
        [
            (ID_COLUMN, pa.string()),
            (IMAGE_COLUMN, pa.struct([("bytes", pa.binary()), ("path", pa.string())])),
            *((name, pa.string()) for name in _TEXT_COLUMNS),
        ],
        metadata={"huggingface": json.dumps({"info": {"features": features}})},
    )


def write_split(folder: Path, rows: Sequence[Row]) -> None:
    """Write a split's rows at once."""
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(rows), schema=schema()), folder / FILE_NAME)


class SplitWriter:
    """Writes a split row by row: in memory are some photos, never all of them.

    Used in a `with` statement.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.rows = 0
        self._writer = pq.ParquetWriter(folder / FILE_NAME, schema())
        self._batch: list[Row] = []
        self._bytes = 0

    def add(self, row: Row, image_bytes: int) -> None:
        """Add one row; `image_bytes` is the size of its photo."""
        self._batch.append(row)
        self._bytes += image_bytes
        self.rows += 1
        if len(self._batch) >= _BATCH_ROWS or self._bytes >= _BATCH_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._batch:
            self._writer.write_table(pa.Table.from_pylist(self._batch, schema=schema()))
        self._batch, self._bytes = [], 0

    def __enter__(self) -> SplitWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._flush()
        self._writer.close()
