"""Undecided messages as rows: half messages of open transactions, and messages that were popped and not acknowledged.

Source: fact sheet timer and config §5, §6.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rmqstore.formats.naming import HALF_TOPIC, OP_HALF_TOPIC
from rmqstore.formats.properties import PGROUP, REAL_QID, REAL_TOPIC, TRAN_PREPARED_QUEUE_OFFSET, TRANSACTION_CHECK_TIMES
from rmqstore.formats.record import Record
from rmqstore.listing.configured import configuration
from rmqstore.listing.timers import timer_records
from rmqstore.reading.entries import QueueEntry, units
from rmqstore.reading.popcheckpoints import REVIVE_TOPIC, Acknowledgement, CheckPoint, Key, parsed
from rmqstore.reading.records import record_at
from rmqstore.reading.rocksdb.halves import halves_of
from rmqstore.reading.rocksdb.popstate import pop_state
from rmqstore.store.ends import queue_ends
from rmqstore.store.rocksdb.asfiles import with_file_queues
from rmqstore.store.root import QueueDirectory, Store
from rmqstore.verify.parts.config import CONSUMER_OFFSETS, stored_offsets

_OWNERS = ("group CID_RMQ_SYS_TRANS", "group CID_RMQ_SYS_REVIVE_GROUP")

_Offsets = Mapping[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class PendingRow:
    """A half message or a check point, whose record is at `physical_offset`, and the time (ms) that it is counted from.

    A broker with popConsumerKVServiceEnable has no check points: then the record is the first of the messages.

    `kind` is `transaction`: a half message for `topic` from producers of `group`, born at `time`, which a broker asked for `checks` times.
    `kind` is `pop`: the messages at `offsets` of a queue, which `group` popped at `time`, and which it gets again from `due` on.
    Members that only the record has are None where the log does not hold it, for `problem`.
    """

    kind: str
    time: int | None
    due: int | None
    topic: str | None
    queue_id: int | None
    group: str | None
    keys: str | None
    unique_key: str | None
    checks: int | None
    offsets: list[int] | None
    physical_offset: int | None
    problem: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the object that JSON output shows (docs/json.md)."""
        return {"type": "pending", **asdict(self)}


def list_pending(store: Store, topic: str | None = None) -> list[PendingRow]:
    """Return what was undecided when the broker stopped, the oldest first, for one topic or all.

    Raises UnreadableError where queues or configuration in RocksDB cannot be read, and for damaged consumer offsets.
    """
    texts = configuration(store, CONSUMER_OFFSETS)
    offsets = {(one.topic, one.queue_id): one.offset for one in stored_offsets(store, texts) if one.owner in _OWNERS}
    with with_file_queues(store) as opened:
        rows = [
            row
            for row in (*_half_messages(opened, offsets), *_in_rocksdb(opened), *_popped(opened, offsets), *_in_pop_state(opened))
            if topic in (None, row.topic)
        ]
    return sorted(rows, key=lambda row: (row.time is None, row.time, row.physical_offset or 0))


def _entries(queue: QueueDirectory, begin: int) -> Iterator[QueueEntry]:
    ends = queue_ends(queue.files)
    yield from units(queue.files, max(begin, ends.min_offset), ends.max_offset)


# Transactions


def _half_messages(store: Store, offsets: _Offsets) -> Iterator[PendingRow]:
    """Yield the half messages that neither an op message nor a committed message ends, each where it was asked for last."""
    ended = set(_ended(store, offsets))
    latest: dict[object, tuple[int, QueueEntry, Record]] = {}
    for queue in store.queue_directories(HALF_TOPIC):
        for entry in _entries(queue, offsets.get((HALF_TOPIC, queue.queue_id), 0)) if queue.topic == HALF_TOPIC else ():
            record = record_at(store.message_log, entry.physical_offset)
            if record is None or record.topic != HALF_TOPIC:
                if (queue.queue_id, entry.queue_offset) not in ended:
                    yield _lost("transaction", entry.physical_offset)
                continue
            first = _number(record.properties.get(TRAN_PREPARED_QUEUE_OFFSET))
            if (queue.queue_id, entry.queue_offset) in ended or (queue.queue_id, first) in ended:
                latest.pop(record.unique_key, None)
                continue
            latest[record.unique_key or entry.physical_offset] = queue.queue_id, entry, record
    committed = set(_committed(store, [record for _, _, record in latest.values()]))
    for _, _, record in latest.values():
        if record.physical_offset not in committed:
            yield _open_transaction(record)


def _in_rocksdb(store: Store) -> Iterator[PendingRow]:
    """Yield the half messages that a broker with transRocksDBEnable has no answer for in the log."""
    for half in halves_of(store).open.values():
        record = record_at(store.message_log, half.physical_offset)
        yield _lost("transaction", half.physical_offset) if record is None else _open_transaction(record)


