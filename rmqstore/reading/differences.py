"""The bytes in which two copies of a log differ."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from rmqstore.reading.progress import Advance, silent
from rmqstore.reading.recordtables import Ranges
from rmqstore.store.mapped import MappedFile, MappedFileQueue
from rmqstore.store.window import data_extents, read_into

_WINDOW = 4 << 20
_CLOSE = 64
"""Bytes; differing bytes with fewer equal ones between them are one range. No record fits in there."""

NO_RANGES: Ranges = np.zeros((0, 2), np.int64)


def shared_files(one: MappedFileQueue, other: MappedFileQueue, begin: int, end: int) -> Iterator[tuple[MappedFile, MappedFile, int, int]]:
    """Yield, in offset order, each two files of two logs that share bytes of [begin, end), and those bytes [low, high)."""
    right = 0
    for file in one.files:
        while right < len(other.files) and other.files[right].end <= file.start:
            right += 1
        for second in other.files[right:]:
            if second.start >= file.end:
                break
            low, high = max(begin, file.start, second.start), min(end, file.end, second.end)
            if low < high:
                yield file, second, low, high


def differing_ranges(one: MappedFile, other: MappedFile, begin: int, end: int, *, first: bool = False, advance: Advance = silent) -> Ranges:
    """Return the ranges of [begin, end), physical offsets in both files, whose bytes differ; `first`: only those of the first window.

    Holes of both files are not read. Raises UnreadableError, StoreChangedError.
    """
    found: list[Ranges] = []
    buffers = np.empty((2, _WINDOW), np.uint8)
    done = begin
    for low, high in _extents(one, other, begin, end):
        for at in range(low, high, _WINDOW):
            size = min(_WINDOW, high - at)
            left, right = buffers[0, :size], buffers[1, :size]
            read_into(one, at - one.start, left)
            read_into(other, at - other.start, right)
            if not _equal(left, right):
                found.append(_ranges(left, right, at))
                if first:
                    return found[0]
            advance(at + size - done)
            done = at + size
    advance(end - done)
    return _joined(np.concatenate(found)) if found else NO_RANGES


def _extents(one: MappedFile, other: MappedFile, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of [begin, end) in which one of two files has data."""
    extents = sorted((low + file.start, high + file.start) for file in (one, other) for low, high in data_extents(file))
    reached = begin
    for low, high in extents:
        low, high = max(low, reached), min(high, end)
        if low < high:
            yield low, high
            reached = high


def _equal(left: npt.NDArray[np.uint8], right: npt.NDArray[np.uint8]) -> bool:
    whole = left.size - left.size % 8
    return np.array_equal(left[:whole].view(np.int64), right[:whole].view(np.int64)) and np.array_equal(left[whole:], right[whole:])


def _ranges(left: npt.NDArray[np.uint8], right: npt.NDArray[np.uint8], at: int) -> Ranges:
    places = np.flatnonzero(left != right)
    return _joined(np.stack([places, places + 1], axis=1) + at)


def _joined(ranges: Ranges) -> Ranges:
    apart = np.flatnonzero(ranges[1:, 0] - ranges[:-1, 1] >= _CLOSE)
    return np.stack([ranges[np.concatenate([[0], apart + 1]), 0], ranges[np.concatenate([apart, [len(ranges) - 1]]), 1]], axis=1)
