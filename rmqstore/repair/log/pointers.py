"""Queue units that point into given ranges of the log: the witnesses of records that cannot be read any more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rmqstore.repair.log.exchanged_entries import EntryPlace, OutOfOrder
from rmqstore.repair.log.future import LostUnit
from rmqstore.scan.ranges import in_ranges
from rmqstore.scan.unitruns import UNIT_ROWS
from rmqstore.store.mapped import MappedFile
from rmqstore.store.parts import PartKind
from rmqstore.store.root import QueueDirectory, Store
from rmqstore.store.window import data_extents, map_window
from rmqstore.verify.context import Context, LogFacts, Options
from rmqstore.verify.queues.batchqueue import UNIT_DTYPE as BATCH_UNIT_ROWS
from rmqstore.verify.queues.exchanged import Held, exchanged_files, other_sides
from rmqstore.verify.queues.spans import QueueKey
from rmqstore.verify.queues.targets import Targets

_CHUNK = 1 << 22


def units_into(store: Store, ranges: Sequence[tuple[int, int]]) -> list[LostUnit]:
    """Return every unit of the file queues whose record begins in one of `ranges`, which are ascending [start, end) in physical offsets.

    By position, topic and queue. Reads all queues once. Raises UnreadableError, StoreChangedError.
    """
    return _sorted(unit for _, _, unit in _units_into(store, ranges))


def lost_units(store: Store, log: LogFacts, odd: Sequence[tuple[int, int]]) -> list[LostUnit]:
    """Return the units that point into the damages of `log` or at the records in the ranges `odd`, which may be wrong.

    Those in files that hold the units of another place, and those that were exchanged with another one, are named by that place. By
    position, topic and queue, each one once. Reads all queues once, and of queues with such units what the other ones point at. Raises
    UnreadableError, StoreChangedError.
    """
    ranges = sorted([*log.damages, *odd])
    simple = store.path_of(PartKind.CONSUMEQUEUE)
    # Records whose queue is in doubt decide where files belong only where no other records do.
    lookups = [_Lookup(store, replace(log, damages=ranges)), _Lookup(store, log)]
    odd_ones = OutOfOrder()
    pointing = list(_units_into(store, ranges, odd_ones))
    queues = {(queue.topic, queue.queue_id): queue for queue, _, _ in pointing if queue.directory.is_relative_to(simple)}
    held: dict[Path, Held] = {}
    for queue in queues.values():
        answers = (lookup.held(queue) for lookup in lookups)
        held |= next((answer for answer in answers if answer), {})
    for files in lookups[0].other_sides(queues, held).values() if held else ():
        held |= files
    found: set[LostUnit] = set()
    for _, file, unit in pointing:
        place = held.get(file.path)
        if place is not None:
            queue_offset = unit.queue_offset - file.start // UNIT_ROWS.itemsize + place.first
            unit = replace(unit, topic=place.owner[0], queue_id=place.owner[1], queue_offset=queue_offset)
        found.add(unit)
    return _sorted(_in_their_places(found, odd_ones.exchanged()))


def _in_their_places(units: Iterable[LostUnit], exchanged: Mapping[EntryPlace, EntryPlace]) -> Iterator[LostUnit]:
    for unit in units:
        place = exchanged.get((unit.topic, unit.queue_id, unit.queue_offset))
        yield unit if place is None else replace(unit, topic=place[0], queue_id=place[1], queue_offset=place[2])


class _Lookup:
    """Files of queues that hold the units of another place, by the log outside of its damages."""

    def __init__(self, store: Store, log: LogFacts) -> None:
        self._context = Context(store, Options())
        self._context.log = log
        self._targets = Targets(self._context)

    def held(self, queue: QueueDirectory) -> Mapping[Path, Held]:
        """Return those of one queue with the place that each one holds. Raises UnreadableError, StoreChangedError."""
        return exchanged_files(self._context, self._targets, (queue.topic, queue.queue_id), queue)

    def other_sides(self, queues: Mapping[QueueKey, QueueDirectory], held: Mapping[Path, Held]) -> Mapping[QueueKey, Mapping[Path, Held]]:
        """Return the files that show nothing, by what the others show. Raises UnreadableError, StoreChangedError."""
        return other_sides(self._context, self._targets, queues, held)


def _units_into(
    store: Store, ranges: Sequence[tuple[int, int]], odd_ones: OutOfOrder | None = None
) -> Iterator[tuple[QueueDirectory, MappedFile, LostUnit]]:
    """Yield the units that point into the ranges; those out of order in file queues are added to `odd_ones`."""
    if not ranges:
        return
    for queue, file, offsets, rows in chain(_plain_units(store), _batch_units(store)):
        if odd_ones is not None and rows.dtype == UNIT_ROWS:
            odd_ones.add(queue.topic, queue.queue_id, offsets, rows)
        positions = rows["physical_offset"].astype(np.int64)
        for row in np.flatnonzero(in_ranges(positions, ranges) & (rows["size"] > 0)).tolist():
            yield queue, file, LostUnit(queue.topic, queue.queue_id, int(offsets[row]), int(positions[row]), int(rows["size"][row]))


def _sorted(units: Iterable[LostUnit]) -> list[LostUnit]:
    return sorted(units, key=lambda unit: (unit.position, unit.topic, unit.queue_id, unit.queue_offset))


def last_position(store: Store, end: int) -> int:
    """Return the greatest physical offset below `end` that a unit of the file queues points at, -1 without any.

    Raises UnreadableError, StoreChangedError.
    """
    last = -1
    for _, _, _, rows in chain(_plain_units(store), _batch_units(store)):
        positions = rows["physical_offset"].astype(np.int64)
        last = max(last, int(positions[(positions < end) & (rows["size"] > 0)].max(initial=-1)))
    return last


Units = Iterator[tuple[QueueDirectory, MappedFile, npt.NDArray[np.int64], npt.NDArray[np.void]]]
"""Queue, file, queue offsets, units."""


def _plain_units(store: Store) -> Units:
    for queue in store.queue_directories():
        for file in queue.files.files:
            for first, rows in unit_pieces(file, UNIT_ROWS):
                yield queue, file, (file.start // UNIT_ROWS.itemsize + first) + np.arange(len(rows)), rows


def _batch_units(store: Store) -> Units:
    for queue in store.batch_queue_directories():
        for file in queue.files.files:
            for _, rows in unit_pieces(file, BATCH_UNIT_ROWS):
                yield queue, file, rows["msg_base_offset"].astype(np.int64), rows


def unit_pieces(file: MappedFile, units: np.dtype[np.void]) -> Iterator[tuple[int, npt.NDArray[np.void]]]:
    """Yield (number of the first unit in the file, units), without the holes of the file."""
    whole = file.length // units.itemsize
    for start, end in data_extents(file):
        first, behind = start // units.itemsize, min(whole, -(-end // units.itemsize))
        step = _CHUNK // units.itemsize
        for begin in range(first, behind, step):
            count = min(step, behind - begin)
            with map_window(file, begin * units.itemsize, count * units.itemsize) as window:
                yield begin, np.frombuffer(window.array.tobytes(), units)
