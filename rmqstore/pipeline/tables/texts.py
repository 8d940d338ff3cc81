"""Arrow arrays of texts and bytes in mapped memory, without a Python object per value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rmqstore.pipeline.tables.kernels_properties import MOST_PROPERTIES, PLACES, copy_spans, split_properties

Offsets = NDArray[np.int64]


def spans_array(base: int, starts: Offsets, ends: Offsets, kind: pa.DataType, *, empty_is_null: bool = False) -> pa.Array:
    """Return the bytes at base + [starts[i], ends[i]) as an array of `kind` (string, binary); strings must be UTF-8."""
    lengths = ends - starts
    data = np.empty(int(lengths.sum()), np.uint8)
    offsets = np.empty(len(starts) + 1, np.int32)
    starts, ends = (np.ascontiguousarray(side, np.int64) for side in (starts, ends))
    copy_spans(base, starts.ctypes.data, ends.ctypes.data, len(starts), data.ctypes.data, offsets.ctypes.data)
    validity = pa.py_buffer(np.packbits(lengths > 0, bitorder="little")) if empty_is_null else None
    return pa.Array.from_buffers(kind, len(starts), [validity, pa.py_buffer(offsets), pa.py_buffer(data)])


class Properties:
    """The properties of the records of one batch. Rows that are `odd` (malformed, repeated names) are empty here."""

    def __init__(self, base: int, starts: Offsets, ends: Offsets) -> None:
        """Parse the property blocks at the address base + [starts[i], ends[i]), inside of records."""
        count = len(starts)
        self._base = base
        self._pairs = np.empty(((int((ends - starts).sum()) + count) // 4 + 1, 3), np.int64)
        self._pair_ends = np.empty(count, np.int32)
        self._places = np.empty((count, len(PLACES), 2), np.int64)
        self.odd: NDArray[np.bool_] = np.empty(count, np.bool_)
        starts, ends = (np.ascontiguousarray(side, np.int64) for side in (starts, ends))
        out = (self._pairs, self._pair_ends, self._places, self.odd, np.empty(MOST_PROPERTIES, np.uint64))
        found = split_properties(base, starts.ctypes.data, ends.ctypes.data, count, *(memory.ctypes.data for memory in out))
        self._pairs = self._pairs[:found]

    def value(self, name: str) -> pa.Array:
        """Return the values of one of PLACES as strings, null where a record has none."""
        starts, ends = (np.ascontiguousarray(side) for side in self._places[:, PLACES.index(name)].T)
        return spans_array(self._base, starts, ends, pa.string(), empty_is_null=True)

    def maps(self) -> pa.Array:
        """Return all properties of each record, in the order of the record."""
        starts, middles, ends = (np.ascontiguousarray(side) for side in self._pairs.T)
        names = spans_array(self._base, starts, middles, pa.string())
        values = spans_array(self._base, middles + 1, ends, pa.string())
        return pa.MapArray.from_arrays(np.concatenate(([0], self._pair_ends)).astype(np.int32), names, values)


_HEX = np.frombuffer(b"".join(b"%02X" % byte for byte in range(256)), np.uint8).reshape(256, 2)


def hex_array(rows: NDArray[np.uint8]) -> pa.Array:
    """Return rows of equally many bytes (uint8[n, m]) as upper-case hexadecimal text."""
    count, width = rows.shape
    offsets = np.arange(0, (count + 1) * width * 2, width * 2, dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(_HEX[rows]))])


def replaced(array: pa.Array, rows: NDArray[np.int64], values: list[Any]) -> pa.Array:
    """Return the array with other values in some rows."""
    order = np.arange(len(array))
    order[rows] = len(array) + np.arange(len(rows))
    return pa.concat_arrays([array, pa.array(values, array.type)]).take(pa.array(order))
