"""Further queues of multi-dispatched records: which unit of which queue each record should have.

A broker numbers the messages of such a queue when it appends them to the log and writes the units later. Numbers may repeat (concurrent
appends) or be skipped (a numbered message that was not dispatched); units are then at other places than the numbers say, without damage.
Source: fact sheet queues §2.5, §2.12.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto

import numpy as np
import numpy.typing as npt

from rmqstore.errors import RmqstoreError
from rmqstore.formats.consumequeue import PRE_BLANK, UNIT, UNIT_SIZE
from rmqstore.formats.javahash import java_split
from rmqstore.formats.layout import fixed_layout
from rmqstore.formats.naming import LMQ_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC, SYSTEM_PREFIX
from rmqstore.formats.properties import INNER_MULTI_DISPATCH, INNER_MULTI_QUEUE_OFFSET
from rmqstore.formats.record import Record
from rmqstore.formats.sysflag import TransactionType
from rmqstore.reading.records import read_record
from rmqstore.scan.columns import Mark
from rmqstore.scan.walk import Batch, LogScanner
from rmqstore.store.mapped import MappedFile, MappedFileQueue
from rmqstore.store.root import QueueDirectory
from rmqstore.store.window import read_at
from rmqstore.verify.context import Context
from rmqstore.verify.queues.units import QueueKey

_PHYSICAL_OFFSET = fixed_layout(UNIT)["physical_offset"]
_ZEROS = bytes(UNIT_SIZE)
_NO_UNIT = int(TransactionType.PREPARED)  # bit of prepared and of rolled back records in SYSFLAG
_NEVER_WRITTEN = 1 << 62
_BEFORE_ALL = -1
_CHUNK_UNITS = 64
# A broker may have a queue per client; what is remembered of each is cheap to find again.
_REMEMBERED_QUEUES = 20_000


@dataclass(frozen=True, slots=True)
class Entry:
    """One further queue that a record was numbered for, and the number (its place in INNER_MULTI_QUEUE_OFFSET)."""

    key: QueueKey
    number: int


class Deviation(Enum):
    """Deviations of the units of a further queue from the numbers."""

    SHIFTED = auto()  # units at other places than the numbers say
    DROPPED = auto()  # no unit, because the number had been given before
    LOST = auto()  # no unit, although the places around it are taken by other records


@dataclass(slots=True)
class Renumbered:
    """Records of one queue that share a deviation: how many, and the first one with its number and the place of its unit."""

    count: int = 0
    position: int = -1
    number: int = -1
    place: int = -1

    def note(self, position: int, number: int, place: int, count: int = 1) -> None:
        """Add `count` more of them, the first at `position`."""
        if not self.count:
            self.position, self.number, self.place = position, number, place
        self.count += count


def entries(record: Record) -> Iterator[Entry]:
    """Yield the further queues of a record up to the first one whose number cannot be read, where the dispatcher of 5.x stops."""
    return _entries(record.properties, record.queue_id)


def _entries(properties: Mapping[str, str], queue_id: int) -> Iterator[Entry]:
    names = java_split(properties.get(INNER_MULTI_DISPATCH, ""), ",")
    numbers = java_split(properties.get(INNER_MULTI_QUEUE_OFFSET, ""), ",")
    if len(names) != len(numbers):
        return
    for name, number in zip(names, numbers, strict=True):
        if not (number.isascii() and number.isdigit() and len(number) <= 18):
            return
        if name and "/" not in name:
            yield Entry((name, 0 if name.startswith(LMQ_PREFIX) else queue_id), int(number))


def maybe_not_dispatched(topic: str) -> bool:
    """Return whether some releases number the records of a topic but do not dispatch them, or neither (5.1.4 and later)."""
    return topic.startswith((RETRY_PREFIX, SYSTEM_PREFIX)) or topic == SCHEDULE_TOPIC


class Dispatches:
    """Finder of the places of units of further queues for the records of one log file."""

    def __init__(self, context: Context, queues: Mapping[QueueKey, QueueDirectory], scanner: LogScanner) -> None:
        self._context = context
        self._queues = queues
        self._scanner = scanner
        self._readers: dict[QueueKey, _UnitReader] = {}
        self._shifts: dict[QueueKey, int] = {}
        self.renumbered: dict[Deviation, dict[QueueKey, Renumbered]] = {kind: defaultdict(Renumbered) for kind in Deviation}

    def claims(self, batch: Batch) -> npt.NDArray[np.void]:
        """Return copies of records, one for each of their further queues, with the place of its unit there as queue offset."""
        records = batch.records
        dispatched = (records["marks"] & int(Mark.MULTI_DISPATCH) != 0) & (records["sys_flag"] & _NO_UNIT == 0)
        rows = np.flatnonzero(dispatched)
        claims: list[tuple[int, int, int]] = []
        for row, position, queue in zip(rows.tolist(), records["position"][rows].tolist(), records["queue"][rows].tolist(), strict=True):
            topic, queue_id = self._scanner.queue(queue)
            doubtful = maybe_not_dispatched(topic)
            for entry in _entries(batch.properties(row), queue_id):
                place = self._place(position, entry, doubtful)
                if place is not None:
                    claims.append((row, self._scanner.number_of(*entry.key), place))
        copied, queues, places = zip(*claims, strict=True) if claims else ((), (), ())
        result = records[list(copied)]
        result["queue"], result["queue_offset"] = queues, places
        return result

    def _place(self, position: int, entry: Entry, doubtful: bool) -> int | None:
        """Return where the unit is or should be; None for a record that has none in a valid queue."""
        directory = self._queues.get(entry.key)
        if directory is None:
            return None if doubtful else entry.number
        try:
            reader = self._reader(entry.key, directory.files)
            expected = entry.number + self._shifts.get(entry.key, 0)
            place = reader.find(position, expected, entry.number)
            if place not in (None, entry.number) and not (reader.is_in_order(place) or reader.is_in_order(entry.number)):
                return entry.number  # entries were exchanged: no release writes two that are out of order
            if place is not None:
                self._shifts[entry.key] = place - entry.number
                if place != entry.number:
                    self.renumbered[Deviation.SHIFTED][entry.key].note(position, entry.number, place)
            elif self._is_repeated(reader, position, entry):
                self.renumbered[Deviation.DROPPED][entry.key].note(position, entry.number, reader.first_behind(position))
            elif not doubtful:
                place = self._damaged_place(reader, position, entry.key, max(expected, 0))
                if place is None:
                    self.renumbered[Deviation.LOST][entry.key].note(position, entry.number, expected)
        except RmqstoreError:
            return entry.number  # the comparison meets the unreadable file as well, and reports it
        return place

    def _reader(self, key: QueueKey, files: MappedFileQueue) -> _UnitReader:
        if len(self._readers) > _REMEMBERED_QUEUES:
            self._readers.clear()
            self._shifts.clear()
        return self._readers.setdefault(key, _UnitReader(files))

    def _is_repeated(self, reader: _UnitReader, position: int, entry: Entry) -> bool:
        """Return whether the dispatcher found the place of that number taken, and dropped the unit; number 0 is never dropped."""
        behind = reader.first_behind(position)
        if not 0 < entry.number < behind:
            return False
        # A damaged unit looks like one that was there first.
        return self._is_sound(reader, behind - 1, entry.key)

    def _damaged_place(self, reader: _UnitReader, position: int, key: QueueKey, expected: int) -> int | None:
        """Return the place of a missing unit: the expected one, or one beside its neighbours; None where all belong to other records."""
        behind = reader.first_behind(position)
        return next((place for place in (expected, behind, behind - 1) if not self._is_sound(reader, place, key)), None)

    def _is_sound(self, reader: _UnitReader, place: int, key: QueueKey) -> bool:
        """Return whether the unit at a place points to a record of its queue, after that of the unit before."""
        offset = reader.offset_at(place)
        file = self._context.store.message_log.find(offset) if offset > reader.offset_at(place - 1) else None
        record = None if file is None else read_record(file, offset)
        return record is not None and any(entry.key == key for entry in entries(record))


class _UnitReader:
    """Physical offsets of the units of a queue by place, with the last few units read in memory."""

    def __init__(self, files: MappedFileQueue) -> None:
        self._files = files
        self._first = 0
        self._chunk = b""

    def find(self, position: int, *likely: int) -> int | None:
        """Return the place of the unit of the record at `position`, None without one. Raises UnreadableError, StoreChangedError."""
        for place in likely:
            if self.offset_at(place) == position:
                return place
        behind = self.first_behind(position)
        if self.offset_at(behind) == position:
            return behind
        # A damaged unit misleads the search.
        near = range(likely[0] - _CHUNK_UNITS, likely[0] + _CHUNK_UNITS)
        return next((place for place in near if self.offset_at(place) == position), None)

    def is_in_order(self, place: int) -> bool:
        """Return whether the physical offset at a place is between those of the units before and after it."""
        return self.offset_at(place - 1) < self.offset_at(place) < self.offset_at(place + 1)

    def first_behind(self, position: int) -> int:
        """Return the first place whose unit points to `position` or after it; offsets rise along a valid queue."""
        files = self._files.files
        low, high = (files[0].start // UNIT_SIZE, files[-1].end // UNIT_SIZE) if files else (0, 0)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self.offset_at(middle) < position else (low, middle)
        return low

    def offset_at(self, place: int) -> int:
        """Return the physical offset in a unit; lower than all before the queue and for pre-blanks, higher where nothing was written."""
        at = (place - self._first) * UNIT_SIZE
        if not 0 <= at < len(self._chunk):
            if place * UNIT_SIZE < self._files.min_offset:
                return _BEFORE_ALL
            file = self._files.find(place * UNIT_SIZE)
            if file is None:
                return _NEVER_WRITTEN
            at = self._load(file, place)
        unit = self._chunk[at : at + UNIT_SIZE]
        if len(unit) < UNIT_SIZE or unit == _ZEROS:
            return _NEVER_WRITTEN
        if unit == PRE_BLANK:
            return _BEFORE_ALL
        return int.from_bytes(unit[_PHYSICAL_OFFSET.offset : _PHYSICAL_OFFSET.end], "big", signed=True)

    def _load(self, file: MappedFile, place: int) -> int:
        """Read the chunk that holds a place, and return where in it the unit begins."""
        inside = place * UNIT_SIZE - file.start
        start = inside - inside % (_CHUNK_UNITS * UNIT_SIZE)
        self._chunk = read_at(file, start, min(_CHUNK_UNITS * UNIT_SIZE, file.length - start))
        self._first = (file.start + start) // UNIT_SIZE
        return inside - start
