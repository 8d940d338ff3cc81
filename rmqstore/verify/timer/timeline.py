"""Timed messages in RocksDB against the log, both ways (sheet of the newer releases §7.2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from rmqstore.findings import Finding
from rmqstore.formats.naming import TIMER_TOPIC
from rmqstore.formats.properties import TIMER_DEL_UNIQKEY, UNIQ_KEY
from rmqstore.formats.record import Record
from rmqstore.reading.entries import units
from rmqstore.reading.rocksdb.timeline import Timeline, TimelineEntry, timeline_of
from rmqstore.scan.walk import LogScanner
from rmqstore.store.ends import queue_ends
from rmqstore.store.parts import PartKind
from rmqstore.store.rocksdb.asfiles import with_file_queues
from rmqstore.store.rocksdb.databases import is_on
from rmqstore.verify.context import Context
from rmqstore.verify.guard import guarded, limited
from rmqstore.verify.timer.files import timer_queue
from rmqstore.verify.timer.messages import deliver_time
from rmqstore.wording import counted

CODE = "RMQ-RD-TIMER"
SWITCH = "timerRocksDBEnable"
_MOST_READ = 100_000


def check(context: Context) -> Iterator[Finding]:
    """Yield findings about timed messages in RocksDB. Reads the column family, the records that it names, and the timer's queue."""
    path = context.store.path_of(PartKind.ROCKSDBSTORE)
    if path.is_dir():
        yield from guarded(context, path, lambda: limited(context, path, _check(context, path)))


def _check(context: Context, path: Path) -> Iterator[Finding]:
    timeline = timeline_of(context.store)
    if timeline is None:
        return
    if timeline.odd:
        text = f"entries of the family timer that have another form: {timeline.odd}"
        yield context.finding(CODE, text, file=path, found=timeline.odd)
    for entry in timeline.pending:
        why = _wrong(context, entry)
        if why is not None:
            text = f"the timed message {entry.unique_key} is not delivered: {why}"
            yield context.finding(CODE, text, file=path, offset=entry.physical_offset, count=1)
    yield from _not_entered(context, path, timeline)


def _wrong(context: Context, entry: TimelineEntry) -> str | None:
    """Return how an entry contradicts the record that it names, None if it does not."""
    record = context.record_at(entry.physical_offset)
    if record is None:
        return f"no record begins at offset {entry.physical_offset}"
    if record.topic != TIMER_TOPIC:
        return f"the record at offset {entry.physical_offset} is of {record.topic}"
    if record.unique_key != entry.unique_key or record.size != entry.size or deliver_time(record.properties) != entry.due:
        return f"the record at offset {entry.physical_offset} is another message, of {record.size} bytes"
    return None


def _not_entered(context: Context, path: Path, timeline: Timeline) -> Iterator[Finding]:
    """Yield messages of the timer's queue that were read and are neither delivered nor in the timeline, and a place after its end."""
    with with_file_queues(context.store) as store:
        queue = timer_queue(store)
        if timeline.scanned is None or not queue.files:
            return
        ends = queue_ends(queue)
        if timeline.scanned > ends.max_offset:
            where = f"queue offset {timeline.scanned} of {TIMER_TOPIC}, which ends at {ends.max_offset}"
            text = f"reading continues at {where}: what comes is skipped"
            yield context.finding(CODE, text, file=path, topic=TIMER_TOPIC, queue_id=0, expected=ends.max_offset, found=timeline.scanned)
        known = {entry.unique_key for entry in timeline.entries}
        lost, deleted = [], set()
        for unit in units(queue, ends.min_offset, min(timeline.scanned, ends.max_offset)):
            record = context.record_at(unit.physical_offset)
            if record is None or record.unique_key is None:
                continue
            if TIMER_DEL_UNIQKEY in record.properties:
                deleted.add(record.properties[TIMER_DEL_UNIQKEY].rpartition("_")[2])
                continue
            due = deliver_time(record.properties)
            if due is not None and (timeline.delivered is None or due >= timeline.delivered) and record.unique_key not in known:
                lost.append(record)
    lost = [record for record in lost if record.unique_key not in deleted]
    if lost:
        there = _delivered(context, lost)
        lost = [record for record in lost if record.unique_key not in there]
    if lost:
        text = f"{counted(len(lost), 'timed message')} that the timer has read {'is' if len(lost) == 1 else 'are'} not in the family timer"
        first = lost[0]
        place = {"topic": TIMER_TOPIC, "queue_id": 0, "queue_offset": first.queue_offset, "offset": first.physical_offset}
        yield context.finding(CODE, f"{text}, and not delivered: the first one is {first.unique_key}", file=path, count=len(lost), **place)


def _delivered(context: Context, timed: Sequence[Record]) -> set[str]:
    """Return the unique keys of those that a message of another topic has, born at the same time: the log shows that it was delivered."""
    found: set[str] = set()
    scanner, start = LogScanner(), min(record.physical_offset for record in timed)
    keys, born = {record.unique_key for record in timed}, [record.born_timestamp for record in timed]
    for file in context.store.message_log.files:
        for batch in scanner.batches(file) if file.end > start else ():
            others = [number for number in np.unique(batch.records["topic"]).tolist() if scanner.topic(number) != TIMER_TOPIC]
            wanted = np.isin(batch.records["topic"], others) & np.isin(batch.records["born_timestamp"], born)
            for row in np.flatnonzero(wanted).tolist():
                key = batch.properties(row).get(UNIQ_KEY)
                if key is not None and key in keys:
                    found.add(key)
    return found


def entered_again(context: Context, cursor: int, end: int) -> int:
    """Count the messages that a start delivers again: read from the timer's queue once more, and due while the broker ran.

    `cursor`: the first queue offset of the queue that a wheel would read, `end`: after its last one. A kill loses what RocksDB had only in
    memory, and with it up to where the queue was read. Without a database, or with timerRocksDBEnable off, there are none. Of more than
    100,000 messages, and of a queue that is in RocksDB itself, all are counted, due or not.
    """
    switch = context.store.config.explicit(SWITCH)
    if not context.store.path_of(PartKind.ROCKSDBSTORE).is_dir() or (switch is not None and not is_on(switch)):
        return 0
    timeline = timeline_of(context.store)
    begin = max(cursor, 0 if timeline is None or timeline.scanned is None else timeline.scanned)
    queue = timer_queue(context.store)
    if end - begin > _MOST_READ or not queue.files:
        return max(0, end - begin)
    count = 0
    for unit in units(queue, begin, end):
        record = context.record_at(unit.physical_offset)
        due = None if record is None or TIMER_DEL_UNIQKEY in record.properties else deliver_time(record.properties)
        count += due is not None and due <= context.log.last_timestamp
    return count
