"""The log of a store as a stream of Spark: `spark.readStream.format("rocketmq").load("/path/to/store")`, also beside a running broker.

An offset of the stream is a physical offset of the log. A batch has the records from one to before the other, so a stream that
continues from its checkpoint has each record once, and needs nothing from the broker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from rmqstore.errors import RmqstoreError, StoreChangedError, UsageError
from rmqstore.pipeline.job import Part, StoreAt
from rmqstore.pipeline.spark.columns import Columns
from rmqstore.pipeline.spark.failures import SourceError
from rmqstore.pipeline.tables.registry import find_table
from rmqstore.pipeline.tables.selection import Condition, Selection
from rmqstore.reading.progress import silent
from rmqstore.scan.tail import tail_records
from rmqstore.store.ends import log_ends
from rmqstore.store.root import Store

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit


Offset = dict[str, int]

_OFFSET = "physical_offset"
_PLACE = "position"
EARLIEST, LATEST = "earliest", "latest"


class LogStream(DataSourceStreamReader):
    """Reads the messages of one store as they are written."""

    def __init__(self, at: StoreAt, columns: Columns, largest: int, given: Mapping[str, Condition], begin: str, most: int | None) -> None:
        """Begin at EARLIEST, LATEST or a physical offset in digits; `most` bytes of the log in a batch. Raises UsageError."""
        if begin not in (EARLIEST, LATEST) and not begin.isdigit():
            raise UsageError(f"The option startingOffsets is {begin!r}.", "Give earliest, latest, or a physical offset.")
        self._at = at
        self._columns = columns
        self._largest = largest
        self._conditions = dict(given)
        self._begin = begin
        self._most = most

    def initialOffset(self) -> Offset:
        """Return where a stream without a checkpoint begins."""
        try:
            if self._begin.isdigit():
                return {_OFFSET: int(self._begin)}
            store = self._at.open()
            return {_OFFSET: store.message_log.min_offset if self._begin == EARLIEST else _end(store, -1)}
        except RmqstoreError as error:
            raise SourceError(error) from error

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit of a batch by the option maxOffsetsPerTrigger."""
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes

        return ReadAllAvailable() if self._most is None else ReadMaxBytes(self._most)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Return the end of the next batch: after the last whole record, or as far as the limit allows."""
        begin = start[_OFFSET]
        try:
            end = max(begin, _end(self._at.open(), begin))
        except RmqstoreError as error:
            raise SourceError(error) from error
        most = getattr(limit, "max_bytes", None)
        return {_OFFSET: end if most is None else min(end, begin + most)}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return the pieces of a batch. Raises SourceError if the broker has deleted messages that were not read."""
        begin, until = start[_OFFSET], end[_OFFSET]
        if begin >= until:
            return []
        try:
            at = self._at.marked()
            first = at.open().message_log.min_offset
            if begin < first and self._begin != str(begin):
                message = f"The log begins at {first}, and the stream has read up to {begin}: the broker has deleted files between them."
                raise StoreChangedError(
                    message, "Begin a new stream with another checkpoint, or with startingOffsets at the begin of the log."
                )
            selection = self._selection(begin, until)
            return [InputPartition((at, part, selection)) for part in find_table("messages").parts(at, selection, self._largest)]
        except RmqstoreError as error:
            raise SourceError(error) from error

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of a piece."""
        if partition.value is None:
            return
        at: StoreAt
        part: Part
        selection: Selection
        at, part, selection = partition.value
        try:
            at.require()
            for batch in find_table("messages").read(part, selection, silent):
                yield self._columns.made(batch, at.path)
        except RmqstoreError as error:
            raise SourceError(error) from error

    def _selection(self, begin: int, until: int) -> Selection:
        place = Condition(begin, until - 1).both(self._conditions.get(_PLACE, Condition()))
        return Selection(self._columns.names, self._conditions | {_PLACE: place})


def _end(store: Store, hint: int) -> int:
    """Return the physical offset after the last whole record."""
    log = store.message_log
    if not log.files:
        return 0
    return log_ends(log, entry_header=store.entry_header(log.files[-1]), hint=hint, far=tail_records).end_offset