def _open_transaction(record: Record) -> PendingRow:
    return PendingRow(
        "transaction",
        record.born_timestamp,
        None,
        record.properties.get(REAL_TOPIC),
        _number(record.properties.get(REAL_QID)),
        record.properties.get(PGROUP),
        record.keys,
        record.unique_key,
        _number(record.properties.get(TRANSACTION_CHECK_TIMES)) or 0,
        None,
        record.physical_offset,
    )


def _ended(store: Store, offsets: _Offsets) -> Iterator[tuple[int, int]]:
    """Yield the queue ids and queue offsets of half messages that op messages end: one number, or many with commas (5.1.0 and later)."""
    for queue in store.queue_directories(OP_HALF_TOPIC):
        for entry in _entries(queue, offsets.get((OP_HALF_TOPIC, queue.queue_id), 0)) if queue.topic == OP_HALF_TOPIC else ():
            record = record_at(store.message_log, entry.physical_offset)
            numbers = [] if record is None or record.topic != OP_HALF_TOPIC else record.body.decode("ascii", "replace").split(",")
            yield from ((queue.queue_id, number) for text in numbers if (number := _number(text)) is not None)


def _committed(store: Store, halves: list[Record]) -> Iterator[int]:
    """Yield the physical offsets of half messages whose committed message is in the log: the op message was lost in a crash."""
    oldest: dict[tuple[str | None, int | None], int] = {}
    for half in halves:
        place = half.properties.get(REAL_TOPIC), _number(half.properties.get(REAL_QID))
        oldest[place] = min(half.physical_offset, oldest.get(place, half.physical_offset))
    for (topic, queue_id), first in oldest.items():
        for queue in store.queue_directories(topic) if topic is not None else ():
            for entry in _entries(queue, 0) if (queue.topic, queue.queue_id) == (topic, queue_id) else ():
                record = record_at(store.message_log, entry.physical_offset) if entry.physical_offset > first else None
                if record is not None:
                    yield record.prepared_transaction_offset


# Pop


def _popped(store: Store, offsets: _Offsets) -> Iterator[PendingRow]:
    """Yield the check points with messages that were not acknowledged: those in revive queues, and those in the timer, not due yet."""
    points: dict[Key, tuple[CheckPoint, int]] = {}
    acknowledged: dict[Key, frozenset[int]] = {}
    for offset, record in _revive_records(store, offsets):
        match None if record is None else parsed(record.body):
            case CheckPoint() as point:
                points[point.key] = point, offset
            case Acknowledgement(key, done):
                acknowledged[key] = acknowledged.get(key, frozenset()) | done
            case None if record is None:
                yield _lost("pop", offset)
    for point, offset in points.values():
        left = sorted(point.offsets - acknowledged.get(point.key, frozenset()))
        if left:
            topic, group, queue_id, _, time, _ = point.key
            yield PendingRow("pop", time, point.due, topic, queue_id, group, None, None, None, left, offset)


def _revive_records(store: Store, offsets: _Offsets) -> Iterator[tuple[int, Record | None]]:
    """Yield the physical offsets and records of revive messages that were not done; an offset is that of the last one that was."""
    for queue in store.queue_directories():
        if queue.topic.startswith(REVIVE_TOPIC):
            for entry in _entries(queue, offsets.get((queue.topic, queue.queue_id), -1) + 1):
                yield entry.physical_offset, record_at(store.message_log, entry.physical_offset)
    for offset, record in timer_records(store).items():
        if record is not None and record.properties.get(REAL_TOPIC, "").startswith(REVIVE_TOPIC):
            yield offset, record


def _in_pop_state(store: Store) -> Iterator[PendingRow]:
    """Yield the messages in kvStore, those of a queue that a group popped at once together."""
    state = pop_state(store)
    popped: dict[tuple[int, int, str, int, str], list[int]] = {}
    for one in state.messages if state is not None else ():
        popped.setdefault((one.time, one.due, one.topic, one.queue_id, one.group), []).append(one.queue_offset)
    queues = {(queue.topic, queue.queue_id): queue.files for queue in store.queue_directories()} if popped else {}
    for (time, due, topic, queue_id, group), offsets in popped.items():
        first, files = min(offsets), queues.get((topic, queue_id))
        entry = None if files is None or first < 0 else next(units(files, first, first + 1), None)
        place, problem = (None, "the queue does not hold the message") if entry is None else (entry.physical_offset, None)
        yield PendingRow("pop", time, due, topic, queue_id, group, None, None, None, sorted(offsets), place, problem)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdecimal() else None


def _lost(kind: str, offset: int) -> PendingRow:
    return PendingRow(kind, None, None, None, None, None, None, None, None, None, offset, "the log does not hold the message")
