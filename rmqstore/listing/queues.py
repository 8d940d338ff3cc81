"""The queues of a store as rows: offsets, times of the first and the last message, bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from rmqstore.errors import UnreadableError
from rmqstore.formats import consumequeue
from rmqstore.reading.entries import batch_units, unit_at
from rmqstore.reading.records import record_at
from rmqstore.store.ends import QueueEnds, batch_queue_ends, queue_ends
from rmqstore.store.mapped import MappedFileQueue
from rmqstore.store.queues import QueueDirectory
from rmqstore.store.rocksdb.asfiles import with_file_queues
from rmqstore.store.root import Store


@dataclass(frozen=True, slots=True)
class QueueRow:
    """One queue: queue offsets [min_offset, max_offset), store times in ms, bytes of its files.

    `kind` is `simple` or `batch`. A time is None where the log does not hold the record; offsets are None where the queue cannot be read,
    for `problem`.
    """

    topic: str
    queue_id: int
    kind: str
    min_offset: int | None
    max_offset: int | None
    entries: int | None
    first_store_timestamp: int | None
    last_store_timestamp: int | None
    bytes: int
    problem: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the object that JSON output shows (docs/json.md)."""
        return {"type": "queue", **asdict(self)}


def list_queues(store: Store, topic: str | None = None, queue_id: int | None = None, *, times: bool = True) -> Iterator[QueueRow]:
    """Yield the queues, by topic and queue id; those of one topic alone are listed without the others.

    A few reads for each queue; with `times` also its first and its last record. Queues in RocksDB are read whole; raises UnreadableError
    where that is not possible.
    """
    with with_file_queues(store) as opened:
        for kind, listed, ends in (
            ("simple", opened.queue_directories(topic), queue_ends),
            ("batch", opened.batch_queue_directories(), batch_queue_ends),
        ):
            for queue in listed:
                if topic in (None, queue.topic) and queue_id in (None, queue.queue_id):
                    yield _row(store, queue, kind, ends, times)


def _row(store: Store, queue: QueueDirectory, kind: str, find: Callable[[MappedFileQueue], QueueEnds], times: bool) -> QueueRow:
    size = sum(file.length for file in queue.files.files)
    try:
        ends = find(queue.files)
        wanted = times and ends.entries > 0
        first = _time(store, _first_physical_offset(queue, kind, ends)) if wanted else None
        last = _time(store, ends.last_physical_offset) if wanted else None
    except UnreadableError as error:
        return QueueRow(queue.topic, queue.queue_id, kind, None, None, None, None, None, size, error.message)
    return QueueRow(queue.topic, queue.queue_id, kind, ends.min_offset, ends.max_offset, ends.entries, first, last, size)


def _first_physical_offset(queue: QueueDirectory, kind: str, ends: QueueEnds) -> int:
    if kind == "batch":
        return next((entry.physical_offset for entry in batch_units(queue.files, ends.min_offset, ends.max_offset)), -1)
    unit = unit_at(queue.files, ends.min_offset)
    return -1 if unit is None or unit.size == consumequeue.PRE_BLANK_SIZE else unit.physical_offset


def _time(store: Store, offset: int) -> int | None:
    record = record_at(store.message_log, offset)
    return None if record is None else record.store_timestamp
