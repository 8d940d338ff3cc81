"""Compiled append of queue units: appends consecutive records of their queues, and stops at the first that is not consecutive.

Consecutive records are treated alike in every mode of a rebuild; all others are decided outside of compiled code.
"""

from __future__ import annotations

import numpy as np

from rmqstore.formats import consumequeue_ext
from rmqstore.formats.layout import fixed_layout
from rmqstore.scan.columns import RECORD_DTYPE
from rmqstore.scan.kernels.declare import kernel
from rmqstore.scan.kernels.raw import native32
from rmqstore.scan.kernels.rows import fields_reader, fields_writer
from rmqstore.scan.unitruns import UNIT_ROWS

QUEUE_DTYPE = np.dtype(
    [
        ("gate", "i8"),  # FAST, DECIDE or SKIP
        ("next_offset", "i8"),  # QUEUEOFFSET of the consecutive record
        ("address", "i8"),  # where its unit goes
        ("room", "i8"),  # units that still fit there
        ("max_physic_offset", "i8"),  # end of the last message, -1 for none
        ("ext_address", "i8"),  # where its ext unit goes; 0: the queue has none
        ("ext_room", "i8"),  # ext units that still fit into the open ext file
        ("ext_code", "i8"),  # tagsCode that addresses the next ext unit
    ]
)

FAST = 0
"""Gate of a queue whose units are appended here."""
DECIDE = 1
"""Every record is decided outside."""
SKIP = 2
"""Records are skipped."""

EXT_ROWS = np.dtype([(name, f">i{place.width}") for name, place in fixed_layout(consumequeue_ext.UNIT_PREFIX).items()])

_RECORD_SIZE, _QUEUE_SIZE = RECORD_DTYPE.itemsize, QUEUE_DTYPE.itemsize
_UNIT_SIZE, _EXT_SIZE = UNIT_ROWS.itemsize, EXT_ROWS.itemsize
_NO_UNIT = 4  # bit of prepared and of rolled back records in SYSFLAG

_read_record = fields_reader(RECORD_DTYPE, "sys_flag", "queue_offset", "physical_offset", "size", "tags_code")
_read_store_timestamp = fields_reader(RECORD_DTYPE, "store_timestamp")
_read_queue = fields_reader(QUEUE_DTYPE, "gate", "next_offset", "address", "room", "max_physic_offset", "ext_address")
_read_ext = fields_reader(QUEUE_DTYPE, "ext_room", "ext_code")
_write_queue = fields_writer(QUEUE_DTYPE, "next_offset", "address", "room", "max_physic_offset")
_write_ext = fields_writer(QUEUE_DTYPE, "ext_address", "ext_room", "ext_code")
_write_unit = fields_writer(UNIT_ROWS)
_write_ext_unit = fields_writer(EXT_ROWS)


@kernel
def append_units(records: int, row: int, end: int, numbers: int, queues: int) -> int:
    """Append the units of the records [row, end) up to the first one that needs a decision, and return its row.

    `records` (RECORD_DTYPE), `numbers` (int32 per record: the row of its queue) and `queues` (QUEUE_DTYPE) are addresses. A record needs
    a decision when its queue is not FAST, its QUEUEOFFSET is not the next one, it does not end after the last message, or its unit has no
    room.
    """
    while row < end:
        record = records + row * _RECORD_SIZE
        sys_flag, queue_offset, physical_offset, size, tags_code = _read_record(record)
        queue = queues + native32(numbers, row * 4) * _QUEUE_SIZE
        gate, expected, address, room, last, ext_address = _read_queue(queue)
        if gate == SKIP or sys_flag & _NO_UNIT:
            row += 1
            continue
        if gate != FAST or queue_offset != expected or room == 0 or physical_offset + size <= last:
            return row
        if ext_address != 0:
            ext_room, ext_code = _read_ext(queue)
            if ext_room == 0:
                return row
            _write_ext_unit(ext_address, _EXT_SIZE, tags_code, _read_store_timestamp(record), 0)
            _write_ext(queue, ext_address + _EXT_SIZE, ext_room - 1, ext_code + _EXT_SIZE)
            tags_code = ext_code
        _write_unit(address, physical_offset, size, tags_code)
        _write_queue(queue, queue_offset + 1, address + _UNIT_SIZE, room - 1, physical_offset + size)
        row += 1
    return row
