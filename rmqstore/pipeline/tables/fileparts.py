"""Files that are read as units of one size: the parts that some of them make, and the units of one as rows of numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from construct import Struct
from numpy.typing import NDArray

from rmqstore.dump.request import Filters
from rmqstore.dump.target import Target, find_target
from rmqstore.formats.layout import fixed_layout
from rmqstore.pipeline.job import Part, StoreAt
from rmqstore.pipeline.tables.selection import Selection
from rmqstore.reading.progress import Advance
from rmqstore.store.mapped import MappedFile
from rmqstore.store.window import data_extents, open_read_only, read_descriptor

MOST_FILES = 1024
"""Files that share a part; each costs its reader some time."""

_CHUNK_UNITS = 1 << 15

Value = NDArray[Any] | str | int | None
"""A column of some rows: numbers, or one value for all of them."""


class TableFile(NamedTuple):
    """A file or some of its units, its name for messages, the bytes that are read, and the queue that it belongs to, if any.

    The units are those from number `first_unit` on, `units` of them; None means all.
    """

    file: MappedFile
    name: str
    size: int
    topic: str | None = None
    queue_id: int | None = None
    first_unit: int = 0
    units: int | None = None


@dataclass(frozen=True, slots=True)
class FilesPart(Part):
    """Some files of a store; `hash_slots` as configured, if it is."""

    store: StoreAt
    files: tuple[TableFile, ...]
    hash_slots: int | None = None

    @property
    def files_here(self) -> list[TableFile]:
        """Return the files at their places in this process."""
        return [one._replace(file=self.store.file_here(one.file, one.name)) for one in self.files]


class Units(NamedTuple):
    """Consecutive units of a file with any byte that is not zero: their positions in the file and their fields."""

    positions: NDArray[np.int64]
    fields: NDArray[np.void]


def target_of(at: StoreAt, part: str, stack: ExitStack | None = None) -> Target:
    """Return what `rmqstore dump --part` reads of a store. `stack`, and raises, as `find_target`."""
    conf = None if at.broker_conf is None else Path(at.broker_conf)
    return find_target(at.directory, part, conf, dict(at.settings), Filters(), stack)


def files_parts(at: StoreAt, files: Iterable[TableFile], largest: int, hash_slots: int | None = None) -> list[FilesPart]:
    """Return parts of one large or several small files, in order, numbered from 0."""
    groups: list[list[TableFile]] = []
    size = 0
    for one in files:
        size += one.size
        if not groups or size > largest or len(groups[-1]) == MOST_FILES:
            groups.append([])
            size = one.size
        groups[-1].append(one)
    return [
        FilesPart(number, group[0].name, sum(one.size for one in group), at, tuple(group), hash_slots)
        for number, group in enumerate(groups)
    ]


def row_type(declaration: Struct) -> np.dtype[np.void]:
    """Return a declared structure of big-endian integers as a numpy type."""
    return np.dtype([(name, f">i{field.width}") for name, field in fixed_layout(declaration).items()])


def units(file: MappedFile, kind: np.dtype[np.void], start: int, stop: int, advance: Advance) -> Iterator[Units]:
    """Yield the written units in [start, stop) of a file, bytes from its beginning; holes are not read, nor reported to `advance`."""
    size = kind.itemsize
    last = (min(stop, file.length) - start) // size
    at = 0
    with open_read_only(file.path) as descriptor:
        for begin, end in data_extents(file):
            at = max(at, (begin - start) // size)
            behind = min(last, -(-(end - start) // size))
            while at < behind:
                count = min(_CHUNK_UNITS, behind - at)
                data = read_descriptor(descriptor, file.path, start + at * size, count * size)
                advance(len(data))
                written = np.frombuffer(data, np.uint8).reshape(count, size).any(axis=1)
                numbers = np.flatnonzero(written)
                if len(numbers):
                    yield Units(start + (at + numbers) * size, np.frombuffer(data, kind)[numbers])
                at += count


def batch_of(columns: Mapping[str, Value], count: int, selection: Selection, schema: pa.Schema) -> pa.RecordBatch | None:
    """Return the rows that meet the conditions, None without any. `columns` has all columns of the table, with `count` rows each."""
    mask = np.ones(count, np.bool_)
    for name, condition in selection.conditions.items():
        values = columns[name]
        mask &= condition.mask(values) if isinstance(values, np.ndarray) else condition.met_by(values)
    rows = np.flatnonzero(mask)
    if not len(rows):
        return None
    arrays = [_array(columns[field.name], rows, field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(values: Value, rows: NDArray[np.int64], kind: pa.DataType) -> pa.Array:
    if isinstance(values, np.ndarray):
        return pa.array(values[rows].astype(values.dtype.newbyteorder("=")), kind)
    return pa.repeat(pa.scalar(plain(values), kind), len(rows))


def plain(value: Any) -> Any:
    """Return a text as Arrow can hold it: bytes of a file name that are no UTF-8 become escapes. Anything else is unchanged."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def batches_of_rows(rows: Iterable[Mapping[str, Any]], selection: Selection, schema: pa.Schema, size: int) -> Iterator[pa.RecordBatch]:
    """Yield batches of up to `size` of the rows that meet the conditions; rows have all columns that conditions and schema name."""
    chosen = ({name: plain(row[name]) for name in schema.names} for row in rows if selection.accepts(row))
    while pending := list(islice(chosen, size)):
        yield pa.RecordBatch.from_pylist(pending, schema=schema)
