"""Evidence that may change a field of a record whose structure, position and body CRC hold, found for given records.

A queue entry alone changes nothing, however many there are: queues are derived from the log. A second kind of evidence has to give the
same value, and none may give another. The value that a record has is no evidence for itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from rmqstore.formats.index import message_keys
from rmqstore.formats.javahash import index_key_hash
from rmqstore.formats.naming import can_exist
from rmqstore.formats.properties import property_crc_matches
from rmqstore.formats.record import Record, decode_record
from rmqstore.reading.entries import unit_at
from rmqstore.repair.log.corrections import Correction
from rmqstore.scan.columns import Fault
from rmqstore.scan.ranges import in_ranges
from rmqstore.scan.walk import LogScanner
from rmqstore.store.root import Store
from rmqstore.verify.context import Context, Options
from rmqstore.verify.index.views import IndexView, open_views


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a record in a queue: the first of its `count` queue offsets, more than one for a batch."""

    topic: str
    queue_id: int
    queue_offset: int
    count: int = 1

    @property
    def end(self) -> int:
        """The queue offset after it."""
        return self.queue_offset + self.count


class Witness(StrEnum):
    """A kind of evidence for the value of a field, apart from consume queues."""

    PROPERTY_CRC = "property CRC"
    INDEX = "index entry"
    NEIGHBOURS = "neighbours in the log"


CONFIRMED_BY: Mapping[str, frozenset[Witness]] = {
    "TOPIC": frozenset({Witness.PROPERTY_CRC, Witness.INDEX, Witness.NEIGHBOURS}),
    "QUEUEID": frozenset({Witness.PROPERTY_CRC, Witness.NEIGHBOURS}),
    "QUEUEOFFSET": frozenset({Witness.PROPERTY_CRC, Witness.NEIGHBOURS}),
    "SYSFLAG": frozenset({Witness.PROPERTY_CRC, Witness.NEIGHBOURS}),
}
"""Per field that a queue entry contradicts, the kinds of evidence of which one has to agree with the entry (docs/repair.md)."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change of the record at physical offset `position` that a queue entry proposes: from place `present` to place `proposed`."""

    position: int
    raw: bytes
    change: Correction
    present: Place
    proposed: Place


