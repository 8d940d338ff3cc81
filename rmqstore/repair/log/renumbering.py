"""Correction of the QUEUEOFFSETs of records that the records before and after them in their queue contradict.

Which records these are is the rule of `reading.continuity`; queue entries support or contradict it. With records on both sides the log
leaves one value for each. Otherwise each record has to have a queue entry of equal size that gives the value.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

import numpy as np

from rmqstore.formats.message import MIN_RECORD_SIZE_V1
from rmqstore.formats.naming import LMQ_PREFIX
from rmqstore.formats.properties import property_crc_matches
from rmqstore.formats.record import Record, decode_record
from rmqstore.reading.continuity import Misnumbered, Room, Segment, misnumbered
from rmqstore.repair.log import corrections
from rmqstore.repair.log.corrections import Correction
from rmqstore.repair.log.future import LostUnit
from rmqstore.repair.log.survey import SuspectRecord
from rmqstore.scan.columns import Check, Fault
from rmqstore.scan.walk import Batch, LogScanner
from rmqstore.store.mapped import MappedFile
from rmqstore.verify.queues.spans import QueueKey

_NOT_QUEUED = 4  # bit of prepared and of rolled back records in SYSFLAG

UnitAt = Callable[[QueueKey, int], tuple[int, int] | None]
"""Physical offset and size in the queue entry at a queue offset."""


@dataclass(frozen=True, slots=True)
class Misnumbering:
    """Misnumbered records of a queue, and the physical offsets of all records of each segment."""

    key: QueueKey
    run: Misnumbered
    positions: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Suspected:
    """One of the records: what the survey saw, its bytes, and the queue entries that point at it."""

    suspect: SuspectRecord
    raw: bytes
    units: Sequence[LostUnit]


def misnumberings(
    courses: Mapping[QueueKey, Sequence[Segment]], files: Sequence[MappedFile], room: Room, *, from_zero: bool
) -> list[Misnumbering]:
    """Return the misnumbered records of all queues; `courses` are their segments, `files` are those of the log.

    Reads the files that hold more than one record of a segment. Raises UnreadableError, StoreChangedError.
    """
    runs = [(key, run) for key, segments in courses.items() for run in misnumbered(segments, room, from_zero=from_zero)]
    inner: dict[QueueKey, list[Segment]] = defaultdict(list)
    for key, run in runs:
        inner[key] += [segment for segment in run.segments if segment.last != segment.first]
    found = _positions({key: segments for key, segments in inner.items() if segments}, files)
    return [
        Misnumbering(key, run, tuple(tuple(found.get(segment.first, (segment.first,))) for segment in run.segments)) for key, run in runs
    ]


def _positions(wanted: Mapping[QueueKey, Sequence[Segment]], files: Sequence[MappedFile]) -> dict[int, list[int]]:
    """Return the physical offsets of the records of each segment, by that of its first one."""
    found: dict[int, list[int]] = defaultdict(list)
    firsts = {key: [segment.first for segment in segments] for key, segments in wanted.items()}
    lasts = {key: [segment.last for segment in segments] for key, segments in wanted.items()}
    scanner = LogScanner(checks=Check(0))
    for file in _holding(files, [segment for segments in wanted.values() for segment in segments]):
        for event in scanner.scan(file):
            if isinstance(event, Batch):
                records = event.records[(event.records["sys_flag"] & _NOT_QUEUED) == 0]
                for number in np.unique(records["queue"]).tolist():
                    key = scanner.queue(number)
                    if key in wanted:
                        positions = records["position"][records["queue"] == number].tolist()
                        for segment in wanted[key][bisect_left(lasts[key], positions[0]) : bisect_right(firsts[key], positions[-1])]:
                            low, high = bisect_left(positions, segment.first), bisect_right(positions, segment.last)
                            found[segment.first] += positions[low:high]
    return found


def _holding(files: Sequence[MappedFile], segments: Sequence[Segment]) -> Iterator[MappedFile]:
    """Yield the files that hold records of the segments."""
    change = [0] * (len(files) + 1)
    for segment in segments:
        change[bisect_right(files, segment.first, key=lambda file: file.start) - 1] += 1
        change[bisect_right(files, segment.last, key=lambda file: file.start)] -= 1
    for file, open_segments in zip(files, accumulate(change), strict=False):
        if open_segments:
            yield file


def renumbered(one: Misnumbering, suspected: Mapping[int, Suspected], unit_at: UnitAt) -> dict[int, Correction]:
    """Return the corrections of QUEUEOFFSETs by physical offset, none where other evidence contradicts or too little supports them.

    `suspected` has the records by physical offset. With records on one side only, those farther away from these may be correct on their
    own. Raises UnreadableError.
    """
    one = _without_displaced(one, suspected)
    if not one.positions:
        return {}
    starts = one.run.starts
    while one.run.high is None and starts is not None and _may_be_as_written(one, -1):
        if len(one.positions) == 1:
            return {}
        starts = starts[:-1]
        one = Misnumbering(one.key, replace(one.run, segments=one.run.segments[:-1], starts=starts), one.positions[:-1])
    while True:
        found = {} if _may_be_as_written(one, 0) else _renumbered(one, suspected, unit_at)
        nearer = one.run.nearer() if not found else None
        if nearer is None:
            return found
        one = Misnumbering(one.key, nearer, one.positions[1:] if nearer.high is None else one.positions[:-1])


def _without_displaced(one: Misnumbering, suspected: Mapping[int, Suspected]) -> Misnumbering:
    """Return the same without segments whose records all belong to another place: their QUEUEOFFSETs say nothing about this queue."""
    kept = [
        number
        for number, positions in enumerate(one.positions)
        if any(Fault.PHYSICAL_OFFSET not in suspected[position].suspect.faults for position in positions)
    ]
    run, starts = one.run, one.run.starts
    chosen = None if starts is None else tuple(starts[number] for number in kept)
    run = replace(run, segments=tuple(run.segments[number] for number in kept), starts=chosen)
    return Misnumbering(one.key, run, tuple(one.positions[number] for number in kept))


def _may_be_as_written(one: Misnumbering, number: int) -> bool:
    """Return whether a broker can have given the QUEUEOFFSETs of a segment at the end of a queue: more than one, consecutive, and ahead.

    It writes their queue entries without a gap then, as if no message was missing (fact sheet queues §2.5): no entry shows that they are
    wrong. A broker gives none that is greater than the number of messages that the log before can have held. If a later one goes back, a
    broker wrote no entry for it, so queue entries for all of them show what was there.
    """
    run, segment = one.run, one.run.segments[number]
    if run.low is None or run.high is not None or run.starts is None or len(one.positions[number]) == 1:
        return False
    if number == 0 and any(later.start < start for later, start in zip(run.segments[1:], run.starts[1:], strict=True)):
        return False
    return segment.start > run.starts[number] and segment.end <= segment.last // MIN_RECORD_SIZE_V1


def _renumbered(one: Misnumbering, suspected: Mapping[int, Suspected], unit_at: UnitAt) -> dict[int, Correction]:
    records = {position: decode_record(suspected[position].raw) for positions in one.positions for position in positions}
    given = {position: _given(suspected[position], record) for position, record in records.items()}
    starts = one.run.starts
    if starts is None or not one.run.certain:
        starts = _by_entries(one, given, records, unit_at)
    if starts is None:
        return {}
    found: dict[int, Correction] = {}
    for segment, positions, start in zip(one.run.segments, one.positions, starts, strict=True):
        for position in positions:
            record, suspect = records[position], suspected[position]
            if Fault.PHYSICAL_OFFSET in suspect.suspect.faults:
                continue  # a record of another place; what was here before took as many queue offsets
            value = record.queue_offset - segment.start + start
            change = corrections.of_queue_offset(value)
            if _is_contradicted(suspect, record, value in given[position]):
                return {}
            if property_crc_matches(change.applied(suspect.raw), record.properties) is False:
                return {}
            found[position] = change
    return found


def _is_contradicted(one: Suspected, record: Record, supported: bool) -> bool:
    """Return whether a record is proven as it is, or a queue entry has it at its present place, or one in another queue.

    One in another queue does not count if another entry supports the correction.
    """
    own = (record.topic, record.queue_id)
    units = [unit for unit in one.units if unit.size == record.size and not unit.topic.startswith(LMQ_PREFIX)]
    held = any((unit.topic, unit.queue_id) == own and unit.queue_offset == record.queue_offset for unit in units)
    elsewhere = not supported and any((unit.topic, unit.queue_id) != own for unit in units)
    return held or elsewhere or bool(property_crc_matches(one.raw, record.properties))


def _given(one: Suspected, record: Record) -> set[int]:
    """Return the queue offsets that the entries of its queue give a record."""
    own = (record.topic, record.queue_id, record.size)
    return {unit.queue_offset for unit in one.units if (unit.topic, unit.queue_id, unit.size) == own}


def _by_entries(one: Misnumbering, given: Mapping[int, set[int]], records: Mapping[int, Record], unit_at: UnitAt) -> tuple[int, ...] | None:
    """Return what the segments begin with by the queue entries, None unless every record has one and they fit the records around.

    With records on one side they leave out no more queue offsets than messages can have been lost.
    """
    run = one.run
    found: list[int] = []
    for segment, positions in zip(run.segments, one.positions, strict=True):
        shifts = {offset - records[position].queue_offset for position in positions for offset in given[position]}
        if len(shifts) != 1 or any(len(given[position]) != 1 for position in positions):
            return None
        found.append(segment.start + shifts.pop())
    starts = tuple(found)
    if run.closed or (run.low is None and run.high is None):
        ends = [start + segment.width for start, segment in zip(starts, run.segments, strict=True)]
        order = [
            run.low or 0,
            *(offset for both in zip(starts, ends, strict=True) for offset in both),
            ends[-1] if run.high is None else run.high,
        ]
        return starts if all(here <= there for here, there in pairwise(order)) else None
    missing = [start - due for start, due in zip(starts, run.starts or starts, strict=True)]
    in_place = missing == sorted(missing) and missing[0] >= 0 and missing[-1] <= run.room
    return starts if in_place and (_is_impossible(run) or _continues_beside(one, unit_at)) else None


def _is_impossible(run: Misnumbered) -> bool:
    """Return whether no broker can have given any of the QUEUEOFFSETs: they are negative, or more than the messages before."""
    return all(segment.start < 0 or segment.start > segment.first // MIN_RECORD_SIZE_V1 for segment in run.segments)


def _continues_beside(one: Misnumbering, unit_at: UnitAt) -> bool:
    """Return whether the queue entry of the record beside points at it: the queue is not shifted. Before queue offset 0 is none."""
    run = one.run
    if run.low is not None:
        unit = unit_at(one.key, run.low - 1) if run.low else None
        return run.after < 0 or (unit is not None and unit[0] == run.after)
    unit = unit_at(one.key, run.high or 0)
    return unit is not None and unit[0] == run.before
