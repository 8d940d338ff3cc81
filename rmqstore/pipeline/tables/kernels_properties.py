"""Compiled property parser: positions of the properties of many records, and many short texts concatenated as Arrow keeps them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from rmqstore.formats.properties import KEYS, NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR, TAGS, UNIQ_KEY
from rmqstore.scan.kernels.raw import find_byte, java_hash_utf8, le64, store8, store64, u8

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


@njit(no_cpython_wrapper=True, no_cfunc_wrapper=True)
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


@njit(nogil=True, cache=True)
def split_properties(base: int, starts: Any, ends: Any, pairs: Any, pair_ends: Any, places: Any, odd: Any, fingerprints: Any) -> int:
    """Find the properties that brokers read in blocks at base + [starts[i], ends[i]) and return their number.

    Args: starts, ends = int64[n]; pairs = int64[m, 3], filled with (start of the name, end of the name, end of the value), the value
    begins one byte after its name, m at least a quarter of all bytes + n; pair_ends = int32[n], number of pairs up to the end of each
    block; places = int64[n, len(PLACES), 2], filled with start and end of the values of TAGS, KEYS and UNIQ_KEY, equal if there is
    none; odd = bool[n], true for blocks that a reader of text must decode (malformed UTF-8, repeated names, too many): they get no
    pairs; fingerprints = uint64[MOST_PROPERTIES] to work in. The 32 bytes before a block must be readable.
    """
    total = 0
    for row in range(starts.size):
        position = starts[row]
        end = ends[row]
        first = total
        _, well_formed = java_hash_utf8(np.int64(0), base, position, end)
        is_odd = not well_formed
        for place in range(_PLACE_COUNT):
            places[row, place, 0] = position
            places[row, place, 1] = position
        while position < end and not is_odd:
            piece_end = find_byte(base, position, end, _PROPERTY_END)
            name_end = find_byte(base, position, piece_end, _NAME_END)
            if name_end > position and name_end + 1 < piece_end:
                fingerprint = _name_fingerprint(base, position, name_end)
                count = total - first
                is_odd = count == MOST_PROPERTIES
                for other in range(count):
                    is_odd = is_odd or fingerprints[other] == fingerprint
                if is_odd:
                    break
                fingerprints[count] = fingerprint
                pairs[total, 0] = position
                pairs[total, 1] = name_end
                pairs[total, 2] = piece_end
                total += 1
                length = name_end - position
                for place in range(_PLACE_COUNT):
                    if length == _PLACE_LENGTHS[place] and fingerprint == _PLACE_FINGERPRINTS[place]:
                        places[row, place, 0] = name_end + 1
                        places[row, place, 1] = piece_end
            position = piece_end + 1
        if is_odd:
            total = first
            for place in range(_PLACE_COUNT):
                places[row, place, 1] = places[row, place, 0]
        odd[row] = is_odd
        pair_ends[row] = total
    return total


@njit(nogil=True, cache=True)
def copy_spans(base: int, starts: Any, ends: Any, out: int, offsets: Any) -> None:
    """Copy the bytes at base + [starts[i], ends[i]) to the address `out`, one text after the other.

    starts, ends = int64[n]; offsets = int32[n + 1], filled with where each text begins and the last one ends.
    """
    at = 0
    offsets[0] = 0
    for row in range(starts.size):
        position = starts[row]
        end = ends[row]
        while position + 8 <= end:
            store64(out, at, le64(base, position))
            position += 8
            at += 8
        while position < end:
            store8(out, at, u8(base, position))
            position += 1
            at += 1
        offsets[row + 1] = at