class Evidence:
    """Evidence from log and index on a set of proposals, read once for all of them."""

    def __init__(self, store: Store, proposals: Sequence[Proposal]) -> None:
        """Read the log (without bodies) and, for proposed topics, the index. Raises UnreadableError, StoreChangedError."""
        places = {place: proposal.position for proposal in proposals for place in (proposal.present, proposal.proposed)}
        self._near = records_near(store, places)
        self._queues = {(queue.topic, queue.queue_id): queue for queue in store.queue_directories()} if proposals else {}
        moved = {proposal.position for proposal in proposals if proposal.change.field == "TOPIC"}
        self._hashes = index_hashes(store, moved) if moved else {}

    def confirms(self, proposal: Proposal) -> bool:
        """Return whether a witness that may confirm the field gives the proposed value, and none gives another.

        A queue that cannot exist is no value that a broker wrote: there the queue entry is enough.
        """
        given = {self._gives(witness, proposal) for witness in CONFIRMED_BY[proposal.change.field]}
        return (True in given or not can_exist(proposal.present.topic, proposal.present.queue_id)) and False not in given

    def has_no_place(self, proposal: Proposal) -> bool:
        """Return whether the record has no place in its present queue: the ones around it there leave no room for its queue offset.

        A queue that cannot exist has no place for any record.
        """
        if not can_exist(proposal.present.topic, proposal.present.queue_id):
            return True
        near, offset = self._near[proposal.present], proposal.present.queue_offset
        if near.position != proposal.position or not 0 <= near.end_before <= near.begin_after:
            return False
        return offset != near.end_before if near.end_before == near.begin_after else not near.end_before <= offset < near.begin_after

    def _gives(self, witness: Witness, proposal: Proposal) -> bool | None:
        """Return whether `witness` gives the proposed value (True), another one (False), or none (None)."""
        if witness is Witness.PROPERTY_CRC:
            return self._by_property_crc(proposal)
        return self._by_index(proposal) if witness is Witness.INDEX else self._by_neighbours(proposal)

    @staticmethod
    def _by_property_crc(proposal: Proposal) -> bool | None:
        changed = proposal.change.applied(proposal.raw)
        return property_crc_matches(changed, decode_record(changed).properties)

    def _by_index(self, proposal: Proposal) -> bool | None:
        found = self._hashes.get(proposal.position)
        if not found:
            return None
        proposed = _hashes_of(decode_record(proposal.change.applied(proposal.raw)))
        present = _hashes_of(decode_record(proposal.raw))
        return bool(found & proposed) and not found & (present - proposed)

    def _by_neighbours(self, proposal: Proposal) -> bool | None:
        """Return whether the records of the queue before and after this one, by QUEUEOFFSET, are before and after it in the log."""
        exists = can_exist(proposal.present.topic, proposal.present.queue_id)
        present = self._beside(proposal.present, proposal.position) if exists else (False, False)
        # Within one queue both neighbours of the proposed place count for more than one of the present place.
        speak_for_present = all if proposal.change.field == "QUEUEOFFSET" else any
        if proposal.present != proposal.proposed and speak_for_present(present):
            return False
        beside = self._beside(proposal.proposed, proposal.position)
        if all(beside):
            return True
        within_queue = proposal.change.field == "QUEUEOFFSET"
        one_side = any(beside) and not any(present) and (within_queue or self._has_no_beginning(proposal))
        return True if one_side and self._at_border(proposal, *beside) else None

    def _has_no_beginning(self, proposal: Proposal) -> bool:
        """Return whether the record would be the first one of its present queue, at another queue offset than 0.

        Brokers count each queue from 0, and the entries of messages that expired are there for as long as their files.
        """
        place, near = proposal.present, self._near[proposal.present]
        only = {near.first, near.last} <= {proposal.position}
        return only and place.queue_offset > 0 and self._unit(place, place.queue_offset - 1) is None

    def _at_border(self, proposal: Proposal, before: bool, after: bool) -> bool:
        """Return whether the side without neighbour is beyond the records of the queue in the log, and the entries on both sides fit.

        This applies to the last record of a queue, and to the first one whose messages before expired.
        """
        place, near = proposal.proposed, self._near[proposal.proposed]
        neighbours = (near.before if before else near.after) - {proposal.position}
        if near.own - {proposal.position} or (near.last if before else near.first) not in {proposal.position, *neighbours}:
            return False
        unit = self._unit(place, place.queue_offset - 1 if before else place.end)
        return unit is not None and {unit} == neighbours

    def _unit(self, place: Place, queue_offset: int) -> int | None:
        """Return the physical offset in the queue entry of `place`'s queue at a queue offset, None without one."""
        directory = self._queues.get((place.topic, place.queue_id))
        unit = None if directory is None else unit_at(directory.files, queue_offset)
        return None if unit is None else unit.physical_offset

    def _beside(self, place: Place, position: int) -> tuple[bool, bool]:
        """Return whether the record before and the one after `place` in its queue are around `position`, which nothing else claims."""
        near = self._near[place]
        before, own, after = (side - {position} for side in (near.before, near.own, near.after))
        if own:
            return False, False
        first_of_queue = place.queue_offset == 0
        return first_of_queue or _only(before, lambda other: other < position), _only(after, lambda other: other > position)


@dataclass
class Near:
    """Physical offsets of the records at a place of a queue, and of those whose places end and begin next to it.

    `first` and `last` are those of the first and last record of the queue in the log, -1 without any. `end_before` and `begin_after`: the
    queue offsets at which the record of the queue before physical offset `position` ends and the one after it begins, -1 without any.
    """

    position: int
    before: set[int] = field(default_factory=set)
    own: set[int] = field(default_factory=set)
    after: set[int] = field(default_factory=set)
    first: int = -1
    last: int = -1
    end_before: int = -1
    begin_after: int = -1


def records_near(store: Store, places: Mapping[Place, int]) -> dict[Place, Near]:
    """Return what the log holds at these places and beside them, and around a physical offset for each, without displaced records.

    Raises UnreadableError, StoreChangedError.
    """
    found = {place: Near(position) for place, position in places.items()}
    by_queue: dict[tuple[str, int], list[Place]] = defaultdict(list)
    for place in found:
        by_queue[place.topic, place.queue_id].append(place)
    if not found:
        return found
    scanner = LogScanner()
    for file in store.commitlog.files:
        for batch in scanner.batches(file):
            records = batch.records[batch.records["faults"] & int(Fault.PHYSICAL_OFFSET) == 0]
            for number in np.unique(records["queue"]).tolist():
                wanted = by_queue.get(scanner.queue(number))
                if wanted is not None:
                    _note(records[records["queue"] == number], wanted, found)
    return found


