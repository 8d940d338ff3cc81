"""Compiled dispatch of records to queue units and index entries by the broker's rules, as long as no file must be created or read.

Source: `ConsumeQueue.putMessagePositionInfo`, `IndexService.buildIndex`, `IndexFile.putKey`; fact sheet queues §2.5, §6.4.
"""

from __future__ import annotations

import numpy as np

from rmqstore.formats import index as declared
from rmqstore.formats.layout import fixed_layout
from rmqstore.formats.sysflag import SysFlag
from rmqstore.scan.columns import KEY_DTYPE, RECORD_DTYPE
from rmqstore.scan.kernels.declare import kernel
from rmqstore.scan.kernels.raw import be32, store8, store64, u8
from rmqstore.scan.kernels.rows import fields_reader, fields_writer
from rmqstore.scan.unitruns import UNIT_ROWS

OPEN_DTYPE = np.dtype(
    [
        ("state", "i8"),  # CLOSED, OPEN or APART
        ("max_physic_offset", "i8"),  # end of the last message, or where it begins
        ("place", "i8"),  # offset in the queue of the next unit, bytes
        ("limit", "i8"),  # offset at which the units must be flushed or a file created before the next one, bytes
        ("address", "i8"),  # address at which the next unit is written
        ("shifted", "i8"),  # units between the last message that did not fit and its own place, 0: all did
    ]
)
CLOSED, OPEN, APART = 0, 1, 2
"""A queue whose records stop compiled code, one that it appends to, one whose records it sets apart."""

HEADER_DTYPE = np.dtype([(name, "i8") for name in fixed_layout(declared.HEADER)])
"""The header of an index file in memory; its `index_count` is at least 1."""

_RECORD_SIZE, _KEY_SIZE, _OPEN_SIZE = RECORD_DTYPE.itemsize, KEY_DTYPE.itemsize, OPEN_DTYPE.itemsize
_UNIT_SIZE, _SLOT_SIZE = UNIT_ROWS.itemsize, declared.SLOT_SIZE
_NO_UNIT = int(SysFlag.TRANSACTION_PREPARED)  # rolled back records have this bit as well

_read_record = fields_reader(RECORD_DTYPE, "queue", "sys_flag", "queue_offset", "physical_offset", "size", "tags_code")
_read_queue, _write_queue = fields_reader(OPEN_DTYPE), fields_writer(OPEN_DTYPE)
_write_unit = fields_writer(UNIT_ROWS)
_read_indexed = fields_reader(RECORD_DTYPE, "physical_offset", "store_timestamp")
_read_key = fields_reader(KEY_DTYPE, "hash", "record", "is_tag")
_read_record_of = fields_reader(KEY_DTYPE, "record")
_read_header, _write_header = fields_reader(HEADER_DTYPE), fields_writer(HEADER_DTYPE)


@kernel
def put_units(records: int, row: int, end: int, queues: int, apart: int, count: int, ends: int) -> tuple[int, int]:
    """Put the records [row, end) into their queues, up to the first one that compiled code cannot dispatch.

    `records` (RECORD_DTYPE), `queues` (OPEN_DTYPE, a row for every number in the column `queue`) and `apart` (int64, room for all rows)
    are addresses. Rows of queues that are APART are added to the `count` rows there. `ends`: 1 where a queue knows the end of its last
    message, 0 where it knows its beginning. Returns (row, count); at the row the queue is
    CLOSED, or its next unit is beyond the limit.
    """
    while row < end:
        which, sys_flag, queue_offset, physical_offset, size, tags_code = _read_record(records + row * _RECORD_SIZE)
        if sys_flag & _NO_UNIT:
            row += 1
            continue
        queue = queues + which * _OPEN_SIZE
        state, last, place, limit, address, shifted = _read_queue(queue)
        if state != OPEN:
            if state == CLOSED:
                break
            store64(apart, count * 8, row)
            count += 1
        elif physical_offset + size * ends > last:
            if place >= limit:
                break
            # A message with queue offset 0 goes to the end wherever that is; others not before their place, but after a gap.
            wanted = queue_offset * _UNIT_SIZE
            if queue_offset == 0 or wanted >= place:
                if queue_offset != 0 and wanted != place:
                    shifted = (wanted - place) // _UNIT_SIZE
                _write_unit(address, physical_offset, size, tags_code)
                _write_queue(queue, state, physical_offset + size * ends, place + _UNIT_SIZE, limit, address + _UNIT_SIZE, shifted)
        row += 1
    return row, count


@kernel
def put_keys(
    records: int,
    row: int,
    end: int,
    keys: int,
    key: int,
    last_key: int,
    tags: int,
    header: int,
    items: int,
    slots: int,
    touched: int,
    before: int,
) -> tuple[int, int]:
    """Index the records [row, end) in one file until it is full: its slots in use, and its header.

    `records` (RECORD_DTYPE), `keys` (KEY_DTYPE, by `record` in order, those below `key` are done), `header` (HEADER_DTYPE), `touched`
    (a bit for each slot that got an entry in this start) and `before` (the slots in the file, 0: all empty) are addresses.
    `tags` = 1 indexes tags as well; `items` and `slots` are N and S of the file. Returns (row, key): the first record that is not done,
    and its first key that is not.
    """
    begin_time, end_time, begin_offset, end_offset, used, number = _read_header(header)
    while row < end and number < items:
        physical_offset, store_timestamp = _read_indexed(records + row * _RECORD_SIZE)
        # Whether a record is after the end of the index is checked once, in the file that takes its first key.
        wanted = physical_offset >= end_offset or (key > 0 and _read_record_of(keys + (key - 1) * _KEY_SIZE) == row)
        while key < last_key:
            key_hash, of_record, is_tag = _read_key(keys + key * _KEY_SIZE)
            if of_record != row:
                break
            if wanted and (tags or not is_tag):
                if number >= items:
                    _write_header(header, begin_time, end_time, begin_offset, end_offset, used, number)
                    return row, key
                slot = key_hash % slots
                bit = 1 << (slot & 7)
                bits = u8(touched, slot >> 3)
                if not bits & bit:
                    store8(touched, slot >> 3, bits | bit)
                    # A chain whose first entry does not exist yet counts as empty.
                    newest = be32(before, slot * _SLOT_SIZE) if before != 0 else 0
                    if newest <= 0 or newest > number:
                        used += 1
                if number <= 1:
                    begin_time, begin_offset = store_timestamp, physical_offset
                number += 1
                end_time, end_offset = store_timestamp, physical_offset
            key += 1
        row += 1
    _write_header(header, begin_time, end_time, begin_offset, end_offset, used, number)
    return row, key
