"""Columns as Spark sees them: their declarations, the path of the store of a row, times as timestamps.

Tables have times in milliseconds since 1970; timestamps of Spark have microseconds, in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from inspect import signature
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from rmqstore.errors import UsageError
from rmqstore.pipeline.tables.selection import Condition
from rmqstore.pipeline.tables.table import Column, Table, schema

STORE = Column("store", "string", "path of the store")
"""The column with the store of a row; it is there for several stores, or where it is named."""
TIMESTAMP = "timestamp"
_ARROW = pa.timestamp("us", "UTC")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
# What Python, SQL and Spark agree on; a number outside of these years is no time that a clock had.
_FIRST = (datetime(1, 1, 1, tzinfo=UTC) - _EPOCH) // _MILLISECOND
_LAST = (datetime(9999, 12, 31, 23, 59, 59, 999_000, UTC) - _EPOCH) // _MILLISECOND
_IN_UTC: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
"""The timezone of timestamps, which is UTC in Spark 4.0."""
WITHIN = Condition(_FIRST, _LAST)
"""The milliseconds that are not null as timestamps: years 1 to 9999."""
_IN_MS = re.compile(r",? (?:\(ms\)|ms since 1970)")


def columns_ddl(table: Table, names: Iterable[str] | None = None, *, timestamps: bool = False) -> str:
    """Return columns of a table (all, or those named) as SQL declares them, with their descriptions. Raises UsageError.

    `timestamps`: declare times as timestamps, not as the milliseconds that the table has.
    """
    known = {column.name: column for column in table.columns}
    chosen = list(known if names is None else names)
    schema(table, [name for name in chosen if name != STORE.name])
    return ", ".join(_ddl(known.get(name, STORE), timestamps) for name in chosen)


def _ddl(column: Column, timestamps: bool) -> str:
    kind, meaning = (TIMESTAMP, _IN_MS.sub("", column.meaning)) if timestamps and column.is_time else (column.type, column.meaning)
    text = meaning.replace("\\", "\\\\").replace("'", "\\'")
    return f"`{column.name}` {kind} COMMENT '{text}'"


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a frame: `names` in its order, and those that are timestamps there."""

    names: tuple[str, ...]
    timestamps: frozenset[str]

    @classmethod
    def of(cls, table: Table, given: StructType) -> Columns:
        """Return the columns of a schema of Spark. Raises UsageError for columns or types that the table does not have."""
        wanted = [field for field in to_arrow_schema(given, **_IN_UTC) if field.name != STORE.name]
        times_of_table = {column.name for column in table.columns if column.is_time}
        timestamps = frozenset(field.name for field in wanted if field.type == _ARROW and field.name in times_of_table)
        for mine, theirs in zip(schema(table, [field.name for field in wanted]), wanted, strict=True):
            if mine.type != theirs.type and mine.name not in timestamps:
                kind = next(column.type for column in table.columns if column.name == mine.name)
                or_time = f" or {TIMESTAMP}" if mine.name in times_of_table else ""
                raise UsageError(f"The column {mine.name} of the table {table.name} is no {theirs.type}.", f"Its type is {kind}{or_time}.")
        return cls(tuple(given.fieldNames()), timestamps)

    @property
    def of_table(self) -> tuple[str, ...]:
        """Return the columns that the table has."""
        return tuple(name for name in self.names if name != STORE.name)

    def made(self, batch: pa.RecordBatch, path: str) -> pa.RecordBatch:
        """Return a batch of the frame for one of the table; `path` of its store."""
        batch = _with_timestamps(batch, self.timestamps)
        if STORE.name not in self.names:
            return batch
        arrays = [pa.repeat(path, batch.num_rows) if name == STORE.name else batch.column(name) for name in self.names]
        return pa.RecordBatch.from_arrays(arrays, names=list(self.names))


def milliseconds(moment: Any, *, up: bool) -> int | None:
    """Return a time of a filter in milliseconds, rounded up or down; None for anything but a time with a zone."""
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        return None
    elapsed = moment - _EPOCH
    return -(-elapsed // _MILLISECOND) if up else elapsed // _MILLISECOND


def _with_timestamps(batch: pa.RecordBatch, names: Collection[str]) -> pa.RecordBatch:
    """Return a batch with the named columns of milliseconds as timestamps, null outside of the years 1 to 9999."""
    for place, name in enumerate(batch.schema.names):
        if name in names:
            values = batch.column(place)
            outside = pc.or_(pc.less(values, _FIRST), pc.greater(values, _LAST))
            known = pc.if_else(outside, pa.scalar(None, values.type), values)
            batch = batch.set_column(place, name, known.cast(pa.timestamp("ms", "UTC")).cast(_ARROW))
    return batch
