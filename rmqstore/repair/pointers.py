"""Which queue units point into given ranges of the log: the witnesses of records that cannot be read any more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from rmqstore.repair.logview import LostUnit
from rmqstore.scan.unitruns import UNIT_ROWS
from rmqstore.store.mapped import MappedFile
from rmqstore.store.root import QueueDirectory, Store
from rmqstore.store.window import data_extents, map_window
from rmqstore.verify.batchqueue import UNIT_DTYPE as BATCH_UNIT_ROWS

_CHUNK = 1 << 22


def units_into(store: Store, ranges: Sequence[tuple[int, int]]) -> list[LostUnit]:
    """Every unit of the file queues whose record begins in one of `ranges`, which are ascending [start, end) in physical offsets.

    By position, topic and queue. Reads all queues once. Raises UnreadableError, StoreChangedError.
    """
    if not ranges:
        return []
    starts = np.array([start for start, _ in ranges], np.int64)
    ends = np.array([end for _, end in ranges], np.int64)
    found: list[LostUnit] = []
    for queue, offsets, rows in chain(_plain_units(store), _batch_units(store)):
        positions = rows["physical_offset"].astype(np.int64)
        before = np.searchsorted(starts, positions, side="right") - 1
        inside = (before >= 0) & (positions < ends[before]) & (rows["size"] > 0)
        for row in np.flatnonzero(inside).tolist():
            found.append(LostUnit(queue.topic, queue.queue_id, int(offsets[row]), int(positions[row]), int(rows["size"][row])))
    return sorted(found, key=lambda unit: (unit.position, unit.topic, unit.queue_id, unit.queue_offset))


def last_position(store: Store, end: int) -> int:
    """Return the greatest physical offset below `end` that a unit of the file queues points at, -1 without any.

    Raises UnreadableError, StoreChangedError.
    """
    last = -1
    for _, _, rows in chain(_plain_units(store), _batch_units(store)):
        positions = rows["physical_offset"].astype(np.int64)
        last = max(last, int(positions[(positions < end) & (rows["size"] > 0)].max(initial=-1)))
    return last


Units = Iterator[tuple[QueueDirectory, npt.NDArray[np.int64], npt.NDArray[np.void]]]
"""Queue, queue offsets, units."""


def _plain_units(store: Store) -> Units:
    for queue in store.queue_directories():
        for file in queue.files.files:
            for first, rows in _pieces(file, UNIT_ROWS):
                yield queue, (file.start // UNIT_ROWS.itemsize + first) + np.arange(len(rows)), rows


def _batch_units(store: Store) -> Units:
    for queue in store.batch_queue_directories():
        for file in queue.files.files:
            for _, rows in _pieces(file, BATCH_UNIT_ROWS):
                yield queue, rows["msg_base_offset"].astype(np.int64), rows


def _pieces(file: MappedFile, units: np.dtype[np.void]) -> Iterator[tuple[int, npt.NDArray[np.void]]]:
    """(number of the first unit in the file, units), without the holes of the file."""
    whole = file.length // units.itemsize
    for start, end in data_extents(file):
        first, behind = start // units.itemsize, min(whole, -(-end // units.itemsize))
        step = _CHUNK // units.itemsize
        for begin in range(first, behind, step):
            count = min(step, behind - begin)
            with map_window(file, begin * units.itemsize, count * units.itemsize) as window:
                yield begin, np.frombuffer(window.array.tobytes(), units)
