"""Compiled counting: messages and bytes by an integer key, and the keys that columns do not hold – host and tag – from the record's bytes.

A tag is identified by a 64-bit hash of its bytes, a host by its address; the caller reads the text of a new key.
"""

from __future__ import annotations

import numpy as np

from rmqstore.formats.properties import TAGS
from rmqstore.scan.columns import RECORD_DTYPE
from rmqstore.scan.kernels.declare import inlined, kernel
from rmqstore.scan.kernels.offsets import BORN_HOST, BORN_HOST_V6
from rmqstore.scan.kernels.raw import be32u, be64, find_byte, native64, store64, u8
from rmqstore.scan.kernels.rows import fields_reader, fields_writer

TALLY_DTYPE = np.dtype(
    [
        ("key", "i8"),
        ("messages", "i8"),  # 0: the row of a table is free
        ("bytes", "i8"),
    ]
)
KEYS_DTYPE = np.dtype(
    [
        ("host", "i8"),  # an IPv4 address as a number from 0 to 2^32 - 1; of an IPv6 address a negative hash
        ("tag", "i8"),  # hash of the tag's bytes; 0: no tag
        ("tag_start", "i8"),  # bytes from the start of the window
        ("tag_length", "i8"),
    ]
)
NO_TAG = 0

_ROW, _RECORD, _KEYS = TALLY_DTYPE.itemsize, RECORD_DTYPE.itemsize, KEYS_DTYPE.itemsize
_read_row = fields_reader(TALLY_DTYPE)
_write_row = fields_writer(TALLY_DTYPE)
_read_record = fields_reader(RECORD_DTYPE, "position", "size", "properties_length", "sys_flag")
_write_keys = fields_writer(KEYS_DTYPE)

_GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
_PROPERTY_END = np.uint64(0x0202020202020202)
_TAGS_NAME = int.from_bytes(TAGS.encode("ascii"), "big")
_NAME_END = 1
_SIGN = -(1 << 63)


@kernel
def add(rows: int, count: int, table: int, mask: int, used: int, most: int, fresh: int) -> tuple[int, int, int]:
    """Add rows of TALLY_DTYPE to a table of mask + 1 rows by their keys; (rows added, rows of the table in use, keys that are new).

    rows, table, fresh = addresses; it stops before a row that would make more than `most` rows used. The numbers of the rows with
    keys that the table did not have go to `fresh` (int64[count]).
    """
    new = np.int64(0)
    for row in range(count):
        key, messages, size = _read_row(rows + row * _ROW)
        mixed = (key ^ (key >> 32)) * _GOLDEN
        slot = ((mixed >> 40) ^ (mixed >> 20)) & mask
        while True:
            place = table + slot * _ROW
            held, before, total = _read_row(place)
            if before == 0:
                if used >= most:
                    return row, used, new
                used += 1
                store64(fresh, new * 8, row)
                new += 1
                _write_row(place, key, messages, size)
                break
            if held == key:
                _write_row(place, key, before + messages, total + size)
                break
            slot = (slot + 1) & mask
    return count, used, new


@kernel
def describe(base: int, origin: int, records: int, count: int, keys: int) -> None:
    """Fill rows of KEYS_DTYPE for records of a batch: base = address of its window, origin = physical offset of the window's first byte.

    As for the walker, the last of several TAGS that are not empty counts.
    """
    for row in range(count):
        position, size, properties_length, sys_flag = _read_record(records + row * _RECORD)
        at = position - origin
        end = at + size
        start = length = tag = np.int64(0)
        p = end - properties_length
        while p < end:
            stop = find_byte(base, p, end, _PROPERTY_END)
            # The four bytes before the value are the name and are inside of the record.
            if stop - p >= 6 and u8(base, p + 4) == _NAME_END and be32u(base, p) == _TAGS_NAME:
                start = p + 5
                length = stop - start
            p = stop + 1
        if length > 0:
            tag = _hash(base, start, length)
        _write_keys(keys + row * _KEYS, _host(base, at, sys_flag), tag, start, length)


@inlined
def _host(base: int, at: int, sys_flag: int) -> int:
    """Return the key of the host that a message was born at, without its port."""
    if sys_flag & BORN_HOST_V6 == 0:
        return be32u(base, at + BORN_HOST)
    mixed = (be64(base, at + BORN_HOST) ^ (be64(base, at + BORN_HOST + 8) * _GOLDEN)) * _GOLDEN
    return (mixed ^ (native64(base, at + BORN_HOST) >> 1)) | _SIGN


@inlined
def _hash(base: int, start: int, length: int) -> int:
    """Return FNV-1a of the bytes, never NO_TAG."""
    value = np.int64(0xCBF29CE484222325 - (1 << 64))
    for i in range(start, start + length):
        value = (value ^ u8(base, i)) * np.int64(0x100000001B3)
    return value if value != 0 else np.int64(1)
