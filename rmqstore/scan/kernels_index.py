"""Compiled checks of index files: slots and chains of one file, and items against the keys of the log.

The chains of an index file are fully determined by its items: item n links to the newest earlier item of its slot, and a slot holds its
newest item. Items are written in log order, so the keys of the log and the items of the files are compared like two sorted lists.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
from numba import njit

from rmqstore.formats import index as declared
from rmqstore.formats.layout import fixed_layout
from rmqstore.scan.raw import INTERNAL, be32, be64

HEADER_SIZE: int = declared.HEADER.sizeof()
SLOT_SIZE: int = declared.SLOT.sizeof()
ITEM_SIZE: int = declared.ITEM.sizeof()
_ITEM = fixed_layout(declared.ITEM)
_KEY_HASH = _ITEM["key_hash"].offset
_PHY_OFFSET = _ITEM["phy_offset"].offset
_TIME_DIFF = _ITEM["time_diff"].offset
_PREV_INDEX = _ITEM["prev_index"].offset


class ItemOddity(IntEnum):
    """What is wrong with an item, or with a key that has none."""

    BOGUS = 1  # no key of the log at this place has this hash and offset
    HASH = 2  # offset fits, hash is not that of the key
    OFFSET = 3  # hash fits, offset does not
    TIME = 4  # time difference does not fit
    MISSING = 5  # a key without item
    DUPLICATE = 6  # the last message indexed a second time


ODDITY_DTYPE = np.dtype([("oddity", "i4"), ("item", "i4"), ("position", "i8"), ("expected", "i8"), ("found", "i8")])

LINK_DTYPE = np.dtype([("item", "i4"), ("slot", "i4"), ("expected", "i4"), ("found", "i4")])


@njit(nogil=True, cache=True)
def follow_chains(base: int, first: int, count: int, newest: Any, state: Any, links: Any, used: int) -> int:
    """Checks the links of `count` items at `base`, the first of which is item number `first`.

    `newest` = int32[slots]: newest item of every slot so far, updated. `state` = int64[4]: [used slots, items out of offset order, last
    offset, items with a negative hash], updated. Rows for wrong links go to `links` from row `used` on as far as they fit; returns the
    number of wrong links so far.
    """
    slots = newest.size
    for i in range(count):
        at = i * ITEM_SIZE
        key_hash = np.int64(be32(base, at + _KEY_HASH))
        if key_hash < 0:
            state[3] += 1
            key_hash = np.int64(0) if key_hash == -2147483648 else -key_hash
        slot = key_hash % slots
        previous = be32(base, at + _PREV_INDEX)
        expected = newest[slot]
        if previous != expected:
            if used < links.size:
                row = links[used]
                row.item = first + i
                row.slot = slot
                row.expected = expected
                row.found = previous
            used += 1
        if expected == 0:
            state[0] += 1
        newest[slot] = first + i
        offset = be64(base, at + _PHY_OFFSET)
        if offset < state[2]:
            state[1] += 1
        state[2] = offset
    return used


@njit(nogil=True, cache=True)
def compare_slots(base: int, first: int, count: int, newest: Any, links: Any, used: int) -> int:
    """Compares `count` slots at `base` (the first is slot `first`) with the newest items; rows as in `follow_chains`, item = 0."""
    for i in range(count):
        value = be32(base, i * SLOT_SIZE)
        expected = newest[first + i]
        if value != expected:
            if used < links.size:
                row = links[used]
                row.item = 0
                row.slot = first + i
                row.expected = expected
                row.found = value
            used += 1
    return used


ITEMS_END = 1
KEYS_END = 2
ODDITIES_FULL = 3


@njit(**INTERNAL)
def _offset(base: int, item: int) -> int:
    return be64(base, item * ITEM_SIZE + _PHY_OFFSET)


@njit(**INTERNAL)
def _hash(base: int, item: int) -> int:
    return be32(base, item * ITEM_SIZE + _KEY_HASH)


@njit(**INTERNAL)
def _seconds(store_timestamp: int, begin: int) -> int:
    """The time difference the broker stores: whole seconds, cut to 0 … 2^31-1; 0 without a begin."""
    if begin <= 0:
        return np.int64(0)
    milliseconds = store_timestamp - begin
    if milliseconds < 0:
        return np.int64(0)
    return min(milliseconds // 1000, np.int64(2147483647))


@njit(**INTERNAL)
def _stands_before(base: int, item: int, first: int) -> bool:
    """Whether the items of the same record before `item` hold its hash; also true when they begin before the buffer."""
    offset = _offset(base, item)
    wanted = _hash(base, item)
    before = item - 1
    while before >= 0 and _offset(base, before) == offset:
        if _hash(base, before) == wanted:
            return True
        before -= 1
    return before < 0 and first > 1


@njit(nogil=True, cache=True)
def match_items(
    records: Any,
    keys: Any,
    key: int,
    base: int,
    first: int,
    item: int,
    count: int,
    last_chunk: int,
    begin: int,
    earlier_end: int,
    matched: Any,
    oddities: Any,
) -> tuple[int, int, int, int]:
    """Compares keys[key:] with the items of one index file.

    `base` = address of `count` buffered items, the first of which has item number `first`; `item` = next item to look at, counted from
    `first`; `last_chunk` = 1 when the buffer ends with the file's last item; `begin` = begin timestamp of the file, `earlier_end` = end
    timestamp of the file before it (0 without one). `matched` = int64[3]: [matched items, matched tag items, offset of the last match],
    updated. Stops two items before the end of a buffer that is not the last, so that it can look ahead.
    Returns (key, item, rows of oddities, ITEMS_END | KEYS_END | ODDITIES_FULL).
    """
    used = 0
    limit = count if last_chunk else count - 2
    while True:
        if key >= keys.size:
            return key, item, used, KEYS_END
        if item >= limit:
            return key, item, used, ITEMS_END
        if used + 2 > oddities.size:
            return key, item, used, ODDITIES_FULL
        record = records[keys[key].record]
        position = record.position
        found_offset = _offset(base, item)
        found_hash = np.int64(_hash(base, item))
        wanted = np.int64(keys[key].hash)
        if found_offset == position and found_hash == wanted:
            seconds = np.int64(be32(base, item * ITEM_SIZE + _TIME_DIFF))
            expected = _seconds(record.store_timestamp, begin)
            if seconds != expected:
                number = first + item
                allowed = number == 1 and (seconds == _seconds(record.store_timestamp, earlier_end))
                if not allowed:
                    row = oddities[used]
                    row.oddity = 4
                    row.item = number
                    row.position = position
                    row.expected = expected
                    row.found = seconds
                    used += 1
            matched[0] += 1
            matched[1] += keys[key].is_tag
            matched[2] = position
            key += 1
            item += 1
            continue
        next_fits = item + 1 >= count or _offset(base, item + 1) >= position
        if found_offset == position:
            if keys[key].is_tag:
                key += 1
                continue
            more = key + 1 < keys.size and keys[key + 1].record == keys[key].record
            if more and found_hash == np.int64(keys[key + 1].hash):
                row = oddities[used]
                row.oddity = 5
                row.item = first + item
                row.position = position
                row.expected = wanted
                row.found = 0
                used += 1
                key += 1
                continue
            row = oddities[used]
            row.oddity = 2
            row.item = first + item
            row.position = position
            row.expected = wanted
            row.found = found_hash
            used += 1
            key += 1
            item += 1
            continue
        if found_offset < position:
            if keys[key].is_tag and found_hash != wanted and key + 1 < keys.size and found_hash == np.int64(keys[key + 1].hash):
                # A tag without item, and behind it a damaged offset.
                key += 1
                continue
            # Either an item too much, or one whose offset was changed: then its hash is the wanted one.
            row = oddities[used]
            row.item = first + item
            row.position = position
            row.found = found_offset
            if found_hash == wanted and next_fits and found_offset != matched[2]:
                row.oddity = 3
                row.expected = position
                key += 1
            else:
                row.oddity = 6 if found_offset == matched[2] and _stands_before(base, item, first) else 1
                row.expected = wanted
            used += 1
            item += 1
            continue
        # The item lies behind the key: the key has no item, or the item's offset was changed.
        lower_follows = item + 1 < count and _offset(base, item + 1) < found_offset
        inside = found_offset < position + record.size
        if found_hash == wanted and (lower_follows or inside or item + 1 >= count):
            row = oddities[used]
            row.oddity = 3
            row.item = first + item
            row.position = position
            row.expected = position
            row.found = found_offset
            used += 1
            key += 1
            item += 1
            continue
        if lower_follows and not keys[key].is_tag:
            row = oddities[used]
            row.oddity = 1
            row.item = first + item
            row.position = position
            row.expected = wanted
            row.found = found_offset
            used += 1
            item += 1
            continue
        if not keys[key].is_tag:
            row = oddities[used]
            row.oddity = 5
            row.item = first + item
            row.position = position
            row.expected = wanted
            row.found = 0
            used += 1
        key += 1
