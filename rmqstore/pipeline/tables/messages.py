"""The table of messages: every record of the commit log (also that of DLedger) with the fields that `rmqstore dump` shows.

Columns come from the batches of the scan (`message_columns.py`); only selected ones are made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rmqstore.pipeline.job import Part, StoreAt
from rmqstore.pipeline.logparts import LogPiece, PieceReader
from rmqstore.pipeline.tables.access import derived_ranges
from rmqstore.pipeline.tables.message_columns import BatchColumns
from rmqstore.pipeline.tables.message_parts import wanted_pieces
from rmqstore.pipeline.tables.ranges import RangesPart, RangesReader, parts_of_ranges
from rmqstore.pipeline.tables.selection import Selection
from rmqstore.pipeline.tables.table import LARGEST_PART, Column, schema
from rmqstore.reading.progress import Advance
from rmqstore.scan.columns import Check
from rmqstore.scan.walk import Batch, LogScanner

COLUMNS = (
    Column("physical_offset", "bigint", "PHYSICALOFFSET: position in the log as stored in the record, in bytes"),
    Column("size", "int", "TOTALSIZE: bytes of the whole record"),
    Column("magic", "bigint", "MAGICCODE: 3668127911 (V1) or 3668127915 (V2)"),
    Column("body_crc", "int", "BODYCRC as it is stored"),
    Column("queue_id", "int", "QUEUEID"),
    Column("flag", "int", "FLAG of the application"),
    Column("queue_offset", "bigint", "QUEUEOFFSET: number of the message in its queue"),
    Column("sys_flag", "int", "SYSFLAG bits"),
    Column("born_timestamp", "bigint", "BORNTIMESTAMP: clock of the client, ms since 1970", is_time=True),
    Column("born_host", "string", "BORNHOST: address and port of the client"),
    Column("store_timestamp", "bigint", "STORETIMESTAMP: clock of the broker, ms since 1970", is_time=True),
    Column("store_host", "string", "STOREHOST: address and port of the broker"),
    Column("reconsume_times", "int", "RECONSUMETIMES: how often it was consumed before"),
    Column("prepared_transaction_offset", "bigint", "PREPAREDTRANSACTIONOFFSET: physical offset of the half message"),
    Column("body_length", "int", "BODYLEN: bytes of the stored body"),
    Column("topic", "string", "TOPIC"),
    Column("properties", "map<string,string>", "all properties, in the order of the record"),
    Column("tags", "string", "the property TAGS; null when there is none"),
    Column("keys", "string", "the property KEYS, keys with blanks between them; null when there is none"),
    Column("unique_key", "string", "the property UNIQ_KEY, the message id of clients; null when there is none"),
    Column("offset_message_id", "string", "offsetMsgId: broker and physical offset in hexadecimal"),
    Column("tags_code", "bigint", "tagsCode of the queue entry: hash of TAGS or deliver time; null when the broker refuses DELAY"),
    Column("position", "bigint", "where the record was found in the log, in bytes; physical_offset unless that is wrong"),
    Column("body", "binary", "the stored body, compressed or not"),
    Column("faults", "array<string>", "faults of the record: body_crc, physical_offset, delay, properties; null without any"),
)

_NUMBERS = ("position", "physical_offset", "queue_offset", "store_timestamp", "born_timestamp", "queue_id", "size", "body_length")
"""Columns of the scan that rows are chosen by before their columns are made."""
_TEXTS = ("unique_key", "keys")
_TOPIC = "topic"
_OF_QUEUE = (_TOPIC, "queue_id")


class Messages:
    """Records in the order of the log. Damage and BLANKs are no rows."""

    name = "messages"
    summary = "Every record of the commit log."
    columns: tuple[Column, ...] = COLUMNS
    selectable: tuple[str, ...] = (*_NUMBERS, "topic", *_TEXTS)

    def parts(self, at: StoreAt, selection: Selection, largest: int = LARGEST_PART) -> Sequence[Part]:
        """Return pieces of the log's files, without what is outside of selected offsets and times; with `derived` ranges of them."""
        pieces = wanted_pieces(at, selection, largest=largest)
        ranges = derived_ranges(at, selection) if selection.derived else None
        return pieces if ranges is None else parts_of_ranges(pieces, ranges, largest)

    def read(self, part: Part, selection: Selection, advance: Advance) -> Iterator[pa.RecordBatch]:
        """Yield rows of one piece, or of ranges."""
        checks = Check.BODY_CRC if selection.wants("faults") else Check(0)
        texts = [name for name in _TEXTS if name in selection.conditions]

        def of_queues(batch: Batch, scanner: LogScanner) -> int:
            return int(_mask(batch, scanner, selection, _OF_QUEUE).sum())

        if isinstance(part, RangesPart):
            reader: PieceReader | RangesReader = RangesReader(part, checks, of_queues)
        else:
            assert isinstance(part, LogPiece)
            reader = PieceReader(part, checks)
        columns = tuple(dict.fromkeys((*selection.columns, *texts)))
        makers = BatchColumns(reader.scanner, reader.store.config.known_delay_levels, schema(self, columns))
        for batch in reader.batches(advance):
            rows = wanted_rows(batch, reader, selection)
            if len(rows):
                made = makers.make(batch, rows)
                for name in texts:
                    made = made.filter(pc.is_in(made[name], pa.array(selection.conditions[name].among or (), pa.string())))
                if made.num_rows:
                    yield made.select(selection.columns)


def wanted_rows(batch: Batch, reader: PieceReader | RangesReader, selection: Selection) -> NDArray[np.void]:
    """Return the records of a batch that meet the conditions on numbers and topic."""
    records = batch.records
    mask = _mask(batch, reader.scanner, selection, (*_NUMBERS, _TOPIC))
    return records if mask.all() else records.take(np.flatnonzero(mask))


def _mask(batch: Batch, scanner: LogScanner, selection: Selection, names: Sequence[str]) -> NDArray[np.bool_]:
    """Return which records meet the conditions on these columns."""
    records = batch.records
    mask = np.ones(len(records), np.bool_)
    for name in names:
        condition = selection.conditions.get(name)
        if condition is not None and name == _TOPIC:
            numbers, codes = np.unique(records["topic"], return_inverse=True)
            mask &= np.array([condition.met_by(scanner.topic(int(number))) for number in numbers], np.bool_)[codes]
        elif condition is not None:
            mask &= condition.mask(records[name])
    return mask


TABLE = Messages()
