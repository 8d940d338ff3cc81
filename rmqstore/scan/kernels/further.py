"""The compiled reader of the further queues of multi-dispatched records: names and numbers in two properties.

It reads what brokers write: as many names as numbers, names of printable ASCII without `/`, numbers of 1 to 18 digits. What is not like
that is left to Python, which reads it as a broker does.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from rmqstore.formats.naming import LMQ_PREFIX
from rmqstore.formats.properties import INNER_MULTI_DISPATCH, INNER_MULTI_QUEUE_OFFSET
from rmqstore.scan.columns import RECORD_DTYPE
from rmqstore.scan.kernels.declare import inlined, kernel
from rmqstore.scan.kernels.layout import NAME_END, PROPERTY_END
from rmqstore.scan.kernels.raw import be32u, be64, find_byte, native32, native64, u8
from rmqstore.scan.kernels.registry import QUEUE, enter_found, find_queue
from rmqstore.scan.kernels.rows import fields_reader, fields_writer

FURTHER_DTYPE = np.dtype([("row", "i8"), ("queue", "i8"), ("queue_offset", "i8")])
"""A further queue of a record: row of the record in its batch, dense number of the queue, number of the message there."""


class Reading(IntEnum):
    """Reasons for which the kernel stops at a row."""

    DONE = 0
    UNKNOWN_QUEUE = 1
    FULL = 2
    UNUSUAL = 3  # a record that Python has to read


_DONE, _UNKNOWN, _FULL, _UNUSUAL = (int(reason) for reason in Reading)
_read_record = fields_reader(RECORD_DTYPE, "position", "size", "queue_id", "properties_length")
_RECORD_BYTES = RECORD_DTYPE.itemsize
_write, _ROW_BYTES = fields_writer(FURTHER_DTYPE), FURTHER_DTYPE.itemsize
_NAMES, _NUMBERS = len(INNER_MULTI_DISPATCH), len(INNER_MULTI_QUEUE_OFFSET)
# The names of both properties differ in length; of that length, they are compared in words from both ends.
_FIRST = int.from_bytes(INNER_MULTI_DISPATCH[:8].encode(), "big")
_SECOND = int.from_bytes(INNER_MULTI_DISPATCH[8:12].encode(), "big")
_END_OF_NAMES = int.from_bytes(INNER_MULTI_DISPATCH[-8:].encode(), "big")
_MIDDLE_OF_NUMBERS = int.from_bytes(INNER_MULTI_QUEUE_OFFSET[8:16].encode(), "big")
_END_OF_NUMBERS = int.from_bytes(INNER_MULTI_QUEUE_OFFSET[-8:].encode(), "big")
_LIGHT = int.from_bytes(LMQ_PREFIX[:4].encode(), "big")
_LIGHT_END = ord(LMQ_PREFIX[4])
_COMMA, _SLASH, _ZERO, _NINE, _BLANK, _DELETE = (ord(text) for text in ",/09 \x7f")
_MOST_DIGITS = 18
_PROPERTY_ENDS = np.uint64(PROPERTY_END * 0x0101010101010101)
assert len(LMQ_PREFIX) == 5
assert INNER_MULTI_QUEUE_OFFSET.startswith(INNER_MULTI_DISPATCH[:8])


@inlined
def _is_light(base: int, start: int, end: int) -> bool:
    return end - start >= 5 and be32u(base, start) == _LIGHT and u8(base, start + 4) == _LIGHT_END


@inlined
def _find_values(base: int, start: int, end: int) -> tuple[int, int, int, int]:
    """Return (start, end) of the names and (start, end) of the numbers in a block of properties; of several the last with a value."""
    names = names_end = numbers = numbers_end = start
    p = start
    while p < end:
        stop = find_byte(base, p, end, _PROPERTY_ENDS)
        if stop - p > _NAMES + 1 and be64(base, p) == _FIRST:
            if u8(base, p + _NAMES) == NAME_END:
                if be64(base, p + _NAMES - 8) == _END_OF_NAMES and be32u(base, p + 8) == _SECOND:
                    names = p + _NAMES + 1
                    names_end = stop
            elif stop - p > _NUMBERS + 1 and u8(base, p + _NUMBERS) == NAME_END:
                if be64(base, p + _NUMBERS - 8) == _END_OF_NUMBERS and be64(base, p + 8) == _MIDDLE_OF_NUMBERS:
                    numbers = p + _NUMBERS + 1
                    numbers_end = stop
        p = stop + 1
    return names, names_end, numbers, numbers_end


@kernel
def read_further(
    base: int, origin: int, records: int, rows: int, at: int, count: int, light: int, state: int, out: int, written: int, capacity: int
) -> tuple[int, int, int, int]:
    """Read the further queues of records.

    Args: base = address of the window; origin = physical offset of its first byte; records = address of rows of RECORD_DTYPE; rows =
    address of int64 row numbers, read from number `at` up to `count`; light = 1 if light message queues have queue id 0; state =
    address of `QueueRegistry.state`; out = address of rows of FURTHER_DTYPE, filled from `written` up to `capacity`.
    Returns (number in `rows` where it stopped, rows written, Reading, queue id). UNKNOWN_QUEUE: `QueueRegistry.learn` what the state
    points to with that queue id, then continue. UNUSUAL: nothing is written of the record; continue after it.
    """
    reason = _DONE
    queue_id = 0
    while at < count:
        row = native64(rows, 8 * at)
        position, size, own_queue, length = _read_record(records + row * _RECORD_BYTES)
        end = position + size - origin
        name, names_end, digit, numbers_end = _find_values(base, end - length, end)
        first = written
        if name < names_end and digit < numbers_end:
            # Both lists are read in step, with a comma after the last of each.
            while True:
                start = name
                while name < names_end and u8(base, name) != _COMMA:
                    byte = u8(base, name)
                    if byte <= _BLANK or byte >= _DELETE or byte == _SLASH:
                        reason = _UNUSUAL
                    name += 1
                number = 0
                first_digit = digit
                while digit < numbers_end and u8(base, digit) != _COMMA:
                    byte = u8(base, digit)
                    if byte < _ZERO or byte > _NINE:
                        reason = _UNUSUAL
                    number = number * 10 + (byte - _ZERO)
                    digit += 1
                if name == start or digit == first_digit or digit - first_digit > _MOST_DIGITS:
                    reason = _UNUSUAL
                if (name < names_end) != (digit < numbers_end):
                    reason = _UNUSUAL
                if reason != _DONE:
                    break
                if written == capacity:
                    reason = _FULL
                    break
                queue_id = 0 if light != 0 and _is_light(base, start, name) else own_queue
                entry = find_queue(state, base, start, name - start, queue_id)
                if native32(entry, QUEUE) < 0:
                    entry = enter_found(state, base, start, name - start, queue_id)
                    if entry == 0:
                        reason = _UNKNOWN
                        break
                _write(out + written * _ROW_BYTES, row, native32(entry, QUEUE), number)
                written += 1
                if name == names_end:
                    break
                name += 1
                digit += 1
        if reason != _DONE:
            written = first
            break
        at += 1
    return at, written, reason, queue_id
