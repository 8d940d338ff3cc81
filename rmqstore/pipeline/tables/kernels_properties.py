"""Compiled property parser: positions of the properties of many records, and many short texts concatenated as Arrow keeps them."""

from __future__ import annotations

import numpy as np

from rmqstore.formats.properties import KEYS, NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR, TAGS, UNIQ_KEY
from rmqstore.scan.kernels.declare import kernel, part
from rmqstore.scan.kernels.raw import copy_bytes, find_byte, java_hash_utf8, le64, native64, store8, store32, store64
from rmqstore.scan.kernels.rows import fields_writer

MOST_PROPERTIES = 64
"""A record with more properties is left to its reader in Python: looking for repeated names would take too long here."""

PLACES = (TAGS, KEYS, UNIQ_KEY)
"""The properties with columns of their own, in the order of `places`."""

_EVERY_BYTE = 0x0101010101010101
_NAME_END = np.uint64(ord(NAME_VALUE_SEPARATOR) * _EVERY_BYTE)
_PROPERTY_END = np.uint64(ord(PROPERTY_SEPARATOR) * _EVERY_BYTE)
_ONE_BYTE = np.uint64(8)
_MIX = np.uint64(0x1E3779B97F4A7C15)


# What `_name_fingerprint` makes of these names, none of which has more than eight characters.
_PLACE_FINGERPRINTS = np.array([int.from_bytes(name.encode("ascii").rjust(8, b"\0"), "little") ^ len(name) for name in PLACES], np.uint64)
_PLACE_LENGTHS = np.array([len(name) for name in PLACES], np.int64)
_PLACE_COUNT = len(PLACES)
_write_pair = fields_writer(np.dtype([("name", "i8"), ("name_end", "i8"), ("value_end", "i8")]))
_write_place = fields_writer(np.dtype([("start", "i8"), ("end", "i8")]))


@part
def _name_fingerprint(base: int, start: int, end: int) -> int:
    """Return an uint64 that equal names share; names of up to eight bytes have a unique one. Eight bytes before `end` are readable."""
    length = np.uint64(end - start)
    word = le64(base, end - 8)
    if length < _ONE_BYTE:
        missing = _ONE_BYTE * (_ONE_BYTE - length)
        return (word >> missing) << missing ^ length
    if length > _ONE_BYTE:
        word = (word ^ le64(base, start)) * _MIX
    return word ^ length


@kernel
def split_properties(
    base: int, starts: int, ends: int, rows: int, pairs: int, pair_ends: int, places: int, odd: int, fingerprints: int
) -> int:
    """Find the properties that brokers read in blocks at base + [starts[i], ends[i]) and return their number.

    All but `rows` = n are addresses: starts, ends = int64[n]; pairs = int64[m, 3], filled with (start of the name, end of the name, end
    of the value), the value begins one byte after its name, m at least a quarter of all bytes + n; pair_ends = int32[n], number of
    pairs up to the end of each block; places = int64[n, len(PLACES), 2], filled with start and end of the values of TAGS, KEYS and
    UNIQ_KEY, equal if there is none; odd = bool[n], true for blocks that a reader of text must decode (malformed UTF-8, repeated names,
    too many): they get no pairs; fingerprints = uint64[MOST_PROPERTIES] to work in. The 32 bytes before a block must be readable.
    """
    total = 0
    for row in range(rows):
        position = native64(starts, row * 8)
        end = native64(ends, row * 8)
        first = total
        own_places = places + row * (_PLACE_COUNT * 16)
        _, well_formed = java_hash_utf8(np.int64(0), base, position, end)
        is_odd = not well_formed
        for place in range(_PLACE_COUNT):
            _write_place(own_places + place * 16, position, position)
        while position < end and not is_odd:
            piece_end = find_byte(base, position, end, _PROPERTY_END)
            name_end = find_byte(base, position, piece_end, _NAME_END)
            if name_end > position and name_end + 1 < piece_end:
                fingerprint = _name_fingerprint(base, position, name_end)
                count = total - first
                is_odd = count == MOST_PROPERTIES
                for other in range(count):
                    is_odd = is_odd or le64(fingerprints, other * 8) == fingerprint
                if is_odd:
                    break
                store64(fingerprints, count * 8, fingerprint)
                _write_pair(pairs + total * 24, position, name_end, piece_end)
                total += 1
                length = name_end - position
                for place in range(_PLACE_COUNT):
                    if length == _PLACE_LENGTHS[place] and fingerprint == _PLACE_FINGERPRINTS[place]:
                        _write_place(own_places + place * 16, name_end + 1, piece_end)
            position = piece_end + 1
        if is_odd:
            total = first
            for place in range(_PLACE_COUNT):
                start = native64(own_places, place * 16)
                _write_place(own_places + place * 16, start, start)
        store8(odd, row, is_odd)
        store32(pair_ends, row * 4, total)
    return total


@kernel
def copy_spans(base: int, starts: int, ends: int, rows: int, out: int, offsets: int) -> None:
    """Copy the bytes at base + [starts[i], ends[i]) to `out`, one text after the other.

    All but `rows` = n are addresses: starts, ends = int64[n]; offsets = int32[n + 1], filled with where each text begins and the last
    one ends.
    """
    at = 0
    store32(offsets, 0, 0)
    for row in range(rows):
        at = copy_bytes(base, native64(starts, row * 8), native64(ends, row * 8), out, at)
        store32(offsets, (row + 1) * 4, at)
