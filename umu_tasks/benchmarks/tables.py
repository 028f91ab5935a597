"""Opens the files of a split: texts in memory, images left where they are until asked for."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from umu_tasks.benchmarks.errors import DataError
from umu_tasks.benchmarks.image_store import StoredColumn, file_stamp, reading

IN_MEMORY_BYTES = 64 * 2**20  # image columns that unpack to no more than this are read whole

Cell = Callable[[], object] | None
"""An image cell of a row: a function that reads it, None if it is known to be empty."""


@dataclass(frozen=True)
class Shard:
    """The rows of one file.

    Attributes:
        file: its name for messages.
        columns: the columns it has, whether they are read or not.
        texts: the columns asked for, without the image column.
        image: row number -> image cell.
    """

    file: str
    columns: tuple[str, ...]
    texts: pa.Table
    image: Callable[[int], Cell]

    def __len__(self) -> int:
        return self.texts.num_rows

    def rows(self, image_column: str) -> Iterator[Mapping[str, object]]:
        """Yield each row; the image cell is a function that reads it, or None."""
        for index in range(len(self)):
            row = {name: self._text(name, index) for name in self.texts.column_names}
            yield row | {image_column: self.image(index)}

    def _text(self, column: str, index: int) -> object:
        try:
            return self.texts.column(column)[index].as_py()
        except UnicodeDecodeError as error:
            problem = f"row {index} of the file (from 0) is no UTF-8 ({error.reason}). Write its texts as UTF-8."
            raise DataError(problem, file=self.file, column=column, kind="text that is no UTF-8") from error


@dataclass(frozen=True, slots=True)
class TableCell:
    """Reads one cell of a column when called. (An Arrow scalar would not do: it copies the bytes when it is made.)"""

    column: pa.ChunkedArray
    index: int

    def __call__(self) -> object:
        return self.column[self.index].as_py()


def open_file(path: Path, columns: Sequence[str], image_column: str) -> Shard:
    """Open a parquet file, or a folder written by `datasets.save_to_disk`.

    Raises:
        DataError: it is cut off or damaged.
    """
    if path.is_dir():
        import datasets

        with reading(path):
            table = dataset_table(datasets.load_from_disk(str(path)))
        return table_shard(table, columns, image_column, file=str(path))
    with reading(path), pq.ParquetFile(path) as parquet:
        stamp = file_stamp(path)
        found = tuple(parquet.schema_arrow.names)
        image_column = present_image_column(found, image_column)
        wanted = [name for name in (*columns, image_column) if name in found]
        wanted = list(dict.fromkeys(wanted))
        if image_column not in found or _unpacked_bytes(parquet.metadata, image_column) <= IN_MEMORY_BYTES:
            return table_shard(parquet.read(wanted, use_threads=False), columns, image_column, str(path), found)
        texts = parquet.read([name for name in wanted if name != image_column], use_threads=False)
    stored = StoredColumn(path, image_column, stamp)
    return Shard(str(path), found, texts, lambda index: functools.partial(stored.read, index))


def table_shard(
    table: pa.Table, columns: Sequence[str], image_column: str, file: str, found: tuple[str, ...] | None = None
) -> Shard:
    """Return the rows of a table in memory or memory-mapped; `found`: the file's columns if the table has fewer."""
    names = tuple(table.column_names)
    image_column = present_image_column(names, image_column)
    texts = table.select([name for name in columns if name in names and name != image_column])
    images = table.column(image_column) if image_column in names else pa.chunked_array([pa.nulls(len(table))])
    filled = _filled(images)
    return Shard(file, found or names, texts, lambda index: TableCell(images, index) if filled[index] else None)


def present_image_column(found: Sequence[str], image_column: str) -> str:
    """Return the column that holds the images: the one named, or its plural where a row has a list of them."""
    plural = f"{image_column}s"
    return plural if image_column and image_column not in found and plural in found else image_column


def dataset_table(dataset: Any) -> pa.Table:
    """Return the rows of a `datasets.Dataset` as a table, images not decoded; memory-mapped where the data set is."""
    return dataset.with_format("arrow")[:]


def read_column(path: Path, column: str) -> list[object] | None:
    """Return the cells of one column without reading the others; None where there is no such column."""
    shard = open_file(path, [column], image_column="")
    return shard.texts.column(column).to_pylist() if column in shard.columns else None


def _unpacked_bytes(metadata: pq.FileMetaData, column: str) -> int:
    return sum(
        chunk.total_uncompressed_size
        for group in map(metadata.row_group, range(metadata.num_row_groups))
        for chunk in map(group.column, range(group.num_columns))
        if chunk.path_in_schema.split(".")[0] == column
    )


def _filled(column: pa.ChunkedArray) -> list[bool]:
    """Tell for each cell whether it holds something, without reading the cells."""
    filled = pc.is_valid(column)
    if pa.types.is_struct(column.type):
        parts = [pc.is_valid(pc.struct_field(column, [name])) for name in column.type.names]
        filled = functools.reduce(pc.or_, parts)
    elif pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        filled = pc.fill_null(pc.greater(pc.list_value_length(column), 0), False)
    return filled.to_pylist()