def _note(records: npt.NDArray[np.void], places: Sequence[Place], found: Mapping[Place, Near]) -> None:
    """Enter those records of one queue that are at one of `places` of this queue, or next to it."""
    begins = records["queue_offset"]
    ends = begins + records["batch_size"]
    wanted_begins = np.array([place.queue_offset for place in places] + [place.end for place in places], np.int64)
    wanted_ends = np.array([place.queue_offset for place in places], np.int64)
    positions = records["position"]
    at_begin: dict[int, set[int]] = defaultdict(set)
    at_end: dict[int, set[int]] = defaultdict(set)
    for numbers, wanted, at in ((begins, wanted_begins, at_begin), (ends, wanted_ends, at_end)):
        for row in np.flatnonzero(np.isin(numbers, wanted)).tolist():
            at[int(numbers[row])].add(int(positions[row]))
    for place in places:
        one = found[place]
        one.before |= at_end.get(place.queue_offset, set())
        one.own |= at_begin.get(place.queue_offset, set())
        one.after |= at_begin.get(place.end, set())
        one.first = one.first if one.first >= 0 else int(positions[0])
        one.last = int(positions[-1])
        low, high = np.searchsorted(positions, one.position).item(), np.searchsorted(positions, one.position, side="right").item()
        one.end_before = int(ends[low - 1]) if low else one.end_before
        one.begin_after = int(begins[high]) if high < len(positions) and one.begin_after < 0 else one.begin_after


def _only(positions: set[int], lies: Callable[[int], bool]) -> bool:
    return len(positions) == 1 and all(map(lies, positions))


def index_hashes(store: Store, positions: Iterable[int]) -> dict[int, set[int]]:
    """Return the key hashes of the index entries that point at these physical offsets. Raises UnreadableError."""
    wanted = np.array(sorted(positions), np.int64)
    found: dict[int, set[int]] = defaultdict(set)
    views, _ = open_views(Context(store, Options()))
    for view in views:
        for position, key_hash in _entries(view, wanted):
            found[position].add(key_hash)
    return found


def indexed_starts(store: Store, ranges: Sequence[tuple[int, int]]) -> list[int]:
    """Return the physical offsets in ranges [start, end) that index entries point at, ascending. Raises UnreadableError."""
    if not ranges:
        return []
    wanted = np.array(sorted(ranges), np.int64)
    found: set[int] = set()
    views, _ = open_views(Context(store, Options()))
    for view in views:
        for _, offsets in view.item_offsets(1, view.items + 1):
            found.update(np.unique(offsets[in_ranges(offsets, wanted)]).tolist())
    return sorted(found)


def indexed_behind(store: Store, end: int) -> list[int]:
    """Return the physical offsets from `end` on that the last index entries point at, in ascending order.

    Brokers add entries in the order of the log, so a damaged entry has others after it, or is the only one. The last entry alone counts if
    the header of its file ends there as well. Raises UnreadableError.
    """
    views = [view for view in open_views(Context(store, Options()))[0] if view.items]
    if not views or views[-1].last_offset < end:
        return []
    last: list[npt.NDArray[np.int64]] = []
    for view in views:
        for _, offsets in view.item_offsets(1, view.items + 1):
            before = np.flatnonzero(offsets < end)
            if before.size:
                last.clear()
            last.append(offsets[int(before[-1]) + 1 if before.size else 0 :].astype(np.int64))
    behind = np.concatenate(last) if last else np.zeros(0, np.int64)
    starts = np.unique(behind)
    confirmed = behind.size > 1 or (behind.size == 1 and views[-1].last_offset == behind[0])
    return starts.tolist() if confirmed and bool((np.diff(behind) >= 0).all()) else []


def _entries(view: IndexView, wanted: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield (physical offset, key hash) of the entries of one file that point at one of these offsets."""
    for _, rows in view.rows(1, view.items + 1):
        for row in np.flatnonzero(np.isin(rows["phy_offset"].astype(np.int64), wanted)).tolist():
            yield int(rows["phy_offset"][row]), int(rows["key_hash"][row])


def _hashes_of(record: Record) -> set[int]:
    return {index_key_hash(record.topic, key) for key in message_keys(record.properties, True)}
