"""Compiled comparison of records with the consume queue units they claim.

A record claims the unit at its QUEUEOFFSET. Runs of consecutive claims with the same outcome become one row, so that a healthy queue costs
one row per file and a damaged one a row per damage.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from rmqstore.formats.consumequeue import UNIT_SIZE
from rmqstore.scan.columns import RECORD_DTYPE
from rmqstore.scan.kernels.declare import kernel
from rmqstore.scan.kernels.raw import prefetch
from rmqstore.scan.kernels.rows import field_offset, fields_reader, fields_writer, row_copier
from rmqstore.scan.unitruns import UNIT_ROWS

_MAX_EXT_ADDRESS = -2147483649  # tagsCodes at or below are addresses of ext units


class Claim(IntEnum):
    """The content of the queue where the unit of a record should be."""

    MATCH = 0
    TAGS = 1  # offset and size match, tagsCode differs
    SIZE = 2  # offset matches, size differs
    OTHER = 3  # another offset
    ZERO = 4  # a unit that was never written
    ABSENT = 5  # no such file, or the queue does not exist


class Order(IntEnum):
    """The irregularities of the QUEUEOFFSETs of a queue along the log."""

    GAP = 1
    REPEAT = 2
    RESTART = 3


RUN_DTYPE = np.dtype(
    [
        ("queue", "i4"),
        ("claim", "i4"),
        ("start", "i8"),  # first queue offset
        ("end", "i8"),  # after the last queue offset
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

COUNTS_DTYPE = np.dtype([(name, "i8") for name in ("runs", "events", "exts", "most_runs", "most_events", "most_exts")])
EXT_DTYPE = np.dtype(
    [("queue", "i4"), ("address", "i8"), ("tags_code", "i8"), ("store_timestamp", "i8"), ("queue_offset", "i8"), ("position", "i8")]
)

_MATCH, _TAGS, _SIZES, _OTHER, _ZERO, _ABSENT = (int(claim) for claim in Claim)
_GAP, _REPEAT, _RESTART = (int(order) for order in Order)

DONE = 0
NEED_UNITS = 1
FULL = 2

_RECORD_SIZE, _QUEUE_SIZE = RECORD_DTYPE.itemsize, QUEUE_DTYPE.itemsize
_RUN_SIZE, _EVENT_SIZE, _EXT_SIZE = RUN_DTYPE.itemsize, EVENT_DTYPE.itemsize, EXT_DTYPE.itemsize
_RUN = field_offset(QUEUE_DTYPE, "run")
# Records between the one that is compared and the one whose unit is prefetched.
_AHEAD = 8
_AHEAD_SIZE = _AHEAD * RECORD_DTYPE.itemsize

_read_record = fields_reader(RECORD_DTYPE, "sys_flag", "queue", "queue_offset", "position", "size", "tags_code", "batch_size")
_read_store_timestamp = fields_reader(RECORD_DTYPE, "store_timestamp")
_read_claim = fields_reader(RECORD_DTYPE, "queue", "queue_offset")
_read_units = fields_reader(QUEUE_DTYPE, "address", "first", "count", "checked")
_read_order = fields_reader(QUEUE_DTYPE, "seen", "next_offset", "last_position", "records")
_write_first = fields_writer(QUEUE_DTYPE, "seen", "first_offset", "first_position")
_write_order = fields_writer(QUEUE_DTYPE, "next_offset", "last_position", "records")
_read_unit = fields_reader(UNIT_ROWS, "physical_offset", "size", "tags_code")
_read_run = fields_reader(RUN_DTYPE, "claim", "start", "end")
_write_run = fields_writer(RUN_DTYPE)
_write_run_end = fields_writer(RUN_DTYPE, "end", "last_position")
_write_event = fields_writer(EVENT_DTYPE)
_write_ext = fields_writer(EXT_DTYPE)
_copy_run = row_copier(RUN_DTYPE)
_read_counts = fields_reader(COUNTS_DTYPE)
_write_runs_used, _write_events_used, _write_exts_used = (fields_writer(COUNTS_DTYPE, name) for name in ("runs", "events", "exts"))


@kernel
def claim_units(
    records: int, row: int, end: int, ordered: int, queues: int, runs: int, events: int, exts: int, counts: int
) -> tuple[int, int]:
    """Compare the records [row, end) with their units and continue the runs of the queues.

    All of `records` (RECORD_DTYPE), `queues` (QUEUE_DTYPE), `runs`, `events`, `exts` and `counts` are addresses. `ordered` = 1 also
    checks the order of the QUEUEOFFSETs (0 for extra queues of a record). `counts` = int64[6]: rows used in runs, events, exts, which the
    caller empties, and how many rows there are. Returns (row, state): NEED_UNITS when the units of that record must be buffered in its
    queue's row first, FULL when an output is full, DONE at the end.
    """
    while row < end:
        record = records + row * _RECORD_SIZE
        sys_flag, which, offset, position, size, tags_code, batch = _read_record(record)
        if row + _AHEAD < end:
            ahead, ahead_offset = _read_claim(record + _AHEAD_SIZE)
            units, first, count, checked = _read_units(queues + ahead * _QUEUE_SIZE)
            prefetch(units, (ahead_offset - first) * UNIT_SIZE)
        if sys_flag & 4:  # prepared or rolled back
            row += 1
            continue
        used_runs, used_events, used_exts, most_runs, most_events, most_exts = _read_counts(counts)
        if used_runs >= most_runs or used_events >= most_events or used_exts >= most_exts:
            return row, FULL
        queue = queues + which * _QUEUE_SIZE
        units, first, count, checked = _read_units(queue)
        claim = _ABSENT
        unit_position, unit_size, unit_tags = 0, 0, 0
        if checked:
            place = offset - first
            if place < 0 or place >= count:
                return row, NEED_UNITS
            if units != 0:
                unit_position, unit_size, unit_tags = _read_unit(units + place * UNIT_SIZE)
                if unit_position | unit_size | unit_tags == 0:
                    claim = _ZERO
                elif unit_position != position:
                    claim = _OTHER
                elif unit_size != size:
                    claim = _SIZES
                elif unit_tags == tags_code:
                    claim = _MATCH
                elif unit_tags <= _MAX_EXT_ADDRESS:
                    claim = _MATCH
                    stored = _read_store_timestamp(record)
                    _write_ext(exts + used_exts * _EXT_SIZE, which, unit_tags, tags_code, stored, offset, position)
                    _write_exts_used(counts, used_exts + 1)
                else:
                    claim = _TAGS
        if ordered:
            seen, expected, last, number = _read_order(queue)
            if not seen:
                _write_first(queue, 1, offset, position)
            elif offset != expected:
                order = _GAP if offset > expected else (_RESTART if offset == 0 else _REPEAT)
                _write_event(events + used_events * _EVENT_SIZE, which, order, expected, offset, position, last)
                _write_events_used(counts, used_events + 1)
            _write_order(queue, offset + batch, position, number + 1)
        if checked:
            run = queue + _RUN
            open_claim, open_start, open_end = _read_run(run)
            if open_start != open_end and open_end == offset and open_claim == claim:
                _write_run_end(run, offset + 1, position)
            else:
                if open_start != open_end:
                    _copy_run(runs + used_runs * _RUN_SIZE, run)
                    _write_runs_used(counts, used_runs + 1)
                _write_run(run, which, claim, offset, offset + 1, position, position, size, unit_size, tags_code, unit_position, unit_tags)
        row += 1
    return row, DONE
