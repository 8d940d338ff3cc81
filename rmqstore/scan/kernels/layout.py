"""Property layouts: the positions of the properties of a block, remembered from one record to the next.

Producers write the same properties in the same order, and their values mostly have the same lengths. So a block is first compared, 64
bytes at a time, with the names and separators of one seen before; when all are in their places, so are the values, and nothing has to be
parsed. The layout that a block is compared with depends only on its length and its first bytes.
"""

from __future__ import annotations

import numpy as np

from rmqstore.scan.kernels.declare import inlined, part
from rmqstore.scan.kernels.raw import equal64, native32, native64, store8, store32, store64, u8
from rmqstore.scan.kernels.rows import field_offset, fields_reader, fields_writer

NAME_END = 1
PROPERTY_END = 2

_MOST = 512
_BLOCK = 64
_PLACES = (
    "tags_start",
    "tags_end",
    "keys_start",
    "keys_end",
    "unique_start",
    "unique_end",
    "delay_start",
    "delay_end",
    "crc_start",
    "crc_end",
    "marks",
)
LAYOUT_DTYPE = np.dtype(
    [
        ("length", "i4"),  # of the block, 0: nothing was learned yet
        ("misses", "i4"),  # blocks compared with this layout that did not fit
        *((name, "i4") for name in _PLACES),  # of the values, bytes from the start of the block; 0, 0: no such property
        ("pattern", "u1", (_MOST,)),  # names and separators; within values a separator, which must not be there
        ("fixed", "i8", (_MOST // _BLOCK,)),  # bit i for byte i of a block of the pattern: it must be there
        ("fixed_at_end", "i8"),  # the same for the last 64 bytes
    ]
)
LAYOUT_COUNT = 256

_BYTES = LAYOUT_DTYPE.itemsize
_LENGTH, _MISSES, _PATTERN, _FIXED, _FIXED_AT_END = (
    field_offset(LAYOUT_DTYPE, name) for name in ("length", "misses", "pattern", "fixed", "fixed_at_end")
)
# A layout is replaced after this many misses: if two alternate, the older one stays and one of them is parsed.
_PATIENCE = 15
_ALL_BUT_HIGHEST = (1 << 63) - 1
_MIX = 0x9E3779B1

read_places = fields_reader(LAYOUT_DTYPE, *_PLACES)
write_places = fields_writer(LAYOUT_DTYPE, *_PLACES)


@inlined
def layout_of(layouts: int, base: int, start: int, length: int) -> int:
    """Return the address of the layout to compare a block of properties with."""
    if length < _BLOCK:
        return layouts
    mixed = ((native32(base, start) ^ length) * _MIX) >> 16
    return layouts + (mixed & (LAYOUT_COUNT - 1)) * _BYTES


@inlined
def fits(layout: int, base: int, start: int, length: int) -> bool:
    """Return whether all names and separators of the block are where the layout has them, and no others."""
    if native32(layout, _LENGTH) != length or length < _BLOCK:
        return False
    unlike = np.int64(0)
    last = length - _BLOCK
    i = np.int64(0)
    while i < last:
        unlike |= equal64(base, start + i, layout, _PATTERN + i) ^ native64(layout, _FIXED + (i >> 3))
        i += _BLOCK
    return (unlike | (equal64(base, start + last, layout, _PATTERN + last) ^ native64(layout, _FIXED_AT_END))) == 0


@part
def learn(layout: int, base: int, start: int, length: int) -> bool:
    """Store names and separators of a block in the layout; False if it is unchanged: the caller has no places to write."""
    misses = native32(layout, _MISSES)
    store32(layout, _MISSES, misses + 1)
    if (misses & _PATIENCE) != 0 or length < _BLOCK or length > _MOST:
        return False
    store32(layout, _LENGTH, 0)
    in_name = True
    fixed = np.int64(0)
    for i in range(length):
        byte = u8(base, start + i)
        if in_name and (byte == 0 or byte == PROPERTY_END):
            return False
        is_fixed = in_name or byte == PROPERTY_END
        store8(layout, _PATTERN + i, byte if is_fixed else PROPERTY_END)
        # The bits of the last 64 bytes; where a block of the pattern ends, they are its own.
        fixed = ((fixed >> 1) & _ALL_BUT_HIGHEST) | (np.int64(is_fixed) << 63)
        if i % _BLOCK == _BLOCK - 1:
            store64(layout, _FIXED + (i >> 6) * 8, fixed)
        if byte == PROPERTY_END:
            in_name = True
        elif byte == NAME_END:
            in_name = False
    if in_name and u8(base, start + length - 1) != PROPERTY_END:
        return False
    store64(layout, _FIXED_AT_END, fixed)
    store32(layout, _LENGTH, length)
    return True
