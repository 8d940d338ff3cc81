"""Records with units in queues of %LMQ% topics: releases differ, and the units that are there show what the writer did."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from rmqstore.formats.naming import LMQ_PREFIX, RETRY_PREFIX
from rmqstore.reading.records import read_record
from rmqstore.scan.unitruns import UNIT_ROWS
from rmqstore.store.root import QueueDirectory, Store
from rmqstore.store.window import read_at
from rmqstore.verify.queues.multidispatch import entries
from rmqstore.versions import Profile

_LOOKED_AT = 4096  # units of all queues together


def as_written(store: Store, profile: Profile) -> Profile:
    """Return `profile` with %RETRY% topics dispatched to %LMQ% queues, as 4.x does, if there are such units.

    Raises UnreadableError, StoreChangedError.
    """
    if RETRY_PREFIX not in profile.lmq_excluded:
        return profile
    queues = [queue for queue in store.queue_directories() if queue.topic.startswith(LMQ_PREFIX)]
    most = max(1, _LOOKED_AT // max(1, len(queues)))
    if not any(_is_of_retry(store, queue, *unit) for queue in queues for unit in _units(queue, most)):
        return profile
    return replace(profile, lmq_excluded=tuple(topic for topic in profile.lmq_excluded if topic != RETRY_PREFIX))


def _units(queue: QueueDirectory, most: int) -> Iterator[tuple[int, int]]:
    """Yield queue offset and physical offset of the first units of a queue."""
    for file in queue.files.files[:1]:
        count = min(most, file.length // UNIT_ROWS.itemsize)
        rows = np.frombuffer(read_at(file, 0, count * UNIT_ROWS.itemsize), UNIT_ROWS)
        for row in np.flatnonzero(rows["size"] > 0).tolist():
            yield file.start // UNIT_ROWS.itemsize + row, int(rows["physical_offset"][row])


def _is_of_retry(store: Store, queue: QueueDirectory, queue_offset: int, position: int) -> bool:
    """Return whether the unit at a queue offset is that of a record of a %RETRY% topic, which names queue and queue offset."""
    file = store.commitlog.find(position)
    record = None if file is None else read_record(file, position)
    if record is None or not record.topic.startswith(RETRY_PREFIX):
        return False
    return any(entry.key == (queue.topic, queue.queue_id) and entry.number == queue_offset for entry in entries(record))
