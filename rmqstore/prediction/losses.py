"""Records that a start loses: valid records after the end that it finds, in files it deletes or beyond its write position."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from rmqstore.prediction.log.mappedfiles import SimulatedFile
from rmqstore.scan.columns import Check, Fault
from rmqstore.scan.walk import Batch, LogScanner
from rmqstore.store.mapped import MappedFile


@dataclass(frozen=True, slots=True)
class LostQueue:
    """Lost messages of one queue. Offsets are queue offsets, times ms since epoch; all ranges include both ends."""

    topic: str
    queue_id: int
    messages: int
    bytes: int
    min_queue_offset: int
    max_queue_offset: int
    min_store_timestamp: int
    max_store_timestamp: int


@dataclass(frozen=True, slots=True)
class Lost:
    """All lost messages, and the same by queue."""

    messages: int
    bytes: int
    by_queue: tuple[LostQueue, ...]


NOTHING_LOST = Lost(0, 0, ())


def lost_records(files: Iterable[SimulatedFile | MappedFile], end: int) -> Lost:
    """Return the records at or after offset `end` in `files` (as they were listed): whole, in place, with a body that fits its CRC."""
    scanner = LogScanner(checks=Check.BODY_CRC)
    found: dict[int, LostQueue] = {}
    for file in files:
        if file.end <= end:
            continue
        start = max(end, file.start)
        for batch in scanner.batches(MappedFile(file.path, file.start, file.length, file.length), start=start):
            _add(found, batch, scanner)
    queues = tuple(sorted(found.values(), key=lambda queue: (queue.topic, queue.queue_id)))
    return Lost(sum(queue.messages for queue in queues), sum(queue.bytes for queue in queues), queues)


def _add(found: dict[int, LostQueue], batch: Batch, scanner: LogScanner) -> None:
    sound = (batch.records["faults"] & (Fault.PHYSICAL_OFFSET | Fault.BODY_CRC)) == 0
    records = batch.records[sound]
    for number in np.unique(records["queue"]):
        rows = records[records["queue"] == number]
        topic, queue_id = scanner.queue(int(number))
        offsets, times = rows["queue_offset"], rows["store_timestamp"]
        before = found.get(int(number))
        low, high, first, last = int(offsets.min()), int(offsets.max()), int(times.min()), int(times.max())
        found[int(number)] = LostQueue(
            topic,
            queue_id,
            len(rows) + (before.messages if before else 0),
            int(rows["size"].sum(dtype=np.int64)) + (before.bytes if before else 0),
            min(low, before.min_queue_offset) if before else low,
            max(high, before.max_queue_offset) if before else high,
            min(first, before.min_store_timestamp) if before else first,
            max(last, before.max_store_timestamp) if before else last,
        )
