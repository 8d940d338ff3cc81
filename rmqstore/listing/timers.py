"""Messages that wait for their time, as rows: those of the delay levels and those of the timer, the earliest first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from rmqstore.formats.naming import SCHEDULE_TOPIC, TIMER_TOPIC
from rmqstore.formats.properties import REAL_QID, REAL_TOPIC, TIMER_DEL_UNIQKEY
from rmqstore.formats.record import Record
from rmqstore.listing.configured import configuration
from rmqstore.reading.entries import QueueEntry, units
from rmqstore.reading.records import record_at
from rmqstore.reading.rocksdb.timeline import Timeline, timeline_of
from rmqstore.store.ends import queue_ends
from rmqstore.store.rocksdb.asfiles import with_file_queues
from rmqstore.store.root import Store
from rmqstore.verify.parts.config import DELAY_OFFSETS, stored_offsets
from rmqstore.verify.timer.files import TimerFiles, open_timer, timer_queue
from rmqstore.verify.timer.messages import deliver_time, is_deleted


@dataclass(frozen=True, slots=True)
class TimerRow:
    """One message: due at `due` (ms, None if that is unknown) in `topic`, where it is now by `physical_offset`.

    `kind` is `delay` for a message of delay level `level`, else `timer`. Members that only the record has are None where the log does
    not hold it, for `problem`.
    """

    due: int | None
    overdue: bool
    kind: str
    level: int | None
    topic: str | None
    queue_id: int | None
    keys: str | None
    unique_key: str | None
    queue_offset: int | None
    physical_offset: int
    problem: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the object that JSON output shows (docs/json.md)."""
        return {"type": "timer", **asdict(self)}


def list_timers(store: Store, now: int, topic: str | None = None) -> list[TimerRow]:
    """Return the messages that were not delivered when the broker stopped, the earliest first, those of unknown time last.

    `now` (ms) decides what is overdue. Raises UnreadableError where queues in RocksDB cannot be read, and for damaged offsets of the delay
    levels.
    """
    with with_file_queues(store) as opened:
        rows = [row for row in (*_delayed(opened, now), *_timed(opened, now)) if topic in (None, row.topic)]
    return sorted(rows, key=lambda row: (row.due is None, row.due, row.physical_offset))


def _delayed(store: Store, now: int) -> Iterator[TimerRow]:
    queues = list(store.queue_directories(SCHEDULE_TOPIC))
    if not queues:
        return
    texts = configuration(store, DELAY_OFFSETS)
    stored = {one.queue_id: one.offset for one in stored_offsets(store, texts) if one.topic == SCHEDULE_TOPIC}
    for queue in (one for one in queues if one.topic == SCHEDULE_TOPIC):
        ends = queue_ends(queue.files)
        for entry in units(queue.files, max(stored.get(queue.queue_id, 0), ends.min_offset), ends.max_offset):
            yield _row(store, entry, now, queue.queue_id + 1)


def _row(store: Store, entry: QueueEntry, now: int, level: int) -> TimerRow:
    record = record_at(store.message_log, entry.physical_offset)
    if record is None or record.topic != SCHEDULE_TOPIC:
        return _lost("delay", level, entry.queue_offset, entry.physical_offset)
    return _made(record, record.tags_code(store.config.known_delay_levels), now, "delay", level)


def _timed(store: Store, now: int) -> Iterator[TimerRow]:
    """Yield the messages of the timer; deleted ones are left out."""
    records = timer_records(store)
    deleted = {record.properties[TIMER_DEL_UNIQKEY] for record in records.values() if record and TIMER_DEL_UNIQKEY in record.properties}
    for offset, record in records.items():
        if record is None or record.topic != TIMER_TOPIC:
            yield _lost("timer", None, None, offset)
        elif TIMER_DEL_UNIQKEY not in record.properties and not is_deleted(record.properties.get(REAL_TOPIC), record.unique_key, deleted):
            yield _made(record, deliver_time(record.properties), now, "timer", None)


def timer_records(store: Store) -> dict[int, Record | None]:
    """Return the records that the timer holds, in files or in RocksDB, and those of its queue that it has not read yet, by physical offset.

    None where the log does not hold it. Raises UnreadableError, StoreChangedError.
    """
    files, timeline = open_timer(store, 0), timeline_of(store)
    in_database = () if timeline is None else (entry.physical_offset for entry in timeline.pending)
    offsets = [*_in_wheel(files), *in_database, *_not_read(store, files, timeline)]
    return {offset: record_at(store.message_log, offset) for offset in dict.fromkeys(offsets)}


def _in_wheel(files: TimerFiles) -> Iterator[int]:
    for window in files.log.windows():
        live = np.flatnonzero(window.sound & files.is_live(files.slot_time(window.units)))
        yield from window.units["offset_py"][live].tolist()


def _not_read(store: Store, files: TimerFiles, timeline: Timeline | None) -> Iterator[int]:
    queue = timer_queue(store)
    if queue.files:
        ends = queue_ends(queue)
        first = 0 if files.check is None else int(files.check.last_timer_queue_offset)
        if timeline is not None and timeline.scanned is not None:
            first = max(first, timeline.scanned)  # a start continues there (sheet of the newer releases §7.1)
        yield from (entry.physical_offset for entry in units(queue, max(first, ends.min_offset), ends.max_offset))


def _made(record: Record, due: int | None, now: int, kind: str, level: int | None) -> TimerRow:
    queue_id = record.properties.get(REAL_QID, "")
    return TimerRow(
        due,
        due is not None and due < now,
        kind,
        level,
        record.properties.get(REAL_TOPIC),
        int(queue_id) if queue_id.isascii() and queue_id.isdigit() else None,
        record.keys,
        record.unique_key,
        record.queue_offset,
        record.physical_offset,
    )


def _lost(kind: str, level: int | None, queue_offset: int | None, offset: int) -> TimerRow:
    return TimerRow(None, False, kind, level, None, None, None, None, queue_offset, offset, "the log does not hold the message")
