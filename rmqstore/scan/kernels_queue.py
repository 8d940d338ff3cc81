"""Compiled comparison of records with the consume queue units they claim.

A record claims the unit at its QUEUEOFFSET. Runs of consecutive claims with the same outcome become one row, so that a healthy queue costs
one row per file and a damaged one a row per damage.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
from numba import njit, types

from rmqstore.formats import consumequeue as declared
from rmqstore.formats.layout import fixed_layout
from rmqstore.scan.raw import be32, be64

UNIT_SIZE: int = declared.UNIT.sizeof()
_UNIT = fixed_layout(declared.UNIT)
_PHYSICAL_OFFSET = _UNIT["physical_offset"].offset
_SIZE = _UNIT["size"].offset
_TAGS_CODE = _UNIT["tags_code"].offset
_MAX_EXT_ADDRESS = -2147483649  # tagsCodes at or below are addresses of ext units


class Claim(IntEnum):
    """What stands in the queue where a record says its unit is."""

    MATCH = 0
    TAGS = 1  # offset and size match, tagsCode differs
    SIZE = 2  # offset matches, size differs
    OTHER = 3  # another offset
    ZERO = 4  # a unit that was never written
    ABSENT = 5  # no such file, or the queue does not exist


class Order(IntEnum):
    """What is odd about the QUEUEOFFSETs of a queue along the log."""

    GAP = 1
    REPEAT = 2
    RESTART = 3


RUN_DTYPE = np.dtype(
    [
        ("queue", "i4"),
        ("claim", "i4"),
        ("start", "i8"),  # first queue offset
        ("end", "i8"),  # behind the last queue offset
        ("position", "i8"),  # physical offset of the first record
        ("last_position", "i8"),  # physical offset of the last record
        ("size", "i4"),  # of the first record
        ("unit_size", "i4"),  # found in the first unit
        ("tags_code", "i8"),  # of the first record
        ("unit_position", "i8"),  # physical offset found in the first unit
        ("unit_tags_code", "i8"),
    ]
)

QUEUE_DTYPE = np.dtype(
    [
        ("address", "u8"),  # of the buffered units, 0 = no units there
        ("first", "i8"),  # queue offset of the first buffered unit
        ("count", "i8"),  # buffered units
        ("checked", "i4"),  # 0 = units are not compared (other queue type)
        ("seen", "i4"),  # a record was met
        ("first_offset", "i8"),  # QUEUEOFFSET of the first record
        ("first_position", "i8"),
        ("next_offset", "i8"),  # expected QUEUEOFFSET of the next record
        ("last_position", "i8"),
        ("records", "i8"),
        ("run", RUN_DTYPE),  # the open run
    ]
)

EVENT_DTYPE = np.dtype(
    [("queue", "i4"), ("order", "i4"), ("expected", "i8"), ("found", "i8"), ("position", "i8"), ("after", "i8")]
)  # after = physical offset of the record of the queue before

EXT_DTYPE = np.dtype(
    [("queue", "i4"), ("address", "i8"), ("tags_code", "i8"), ("store_timestamp", "i8"), ("queue_offset", "i8"), ("position", "i8")]
)

_MATCH, _TAGS, _SIZES, _OTHER, _ZERO, _ABSENT = (int(claim) for claim in Claim)
_GAP, _REPEAT, _RESTART = (int(order) for order in Order)

DONE = 0
NEED_UNITS = 1
FULL = 2


@njit(nogil=True, cache=True)
def claim_units(records: Any, row: int, ordered: int, queues: Any, runs: Any, events: Any, exts: Any, counts: Any) -> tuple[int, int]:
    """Compares the records from `row` on with their units; continues the runs of `queues`.

    `ordered` = 1 also follows the QUEUEOFFSETs (0 for extra queues of a record). `counts` = int64[3]: rows used in runs, events, exts;
    the caller empties them. Returns (row, state): NEED_UNITS when the units of records[row] must be buffered in its queue's row first,
    FULL when an output is full, DONE at the end.
    """
    while row < records.size:
        record = records[row]
        transaction = record.sys_flag & 0xC
        if transaction == 4 or transaction == 0xC:
            row += 1
            continue
        if counts[0] + 2 > runs.size or counts[1] + 2 > events.size or counts[2] + 2 > exts.size:
            return row, FULL
        which = record.queue
        queue = queues[which]
        offset = record.queue_offset
        position = record.position
        claim = _ABSENT
        unit_position = np.int64(0)
        unit_size = np.int32(0)
        unit_tags = np.int64(0)
        if queue.checked:
            place = offset - queue.first
            if place < 0 or place >= queue.count:
                return row, NEED_UNITS
            if queue.address != np.uint64(0):
                base = types.uintp(queue.address)
                at = place * UNIT_SIZE
                unit_position = be64(base, at + _PHYSICAL_OFFSET)
                unit_size = be32(base, at + _SIZE)
                unit_tags = be64(base, at + _TAGS_CODE)
                if unit_position == position:
                    if unit_size != record.size:
                        claim = _SIZES
                        if unit_size == 0 and unit_position == 0 and unit_tags == 0:
                            claim = _ZERO
                    elif unit_tags == record.tags_code:
                        claim = _MATCH
                    elif unit_tags <= _MAX_EXT_ADDRESS:
                        claim = _MATCH
                        ext = exts[counts[2]]
                        ext.queue = which
                        ext.address = unit_tags
                        ext.tags_code = record.tags_code
                        ext.store_timestamp = record.store_timestamp
                        ext.queue_offset = offset
                        ext.position = position
                        counts[2] += 1
                    else:
                        claim = _TAGS
                elif unit_position == 0 and unit_size == 0 and unit_tags == 0:
                    claim = _ZERO
                else:
                    claim = _OTHER
        if ordered:
            if queue.seen:
                if offset != queue.next_offset:
                    event = events[counts[1]]
                    event.queue = which
                    event.expected = queue.next_offset
                    event.found = offset
                    event.position = position
                    event.after = queue.last_position
                    event.order = _GAP if offset > queue.next_offset else (_RESTART if offset == 0 else _REPEAT)
                    counts[1] += 1
            else:
                queue.seen = 1
                queue.first_offset = offset
                queue.first_position = position
            queue.next_offset = offset + record.batch_size
            queue.last_position = position
            queue.records += 1
        if queue.checked:
            run = queue.run
            if run.end == offset and run.claim == claim and run.start < run.end:
                run.end = offset + 1
                run.last_position = position
            else:
                if run.start < run.end:
                    runs[counts[0]] = run
                    counts[0] += 1
                run.queue = which
                run.claim = claim
                run.start = offset
                run.end = offset + 1
                run.position = position
                run.last_position = position
                run.size = record.size
                run.tags_code = record.tags_code
                run.unit_position = unit_position
                run.unit_size = unit_size
                run.unit_tags_code = unit_tags
        row += 1
    return row, DONE


class UnitKind(IntEnum):
    """What a unit without a claiming record is."""

    ZERO = 0
    PRE_BLANK = 1
    EXPIRED = 2  # points before the first commit log file
    BEYOND = 3  # points at or behind the end of the log
    POINTS = 4  # points into the log
    INVALID = 5  # negative offset, or size below 1


UNIT_RUN_DTYPE = np.dtype(
    [("kind", "i4"), ("size", "i4"), ("start", "i8"), ("end", "i8"), ("position", "i8"), ("tags_code", "i8"), ("last_position", "i8")]
)


@njit(nogil=True, cache=True)
def classify_units(base: int, first: int, count: int, log_start: int, log_end: int, runs: Any, used: int) -> tuple[int, int]:
    """Groups `count` units at `base` (the first has queue offset `first`) into runs of one kind.

    Appends rows to `runs` from row `used` on (a run of the last row is continued); returns (units done, rows used).
    """
    for i in range(count):
        at = i * UNIT_SIZE
        position = be64(base, at + _PHYSICAL_OFFSET)
        size = be32(base, at + _SIZE)
        tags_code = be64(base, at + _TAGS_CODE)
        if position == 0 and size == 0 and tags_code == 0:
            kind = 0
        elif position == 0 and size == 2147483647 and tags_code == 0:
            kind = 1
        elif position < 0 or size <= 0:
            kind = 5
        elif position < log_start:
            kind = 2
        elif position >= log_end:
            kind = 3
        else:
            kind = 4
        last = runs[used - 1]
        if used > 0 and last.kind == kind and last.end == first + i:
            last.end = first + i + 1
            last.last_position = position
            continue
        if used >= runs.size:
            return i, used
        row = runs[used]
        row.kind = kind
        row.start = first + i
        row.end = first + i + 1
        row.position = position
        row.last_position = position
        row.size = size
        row.tags_code = tags_code
        used += 1
    return count, used
