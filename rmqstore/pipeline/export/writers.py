"""Arrow batches into files: CSV in order, Parquet in row groups, one file per partition."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Protocol
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from rmqstore.errors import UsageError
from rmqstore.pipeline.export.attempt import Attempt, AttemptFile
from rmqstore.pipeline.export.request import ExportRequest, Format
from rmqstore.pipeline.export.rows import export_schema

DAY_MS = 86_400_000
_GROUP_BYTES = 64 << 20
"""Bytes of rows in memory that make row groups; a partition gets one row group of them."""
_MOST_OPEN = 128
_LONGEST_NAME = 255


class Writer(Protocol):
    """Writes the batches of a piece; `close` finishes its files. Raises NotWrittenError."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows, in the order of the log."""

    def close(self) -> None:
        """Finish the files."""


def writer_of(request: ExportRequest, attempt: Attempt) -> Writer:
    """Return the writer of a format that is made of batches."""
    return CsvWriter(request, attempt) if request.format is Format.CSV else ParquetWriter(request, attempt)


class CsvWriter:
    """One file with a header; a piece without messages has none."""

    def __init__(self, request: ExportRequest, attempt: Attempt) -> None:
        self._schema = export_schema(request, request.columns)
        self._attempt = attempt
        self._open: tuple[AttemptFile, pa.csv.CSVWriter] | None = None
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows, in the order of the log."""
        if self._open is None:
            file = self._attempt.file()
            self._open = file, pa.csv.CSVWriter(file, self._schema)
        self._open[1].write_batch(batch)
        self._rows += batch.num_rows

    def close(self) -> None:
        """Finish the file."""
        if self._open is not None:
            file, writer = self._open
            writer.close()
            self._attempt.finish(file, self._rows)


class ParquetWriter:
    """A file per partition; if there are more partitions than files that may be open, a partition has several."""

    def __init__(self, request: ExportRequest, attempt: Attempt) -> None:
        self._request = request
        # The columns that files are divided by are in the names of their folders.
        self._schema = export_schema(request, [name for name in request.columns if name not in request.partition_by])
        self._attempt = attempt
        self._pending: list[pa.RecordBatch] = []
        self._size = 0
        self._open: OrderedDict[str, _Parquet] = OrderedDict()
        self._opened: dict[str, int] = {}

    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows, in the order of the log."""
        self._pending.append(batch)
        self._size += batch.nbytes
        if self._size >= _GROUP_BYTES:
            self._write_groups()

    def close(self) -> None:
        """Finish the files."""
        self._write_groups()
        while self._open:
            self._close_oldest()

    def _write_groups(self) -> None:
        if not self._pending:
            return
        table = pa.Table.from_batches(self._pending)
        self._pending, self._size = [], 0
        for folder, rows in divided(table, self._request.partition_by):
            self._file(folder).write(rows.select(self._schema.names))

    def _file(self, folder: str) -> _Parquet:
        if folder not in self._open:
            if len(self._open) >= _MOST_OPEN:
                self._close_oldest()
            number = self._opened.get(folder, 0)
            self._opened[folder] = number + 1
            self._open[folder] = _Parquet(self._attempt, self._attempt.file(folder, number), self._schema)
        self._open.move_to_end(folder)
        return self._open[folder]

    def _close_oldest(self) -> None:
        self._open.popitem(last=False)[1].close()


class _Parquet:
    """One open file."""

    def __init__(self, attempt: Attempt, file: AttemptFile, schema: pa.Schema) -> None:
        self._attempt = attempt
        self._file = file
        self._rows = 0
        self._writer = pa.parquet.ParquetWriter(file, schema, compression="zstd")

    def write(self, rows: pa.Table) -> None:
        """Write one row group."""
        self._writer.write_table(rows)
        self._rows += rows.num_rows

    def close(self) -> None:
        """Finish the file."""
        self._writer.close()
        self._attempt.finish(self._file, self._rows)


def divided(table: pa.Table, names: tuple[str, ...]) -> Iterator[tuple[str, pa.Table]]:
    """Yield (folder, rows) of each partition, in the order of the folders; rows keep their order. Folders are named as Hive names them."""
    if not names:
        yield "", table
        return
    codes = np.zeros(table.num_rows, np.int64)
    folders = [""]
    for name in names:
        texts, own = _values(table, name)
        merged, codes = np.unique(codes * len(texts) + own, return_inverse=True)
        folders = [f"{folders[one // len(texts)]}/{_folder(name, texts[one % len(texts)])}" for one in merged.tolist()]
    order = np.argsort(codes, kind="stable")
    grouped = table.take(pa.array(order))
    ends = np.cumsum(np.bincount(codes, minlength=len(folders))).tolist()
    for number in sorted(range(len(folders)), key=folders.__getitem__):
        start = ends[number - 1] if number else 0
        yield folders[number].removeprefix("/"), grouped.slice(start, ends[number] - start)


def _values(table: pa.Table, name: str) -> tuple[list[str], np.typing.NDArray[np.int64]]:
    """Return (the values of a partition as text, the number of the value of each row)."""
    if name == "day":
        days, codes = np.unique(table["store_timestamp"].to_numpy() // DAY_MS, return_inverse=True)
        return [str(np.datetime64(day, "D")) for day in days.tolist()], codes
    encoded = table[name].combine_chunks().dictionary_encode()
    return [str(value) for value in encoded.dictionary.to_pylist()], encoded.indices.to_numpy().astype(np.int64)


def _folder(name: str, value: str) -> str:
    folder = f"{name}={quote(value, safe='') or '__HIVE_DEFAULT_PARTITION__'}"
    if len(folder) > _LONGEST_NAME:
        raise UsageError(f"{value} is too long for the name of a folder.", f"Leave {name} out of --partition-by.")
    return folder
