"""Further queues of multi-dispatched records: which unit of which queue each record should have.

A broker numbers the messages of such a queue when it appends them to the log and writes the units later. Numbers may repeat (concurrent
appends) or be skipped (a numbered message that was not dispatched); units are then at other places than the numbers say, without damage.
Source: fact sheet queues §2.5, §2.12.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import pairwise

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
from rmqstore.scan.further import FurtherQueues
from rmqstore.scan.unitruns import UNIT_ROWS
from rmqstore.scan.walk import Batch, LogScanner
from rmqstore.store.mapped import MappedFile, MappedFileQueue
from rmqstore.store.root import QueueDirectory
from rmqstore.store.window import read_at, read_into
from rmqstore.verify.context import Context
from rmqstore.verify.queues.spans import QueueKey

_PHYSICAL_OFFSET = fixed_layout(UNIT)["physical_offset"]
_ZEROS = bytes(UNIT_SIZE)
_NO_UNIT = int(TransactionType.PREPARED)  # bit of prepared and of rolled back records in SYSFLAG
_NEVER_WRITTEN = 1 << 62
_BEFORE_ALL = -1
_CHUNK_UNITS = 64
_FEWEST_TOGETHER = 4
_MOST_LOOKS = 16  # at many records of one queue in a batch; each costs as much as there are
_SPREAD = 4  # units that are read for each record at most
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
        self._further = FurtherQueues(light=True)
        self._readers: dict[QueueKey, _UnitReader] = {}
        self._shifts: dict[QueueKey, int] = {}
        self.renumbered: dict[Deviation, dict[QueueKey, Renumbered]] = {kind: defaultdict(Renumbered) for kind in Deviation}

    def claims(self, batch: Batch) -> npt.NDArray[np.void]:
        """Return copies of records, one for each of their further queues, with the place of its unit there as queue offset."""
        records = batch.records
        dispatched = (records["marks"] & int(Mark.MULTI_DISPATCH) != 0) & (records["sys_flag"] & _NO_UNIT == 0)
        further = self._further.read(batch, np.flatnonzero(dispatched))
        claims = [self._claims_by_queue(records, further.queues), *self._claims_one_by_one(batch, further.unusual)]
        copied, queues, places = np.concatenate(claims, axis=1)
        order = np.argsort(copied, kind="stable")
        result: npt.NDArray[np.void] = records[copied[order]]
        result["queue"], result["queue_offset"] = queues[order], places[order]
        return result

    def _claims_by_queue(self, records: npt.NDArray[np.void], further: npt.NDArray[np.void]) -> npt.NDArray[np.int64]:
        """Return claims, int64 of shape (3, n): row, queue, place."""
        order = np.argsort(further["queue"], kind="stable")
        queues, rows, numbers = (further[name][order] for name in ("queue", "row", "queue_offset"))
        positions, doubtful = records["position"][rows], self._doubtful(records["queue"][rows])
        places, has_place = np.empty_like(numbers), np.empty(len(numbers), np.bool_)
        starts = np.flatnonzero(np.diff(queues, prepend=-1)).tolist()
        for start, end in pairwise([*starts, len(queues)]):
            key, mine = self._further.queue(int(queues[start])), slice(start, end)
            queues[mine] = self._scanner.number_of(*key)
            places[mine], has_place[mine] = self._places(key, positions[mine], numbers[mine], doubtful[mine])
        return np.stack([rows, queues, places])[:, has_place]

    def _claims_one_by_one(self, batch: Batch, rows: Sequence[int]) -> Iterator[npt.NDArray[np.int64]]:
        """Yield claims as `_claims_by_queue` returns them, from properties that compiled code does not read."""
        for row in rows:
            topic, queue_id = self._scanner.queue(int(batch.records["queue"][row]))
            for entry in _entries(batch.properties(row), queue_id):
                place = self._place(int(batch.records["position"][row]), entry, maybe_not_dispatched(topic))
                if place is not None:
                    yield np.array([[row], [self._scanner.number_of(*entry.key)], [place]])

    def _doubtful(self, queues: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
        """Return which of the queues, by their numbers, are of topics that some releases do not dispatch."""
        doubtful = [queue for queue in np.unique(queues).tolist() if maybe_not_dispatched(self._scanner.queue(queue)[0])]
        return np.isin(queues, doubtful)

    def _places(
        self, key: QueueKey, positions: npt.NDArray[np.int64], numbers: npt.NDArray[np.int64], doubtful: npt.NDArray[np.bool_]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Return what `_place` returns for each of these records of one queue, as (places, whether there is one).

        As long as units are as far from their numbers as the last one, they are looked at together.
        """
        places, has_place = numbers.copy(), np.ones(len(numbers), np.bool_)
        at = looks = 0
        while at < len(numbers):
            count = 0
            if looks < _MOST_LOOKS and len(numbers) - at >= _FEWEST_TOGETHER and key in self._queues:
                looks += 1
                count = self._together(key, positions[at:], numbers[at:], places[at:])
                at += count
            if not count:
                place = self._place(int(positions[at]), Entry(key, int(numbers[at])), bool(doubtful[at]))
                places[at], has_place[at] = (0, False) if place is None else (place, True)
                at += 1
        return places, has_place

    def _together(
        self, key: QueueKey, positions: npt.NDArray[np.int64], numbers: npt.NDArray[np.int64], places: npt.NDArray[np.int64]
    ) -> int:
        """Set the places of the first records that have a unit as far from its number as the last one had; return how many these are."""
        shift = self._shifts.get(key, 0)
        try:
            found = self._reader(key, self._queues[key].files).are_at(positions, numbers + shift, in_order=shift != 0)
        except RmqstoreError:
            return 0
        count = len(found) if found.all() else int(np.argmin(found))
        places[:count] += shift
        if shift and count:
            self.renumbered[Deviation.SHIFTED][key].note(int(positions[0]), int(numbers[0]), int(places[0]), count)
        return count

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

    def are_at(self, positions: npt.NDArray[np.int64], places: npt.NDArray[np.int64], *, in_order: bool) -> npt.NDArray[np.bool_]:
        """Return which of the records at `positions` have their unit at these places; False also where another way must decide.

        With `in_order`, only units count whose neighbours point to records on the proper side. Raises UnreadableError, StoreChangedError.
        """
        first, last = int(places.min()) - 1, int(places.max()) + 1
        if first < 0 or last - first > _SPREAD * len(places) + _CHUNK_UNITS:
            return np.zeros(len(places), np.bool_)
        offsets = self._offsets(first, last + 1)
        at = places - first
        # Units of zeros and pre-blanks look like those of a record at 0.
        found = (offsets[at] == positions) & (positions > 0)
        if in_order:
            found &= (offsets[at - 1] > 0) & (offsets[at - 1] < positions) & (positions < offsets[at + 1])
        return np.asarray(found)

    def _offsets(self, begin: int, end: int) -> npt.NDArray[np.int64]:
        """Return the physical offsets in the units at places [begin, end), 0 where no file is."""
        units = np.zeros(end - begin, UNIT_ROWS)
        at = begin
        while at < end:
            file = self._files.find(at * UNIT_SIZE)
            if file is None:
                at += 1
                continue
            stop = min(end, file.end // UNIT_SIZE)
            if stop <= at:
                at += 1
                continue
            read_into(file, at * UNIT_SIZE - file.start, units[at - begin : stop - begin].view(np.uint8))
            at = stop
        return units["physical_offset"].astype(np.int64)

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
