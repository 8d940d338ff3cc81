"""Compiled code for the index in RocksDB: the entries of records, and hashes of entries, in the form of `rmqstore.store.rocksdb.framing`.

An entry is the letter `P`, the length of its key (4 bytes, big-endian), the key, the length of the value, which is 8, and the value.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from rmqstore.formats.indexentry import HOUR, KEY_SEPARATOR
from rmqstore.formats.properties import KEYS, TAGS, UNIQ_KEY
from rmqstore.scan.columns import RECORD_DTYPE
from rmqstore.scan.kernels.declare import inlined, kernel, part
from rmqstore.scan.kernels.layout import NAME_END, PROPERTY_END
from rmqstore.scan.kernels.offsets import BORN_HOST_V6, HOST_V4_WIDTH, HOST_V6_WIDTH, MAGIC, MAGIC_V2, MIN_SIZE, STORE_HOST_V6
from rmqstore.scan.kernels.raw import be32, be32u, be64, copy_bytes, find_byte, java_hash_utf8, native64, store8, store64, u8
from rmqstore.scan.kernels.rows import fields_reader, fields_writer
from rmqstore.store.rocksdb.framing import ENTRY, LENGTH

ENTRY_DTYPE = np.dtype([("hash", "i8"), ("offset", "i8"), ("at", "i8")])
"""An entry: hash of its key and value, physical offset in its key, where its frame begins."""


class Reading(IntEnum):
    """Reasons for which a kernel stops."""

    DONE = 0
    FULL = 1
    UNUSUAL = 2  # a record or a frame that Python has to read


_DONE, _FULL, _UNUSUAL = (int(reason) for reason in Reading)
_read_record = fields_reader(RECORD_DTYPE, "position", "size", "body_length", "properties_length", "sys_flag", "store_timestamp")
_RECORD_BYTES = RECORD_DTYPE.itemsize
_write_row, _ROW_BYTES = fields_writer(ENTRY_DTYPE), ENTRY_DTYPE.itemsize
_V6_EXTRA = HOST_V6_WIDTH - HOST_V4_WIDTH

_LETTER = ENTRY[0]
_LONG = 8
_FIXED = 1 + LENGTH + _LONG + len("@@K@@@") + _LONG + LENGTH + _LONG
"""Bytes of a frame besides topic, key and unique key; that of a unique key alone has one fewer."""
_AT, _K, _T, _U = (ord(letter) for letter in "@KTU")
_KEYS, _TAGS, _UNIQ, _UNIQ_KEY = (int.from_bytes(name.encode(), "big") for name in (KEYS, TAGS, UNIQ_KEY[:4], UNIQ_KEY[4:]))
_PROPERTY_ENDS = np.uint64(PROPERTY_END * 0x0101010101010101)
_BLANK = ord(KEY_SEPARATOR)
_BLANKS = np.uint64(_BLANK * 0x0101010101010101)
_M = 0xC6A4A7935BD1E995 - (1 << 64)
_LOW = (1 << 17) - 1


@inlined
def _put_number(out: int, at: int, number: int, size: int) -> int:
    """Write the lowest `size` bytes of a number, big-endian."""
    for place in range(size):
        store8(out, at + place, (number >> (8 * (size - 1 - place))) & 0xFF)
    return at + size


@inlined
def _put_letter(out: int, at: int, letter: int) -> int:
    store8(out, at, letter)
    return at + 1


@part
def _put_entry(
    base: int, topic: int, topic_end: int, kind: int, key: int, key_end: int, unique: int, unique_end: int, numbers: int, out: int, at: int
) -> int:
    """Write an entry at out + at, and return where it ends. `numbers` = address of hour, physical offset and store time (int64)."""
    frame = at
    at = _put_letter(out, at, _LETTER)
    at = _put_number(out, at + LENGTH, native64(numbers, 0), _LONG)
    at = _put_letter(out, at, _AT)
    at = copy_bytes(base, topic, topic_end, out, at)
    at = _put_letter(out, at, _AT)
    at = _put_letter(out, at, kind)
    at = _put_letter(out, at, _AT)
    if kind != _U:
        at = copy_bytes(base, key, key_end, out, at)
        at = _put_letter(out, at, _AT)
    at = copy_bytes(base, unique, unique_end, out, at)
    at = _put_letter(out, at, _AT)
    at = _put_number(out, at, native64(numbers, 8), _LONG)
    _put_number(out, frame + 1, at - frame - 1 - LENGTH, LENGTH)
    at = _put_number(out, at, _LONG, LENGTH)
    return _put_number(out, at, native64(numbers, 16), _LONG)


@inlined
def _is_plain(base: int, start: int, end: int) -> bool:
    """Return whether Java writes a text as it read it."""
    _, well_formed = java_hash_utf8(np.int64(0), base, start, end)
    return well_formed


@inlined
def _find_values(base: int, start: int, end: int) -> tuple[int, int, int, int, int, int]:
    """Return (start, end) of unique key, keys and tag in a block of properties; of several the last with a value."""
    unique = unique_end = keys = keys_end = tags = tags_end = start
    p = start
    while p < end:
        stop = find_byte(base, p, end, _PROPERTY_ENDS)
        if stop - p > 5:
            name = be32u(base, p)
            if name == _UNIQ:
                if stop - p > 9 and be32u(base, p + 4) == _UNIQ_KEY and u8(base, p + 8) == NAME_END:
                    unique = p + 9
                    unique_end = stop
            elif u8(base, p + 4) == NAME_END:
                if name == _KEYS:
                    keys = p + 5
                    keys_end = stop
                elif name == _TAGS:
                    tags = p + 5
                    tags_end = stop
        p = stop + 1
    return unique, unique_end, keys, keys_end, tags, tags_end


@kernel
def write_entries(
    base: int, origin: int, records: int, rows: int, at: int, count: int, done: int, numbers: int, out: int, capacity: int
) -> tuple[int, int, int, int]:
    """Write the entries of records.

    Args: base = address of the window; origin = physical offset of its first byte; records = address of rows of RECORD_DTYPE; rows =
    address of int64 row numbers, read from number `at` up to `count`; done = entries of the first of them that are already written;
    numbers = address of three int64 for use; out = address of `capacity` bytes.
    Returns (number in `rows` where it stopped, entries of it that are written, bytes written, Reading). FULL: continue there. UNUSUAL:
    nothing is written of the record; continue after it.
    """
    reason = _DONE
    written = 0
    while at < count:
        row = native64(rows, 8 * at)
        position, size, body_length, length, sys_flag, store_timestamp = _read_record(records + row * _RECORD_BYTES)
        end = position + size - origin
        unique, unique_end, keys, keys_end, tags, tags_end = _find_values(base, end - length, end)
        if unique < unique_end and store_timestamp >= 0:
            fixed = MIN_SIZE
            if be32u(base, position - origin + MAGIC) == MAGIC_V2:
                fixed += 1
            if sys_flag & BORN_HOST_V6:
                fixed += _V6_EXTRA
            if sys_flag & STORE_HOST_V6:
                fixed += _V6_EXTRA
            topic_end = end - length - 2
            topic = topic_end - (size - fixed - body_length - length)
            plain = _is_plain(base, topic, topic_end) and _is_plain(base, unique, unique_end)
            if not (plain and _is_plain(base, keys, keys_end) and _is_plain(base, tags, tags_end)):
                reason = _UNUSUAL
                break
            store64(numbers, 0, store_timestamp - store_timestamp % HOUR)
            store64(numbers, 8, position)
            store64(numbers, 16, store_timestamp)
            # The unique key, then every key between blanks, then the tag.
            kind = _U
            start = finish = p = keys
            number = 0
            while True:
                if kind == _U or finish > start:
                    if number >= done:
                        if written + _FIXED + (topic_end - topic) + (finish - start) + (unique_end - unique) > capacity:
                            reason = _FULL
                            break
                        written = _put_entry(base, topic, topic_end, kind, start, finish, unique, unique_end, numbers, out, written)
                    number += 1
                if kind == _T:
                    break
                kind = _K
                if p < keys_end:
                    start = p
                    finish = find_byte(base, p, keys_end, _BLANKS)
                    p = finish + 1
                else:
                    kind = _T
                    start = tags
                    finish = tags_end
            if reason != _DONE:
                done = number
                break
        done = 0
        at += 1
    return at, done, written, reason


@inlined
def _mixed(state: int, word: int) -> int:
    """Return the hash that continues with a word, as MurmurHash64A does it."""
    word *= _M
    word ^= (word >> 47) & _LOW
    return (state ^ (word * _M)) * _M


@kernel
def hash_entries(base: int, at: int, end: int, least: int, seed: int, rows: int, count: int, capacity: int) -> tuple[int, int, int]:
    """Hash the entries in [at, end) whose physical offset is at least `least`, to rows of ENTRY_DTYPE from `count` up to `capacity`.

    Returns (where it stopped, rows, Reading). DONE: only a part of the frame there is before `end`. UNUSUAL: it is no entry of the index.
    """
    reason = _DONE
    while at + 1 + LENGTH <= end:
        key = at + 1 + LENGTH
        length = be32u(base, at + 1)
        if u8(base, at) != _LETTER or length <= 2 * _LONG:
            reason = _UNUSUAL
            break
        value = key + length + LENGTH
        if value > end:
            break
        if be32(base, key + length) != _LONG or u8(base, key + _LONG) != _AT:
            reason = _UNUSUAL
            break
        if value + _LONG > end:
            break
        offset = be64(base, key + length - _LONG)
        if offset >= least:
            if count == capacity:
                reason = _FULL
                break
            state = _mixed(seed ^ length, native64(base, value))
            for place in range(key, key + length - _LONG, _LONG):
                state = _mixed(state, native64(base, place))
            state = _mixed(state, native64(base, key + length - _LONG))
            state ^= (state >> 47) & _LOW
            _write_row(rows + count * _ROW_BYTES, state * _M, offset, at)
            count += 1
        at = value + _LONG
    return at, count, reason
