"""Tables of a few rows: what `rmqstore topics`, `queues` and `groups` list, groups, delay levels, the checkpoint, files of the log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from rmqstore.formats.checkpoint import CHECKPOINT, FILE_SIZE, parse_checkpoint
from rmqstore.listing.delays import list_delays
from rmqstore.listing.groups import list_groups
from rmqstore.listing.queues import list_queues
from rmqstore.listing.subscriptions import list_subscriptions
from rmqstore.listing.topics import list_topics
from rmqstore.pipeline.job import Part, StoreAt
from rmqstore.pipeline.tables.fileparts import batches_of_rows
from rmqstore.pipeline.tables.selection import Selection
from rmqstore.pipeline.tables.table import LARGEST_PART, Column, StorePart, schema
from rmqstore.reading.progress import Advance
from rmqstore.store.root import Store
from rmqstore.store.window import read_whole

_BATCH_ROWS = 1024


@dataclass(frozen=True, slots=True)
class Listing:
    """A table whose rows are listed from a whole store, all of them at once."""

    name: str
    summary: str
    columns: tuple[Column, ...]
    selectable: tuple[str, ...]
    rows: Callable[[Store], Iterable[Mapping[str, Any]]]

    def parts(self, at: StoreAt, selection: Selection, largest: int = LARGEST_PART) -> Sequence[Part]:
        """Return the whole store."""
        at.open()
        return [StorePart(0, at.path, 0, at)]

    def read(self, part: Part, selection: Selection, advance: Advance) -> Iterator[pa.RecordBatch]:
        """Yield all rows that meet the conditions."""
        assert isinstance(part, StorePart)
        yield from batches_of_rows(self.rows(part.store.open()), selection, schema(self, selection.columns), _BATCH_ROWS)


def _log_files(store: Store) -> Iterator[dict[str, Any]]:
    for file in store.message_log.files:
        yield {
            "file": store.relative(file.path),
            "begin_offset": file.start,
            "end_offset": file.end,
            "length": file.length,
            "allocated": file.allocated,
        }


def _checkpoint(store: Store) -> Iterator[Mapping[str, Any]]:
    if store.checkpoint_path.is_file():
        yield parse_checkpoint(read_whole(store.checkpoint_path, FILE_SIZE))


_TOPIC = Column("topic", "string", "topic")
_QUEUE_ID = Column("queue_id", "bigint", "queue id")
_MIN = Column("min_offset", "bigint", "queue offset of the first entry")
_MAX = Column("max_offset", "bigint", "queue offset after the last entry")

TABLES = (
    Listing(
        "topics",
        "The topics that are configured or have queues.",
        (
            _TOPIC,
            Column("configured", "boolean", "whether topics.json or the database of the configuration has it"),
            Column("queues", "bigint", "queues with files"),
            Column("messages", "bigint", "entries of its queues"),
            Column("read_queues", "bigint", "readQueueNums; null where it is not configured"),
            Column("write_queues", "bigint", "writeQueueNums; null where it is not configured"),
            Column("permissions", "string", "of r read, w write, x inherit, those that are given"),
            Column("message_type", "string", "the attribute message.type; null without one"),
        ),
        ("topic",),
        lambda store: (row.as_json() for row in list_topics(store)),
    ),
    Listing(
        "queues",
        "The queues, with the times of their first and last message.",
        (
            _TOPIC,
            _QUEUE_ID,
            Column("kind", "string", "simple or batch"),
            _MIN,
            _MAX,
            Column("entries", "bigint", "entries of the queue"),
            Column(
                "first_store_timestamp", "bigint", "STORETIMESTAMP of the first message (ms); null if it is not in the log", is_time=True
            ),
            Column("last_store_timestamp", "bigint", "STORETIMESTAMP of the last message (ms); null if it is not in the log", is_time=True),
            Column("bytes", "bigint", "bytes of its files"),
            Column("problem", "string", "why its offsets are not known; null if they are"),
        ),
        ("topic", "queue_id"),
        lambda store: (row.as_json() for row in list_queues(store)),
    ),
    Listing(
        "consumer_groups",
        "The consumer groups that are configured or have offsets.",
        (
            Column("group", "string", "consumer group"),
            Column("configured", "boolean", "whether subscriptionGroup.json or the database of the configuration has it"),
            Column("offsets", "bigint", "queues that it has an offset in"),
            Column("consume_enable", "boolean", "consumeEnable; null where it is not configured"),
            Column("consume_broadcast_enable", "boolean", "consumeBroadcastEnable; null where it is not configured"),
            Column("consume_message_orderly", "boolean", "consumeMessageOrderly (5.0.0 and later); null where it is not configured"),
            Column("retry_queues", "bigint", "retryQueueNums; null where it is not configured"),
            Column("retry_max_times", "bigint", "retryMaxTimes; null where it is not configured"),
        ),
        ("group",),
        lambda store: map(asdict, list_subscriptions(store)),
    ),
    Listing(
        "consumer_offsets",
        "The offsets of consumer groups, with the lag of each.",
        (
            Column("group", "string", "consumer group"),
            _TOPIC,
            _QUEUE_ID,
            Column("offset", "bigint", "offset that the group has committed"),
            _MIN,
            _MAX,
            Column("lag", "bigint", "messages that the queue holds from the offset on"),
            Column("next", "bigint", "queue offset of the next message that the group gets; null if the queue holds none"),
            Column("skipped", "bigint", "messages before the first entry that it never gets"),
            Column("note", "string", "what is odd about the offset; null if nothing is"),
        ),
        ("group", "topic", "queue_id"),
        lambda store: (row.as_json() for row in list_groups(store)),
    ),
    Listing(
        "delay_offsets",
        "The delay levels that have an offset or a queue.",
        (
            Column("level", "int", "delay level, from 1"),
            Column("delay", "bigint", "its delay by the settings (ms); null for a level that they do not have"),
            _QUEUE_ID,
            Column("offset", "bigint", "queue offset of the next message to deliver; null without an entry in delayOffset.json"),
            _MIN,
            _MAX,
            Column("waiting", "bigint", "messages of the queue from the offset on"),
        ),
        ("level", "queue_id"),
        lambda store: map(asdict, list_delays(store)),
    ),
    Listing(
        "checkpoint",
        "The checkpoint, one row if there is one; a field that its release does not have is 0.",
        tuple(
            Column(field.name, "bigint", field.docs, field.name.endswith("_timestamp"))
            for field in CHECKPOINT.subcons
            if field.name != "reserved"
        ),
        (),
        _checkpoint,
    ),
    Listing(
        "log_files",
        "The files of the commit log, also that of DLedger.",
        (
            Column("file", "string", "path of the file below the root of the store"),
            Column("begin_offset", "bigint", "offset of its first byte, the name of the file"),
            Column("end_offset", "bigint", "offset after its last byte"),
            Column("length", "bigint", "length in bytes"),
            Column("allocated", "bigint", "bytes that the file system spent"),
        ),
        (),
        _log_files,
    ),
)
