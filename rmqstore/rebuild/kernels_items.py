"""Compiled building of index entries: every key becomes an entry at the head of the chain of its hash slot (fact sheet queues §6.4)."""

from __future__ import annotations

import numpy as np

from rmqstore.formats import index as declared
from rmqstore.formats.layout import fixed_layout
from rmqstore.scan.columns import KEY_DTYPE, RECORD_DTYPE
from rmqstore.scan.kernels.declare import kernel
from rmqstore.scan.kernels.index import ITEM_ROWS
from rmqstore.scan.kernels.raw import native32, prefetch, store32
from rmqstore.scan.kernels.rows import fields_reader, fields_writer

HEADER_DTYPE = np.dtype([(name, "i8") for name in fixed_layout(declared.HEADER)])
"""The header in memory; `index_count` is at least 1 there."""
SLOT_ROWS = np.dtype([(name, f">i{place.width}") for name, place in fixed_layout(declared.SLOT).items()])

# Keys between the one that becomes an entry and the one whose slot is prefetched: slots are spread over the memory. A power of two.
AHEAD = 64

_RECORD_SIZE, _KEY_SIZE = RECORD_DTYPE.itemsize, KEY_DTYPE.itemsize
_ITEM_SIZE, _SLOT_SIZE = ITEM_ROWS.itemsize, SLOT_ROWS.itemsize

_read_key = fields_reader(KEY_DTYPE, "hash", "record", "is_tag")
_read_hash = fields_reader(KEY_DTYPE, "hash")
_read_record = fields_reader(RECORD_DTYPE, "physical_offset", "store_timestamp")
_read_slot, _write_slot = fields_reader(SLOT_ROWS), fields_writer(SLOT_ROWS)
_write_item = fields_writer(ITEM_ROWS)
_read_header, _write_header = fields_reader(HEADER_DTYPE), fields_writer(HEADER_DTYPE)


@kernel
def put_items(
    records: int,
    keys: int,
    key: int,
    last_key: int,
    tags: int,
    slots: int,
    slot_count: int,
    items: int,
    room: int,
    header: int,
    scratch: int,
) -> int:
    """Make entries of the keys [key, last_key) until the file is full; return the first key that still needs one.

    `records` (RECORD_DTYPE), `keys` (KEY_DTYPE), `slots` (address of slot 0), `items` (address of entry 0, which need not exist),
    `header` (HEADER_DTYPE) and `scratch` (int32[AHEAD], for use) are addresses; `tags` = 1 makes entries of tags, too; `slot_count` and
    `room` are S and N. Keys of a record that is before the last indexed one make no entries (`buildIndex`).
    """
    begin, end, begin_offset, end_offset, used, number = _read_header(header)
    for ahead in range(key - AHEAD, last_key):
        kept = scratch + (ahead & (AHEAD - 1)) * 4
        if ahead >= key:
            slot = native32(kept, 0)
            key_hash, row, is_tag = _read_key(keys + ahead * _KEY_SIZE)
            physical_offset, store_timestamp = _read_record(records + row * _RECORD_SIZE)
            if (tags or not is_tag) and physical_offset >= end_offset:
                if number >= room:
                    last_key = ahead
                    break
                previous = _read_slot(slots + slot * _SLOT_SIZE)
                # Whole seconds, cut to 0 ... 2^31-1; 0 without a begin.
                seconds = (store_timestamp - begin) // 1000
                if begin <= 0 or seconds < 0:
                    seconds = 0
                elif seconds > 2147483647:
                    seconds = 2147483647
                _write_item(items + number * _ITEM_SIZE, key_hash, physical_offset, seconds, previous)
                _write_slot(slots + slot * _SLOT_SIZE, number)
                if number == 1:
                    # Only now: the first entry of a rolled file counts its seconds from the end of the file before.
                    begin, begin_offset = store_timestamp, physical_offset
                if previous == 0:
                    used += 1
                number += 1
                end, end_offset = store_timestamp, physical_offset
        if ahead + AHEAD < last_key:
            slot = _read_hash(keys + (ahead + AHEAD) * _KEY_SIZE) % slot_count
            store32(kept, 0, slot)
            prefetch(slots, slot * _SLOT_SIZE)
    _write_header(header, begin, end, begin_offset, end_offset, used, number)
    return last_key
