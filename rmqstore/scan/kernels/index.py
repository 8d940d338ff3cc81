"""Compiled checks of index files: slots and chains of one file, and entries against the keys of the log.

The chains of an index file are fully determined by its entries: entry n links to the newest earlier entry of its slot, and a slot holds
its newest entry. Entries are written in log order, so the keys of the log and the entries of the files are compared like two sorted lists.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from rmqstore.formats import index as declared
from rmqstore.formats.layout import fixed_layout
from rmqstore.scan.columns import KEY_DTYPE, RECORD_DTYPE
from rmqstore.scan.kernels.declare import kernel
from rmqstore.scan.kernels.raw import native32, prefetch, store32
from rmqstore.scan.kernels.rows import fields_reader, fields_writer

ITEM_ROWS = np.dtype([(name, f">i{place.width}") for name, place in fixed_layout(declared.ITEM).items()])
ITEM_SIZE = ITEM_ROWS.itemsize


class ItemOddity(IntEnum):
    """The faults of an entry, or of a key without one."""

    BOGUS = 1  # no key of the log at this place has this hash and offset
    HASH = 2  # offset fits, hash is not that of the key
    OFFSET = 3  # hash fits, offset does not
    TIME = 4  # time difference does not fit
    MISSING = 5  # a key without entry
    DUPLICATE = 6  # the last message indexed a second time


ODDITY_DTYPE = np.dtype([("oddity", "i4"), ("item", "i4"), ("position", "i8"), ("expected", "i8"), ("found", "i8")])

LINK_DTYPE = np.dtype([("item", "i4"), ("slot", "i4"), ("expected", "i4"), ("found", "i4")])

# Entries between the one that is checked and the one whose slot is prefetched: slots are spread over the memory.
_AHEAD = 64
SCRATCH_BYTES = _AHEAD * 4

# Entries that had a key so far, and physical offset of the last of them.
MATCHED_DTYPE = np.dtype([("items", "i8"), ("last_offset", "i8")])

ITEMS_END = 1
KEYS_END = 2
ODDITIES_FULL = 3

_BOGUS, _HASH, _OFFSET, _TIME, _MISSING, _DUPLICATE = (int(oddity) for oddity in ItemOddity)
_RECORD_SIZE, _KEY_SIZE = RECORD_DTYPE.itemsize, KEY_DTYPE.itemsize
_ODDITY_SIZE, _LINK_SIZE = ODDITY_DTYPE.itemsize, LINK_DTYPE.itemsize

_read_item = fields_reader(ITEM_ROWS, "key_hash", "phy_offset", "time_diff")
_read_hash = fields_reader(ITEM_ROWS, "key_hash")
_read_offset = fields_reader(ITEM_ROWS, "phy_offset")
_read_previous = fields_reader(ITEM_ROWS, "prev_index")
_write_link = fields_writer(LINK_DTYPE)
_read_matched, _write_matched = fields_reader(MATCHED_DTYPE), fields_writer(MATCHED_DTYPE)
_read_key = fields_reader(KEY_DTYPE, "hash", "record", "is_tag")
_read_record = fields_reader(RECORD_DTYPE, "position", "store_timestamp", "size")
_write_oddity = fields_writer(ODDITY_DTYPE)


@kernel
def follow_chains(base: int, first: int, count: int, newest: int, slots: int, links: int, room: int, wrong: int) -> int:
    """Check the links of `count` entries at address `base`, the first of which is entry number `first`.

    `newest` = address of the newest entry of every slot so far (int32), updated, after which `SCRATCH_BYTES` are free for use. The first
    `room` wrong links of the file go to the rows at `links` (LINK_DTYPE), `wrong` = their number so far; returns their number now.
    """
    scratch = newest + slots * 4
    for number in range(-_AHEAD, count):
        kept = scratch + (number & (_AHEAD - 1)) * 4
        item = base + number * ITEM_SIZE
        if number >= 0:
            slot = native32(kept, 0)
            expected = native32(newest, slot * 4)
            store32(newest, slot * 4, first + number)
            previous = _read_previous(item)
            if previous != expected:
                if wrong < room:
                    _write_link(links + wrong * _LINK_SIZE, first + number, slot, expected, previous)
                wrong += 1
        if number + _AHEAD < count:
            key_hash = _read_hash(item + _AHEAD * ITEM_SIZE)
            if key_hash < 0:
                key_hash = 0 if key_hash == -2147483648 else -key_hash
            slot = key_hash % slots
            store32(kept, 0, slot)
            prefetch(newest, slot * 4)
    return wrong


@kernel
def match_items(
    records: int,
    keys: int,
    key: int,
    last_key: int,
    base: int,
    first: int,
    item: int,
    count: int,
    last_chunk: int,
    begin: int,
    first_seconds: int,
    matched: int,
    oddities: int,
    room: int,
) -> tuple[int, int, int, int]:
    """Compare the keys [key, last_key) with the entries of one index file.

    `records` (RECORD_DTYPE), `keys` (KEY_DTYPE) and `oddities` (ODDITY_DTYPE, `room` rows) are addresses. `base` = address of
    `count` buffered entries, the first of which has number `first`; `item` = next entry to check, counted from `first`; `last_chunk`
    = 1 when the buffer ends with the file's last entry; `begin` = begin timestamp of the file; `first_seconds` = time difference that
    entry 1 may have as well. `matched` = address of a row of MATCHED_DTYPE, updated. Stops two entries before the end of a
    buffer that is not the last, so that it can look ahead. Returns (key, item, rows of oddities, ITEMS_END | KEYS_END | ODDITIES_FULL).
    """
    used = 0
    limit = count if last_chunk else count - 2
    number, last_match = _read_matched(matched)
    state = KEYS_END
    while key < last_key:
        if item >= limit:
            state = ITEMS_END
            break
        if used >= room:
            state = ODDITIES_FULL
            break
        wanted, row, is_tag = _read_key(keys + key * _KEY_SIZE)
        position, store_timestamp, size = _read_record(records + row * _RECORD_SIZE)
        place = base + item * ITEM_SIZE
        found_hash, found_offset, seconds = _read_item(place)
        # Both advance by one unless it is found below that one of them has no counterpart.
        oddity, next_key, next_item = 0, key + 1, item + 1
        expected, found = wanted, found_offset
        if found_offset == position and found_hash == wanted:
            # Whole seconds, cut to 0 ... 2^31-1; 0 without a begin.
            expected = (store_timestamp - begin) // 1000
            if begin <= 0 or expected < 0:
                expected = 0
            elif expected > 2147483647:
                expected = 2147483647
            if seconds != expected and (first + item != 1 or seconds != first_seconds):
                oddity, found = _TIME, seconds
            number += 1
            last_match = position
        else:
            following_hash, following = -1, -1
            if next_key < last_key:
                following_hash, following, _ = _read_key(keys + next_key * _KEY_SIZE)
            more = next_item < count
            next_offset = _read_offset(place + ITEM_SIZE) if more else position
            if found_offset == position:
                if is_tag:
                    next_item = item
                elif following == row and found_hash == following_hash:
                    oddity, found, next_item = _MISSING, 0, item
                else:
                    oddity, found = _HASH, found_hash
            elif found_offset < position:
                if is_tag and found_hash != wanted and following >= 0 and found_hash == following_hash:
                    # A tag without entry, and after it a damaged offset.
                    next_item = item
                elif found_hash == wanted and next_offset >= position and found_offset != last_match:
                    oddity, expected = _OFFSET, position
                else:
                    # An extra entry. It is a duplicate if an earlier entry of the same record has its hash.
                    oddity, next_key = _BOGUS, key
                    if found_offset == last_match:
                        before = place - ITEM_SIZE
                        while before >= base and _read_offset(before) == found_offset and _read_hash(before) != found_hash:
                            before -= ITEM_SIZE
                        if (before < base and first > 1) or (before >= base and _read_offset(before) == found_offset):
                            oddity = _DUPLICATE
            else:
                # The entry is after the key: the key has no entry, or the entry's offset was changed.
                lower_follows = more and next_offset < found_offset
                if found_hash == wanted and (lower_follows or found_offset < position + size or not more):
                    oddity, expected = _OFFSET, position
                elif is_tag:
                    next_item = item
                elif lower_follows:
                    oddity, next_key = _BOGUS, key
                else:
                    oddity, found, next_item = _MISSING, 0, item
        if oddity:
            _write_oddity(oddities + used * _ODDITY_SIZE, oddity, first + item, position, expected, found)
            used += 1
        key, item = next_key, next_item
    _write_matched(matched, number, last_match)
    return key, item, used, state
