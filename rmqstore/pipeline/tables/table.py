"""The protocol of tables: documented columns, the parts it is read in, and the rows of a part as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from rmqstore.errors import UsageError
from rmqstore.pipeline.job import Part, StoreAt
from rmqstore.pipeline.tables.selection import Selection
from rmqstore.reading.progress import Advance

LARGEST_PART = 256 << 20
"""Bytes of a part by default."""

BATCH_ROWS = 8192
"""Rows of a batch, about; batches of this size fit into the processor's caches, and larger ones are no faster."""

TYPES: dict[str, pa.DataType] = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "binary": pa.binary(),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
    "array<string>": pa.list_(pa.field("element", pa.string())),
}
"""Arrow's type for each type that columns have, by the name that SQL has for it."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name, its type as SQL calls it, and its description."""

    name: str
    type: str
    meaning: str
    is_time: bool = False
    """Whether the values are milliseconds since 1970, which data sources show as timestamps."""

    @property
    def field(self) -> pa.Field:
        """Return the column in an Arrow schema."""
        return pa.field(self.name, TYPES[self.type])


@dataclass(frozen=True, slots=True)
class StorePart(Part):
    """A whole store, of a table that is read at one time."""

    store: StoreAt


class Table(Protocol):
    """Rows of one kind in a store. `parts` and `read` may run in different processes."""

    @property
    def name(self) -> str:
        """Return the name in SQL."""

    @property
    def summary(self) -> str:
        """Return a sentence about its rows."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return all columns."""

    @property
    def selectable(self) -> tuple[str, ...]:
        """Return the columns that a selection may have conditions on."""

    def parts(self, at: StoreAt, selection: Selection, largest: int = LARGEST_PART) -> Sequence[Part]:
        """Return what has to be read for a selection, in the order of the rows, numbered from 0; about `largest` bytes each at most.

        Raises what opening the store raises, UnreadableError, UsageError.
        """

    def read(self, part: Part, selection: Selection, advance: Advance) -> Iterator[pa.RecordBatch]:
        """Yield the selected rows of a part, with the selected columns; never an empty batch. `advance` receives the number of bytes read.

        Raises UnreadableError, StoreChangedError, UsageError.
        """


def schema(table: Table, columns: Sequence[str] | None = None) -> pa.Schema:
    """Return the Arrow schema of a table, or of some of its columns in the order given. Raises UsageError for an unknown column."""
    known = {column.name: column for column in table.columns}
    wanted = tuple(known) if columns is None else columns
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise UsageError(f"The table {table.name} has no column {unknown[0]}.", f"Its columns are {', '.join(known)}.")
    return pa.schema([known[name].field for name in wanted])


def everything(table: Table) -> Selection:
    """Return all columns of all rows; of messages the bodies, too."""
    return Selection(tuple(column.name for column in table.columns))
