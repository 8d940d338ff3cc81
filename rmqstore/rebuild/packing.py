"""Batches as bytes, for builders in another process: the columns that a builder reads, keys, and properties that are read.

A column is stored as the differences of its numbers to the smallest of them, in as few bytes as the largest needs: most bytes of a record's
columns are the same in all records around it, and what is not written need not be read.
"""

from __future__ import annotations

import pickle
import struct
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from rmqstore.rebuild.requests import QueueOf
from rmqstore.scan.ahead import BUFFERS
from rmqstore.scan.columns import KEY_DTYPE, READ_PROPERTIES, RECORD_DTYPE, Fault, Mark, Oddity
from rmqstore.scan.walk import Batch

FOR_INDEX = ("position", "physical_offset", "store_timestamp")
"""Columns that an IndexBuilder reads of records that `requests_of` left."""
FOR_QUEUES = ("physical_offset", "queue_offset", "store_timestamp", "tags_code", "size", "queue", "sys_flag")
"""Columns that a QueueBuilder reads of such records."""
_FOR_PROPERTIES = ("position", "properties_length", "marks")
_KEYS: tuple[str, ...] = KEY_DTYPE.names or ()
_LENGTH = struct.Struct("<I")
"""The length of a packet precedes it, and in a packet that of its head."""
_WIDTHS = ((1, ""), (1 << 8, "u1"), (1 << 16, "u2"), (1 << 32, "u4"))
_ROOM = 1 << 12
"""Rows by whose multiples the memory of an Unpacker grows."""
_Column = tuple[str, int, str]
"""Name, smallest number, type of the differences of its numbers to it: "" if all are the same."""
_Array = npt.NDArray[Any]


def pack(batch: Batch, queue_of: QueueOf, columns: tuple[str, ...]) -> bytes:
    """Return these columns of the batch, its keys and the properties that a builder reads: no other bytes of the log."""
    records: dict[str, _Array] = {name: batch.records[name] for name in columns}
    window = b""
    if batch.marks & READ_PROPERTIES:
        records |= {name: batch.records[name] for name in _FOR_PROPERTIES}
        blocks = [batch.properties_block(row) for row in range(len(batch.records))]
        window = b"".join(blocks)
        # A builder finds the properties of a record before its end.
        records["position"] = np.cumsum([len(block) for block in blocks]) - batch.records["size"]
    names = {number: queue_of(number) for number in np.unique(records["queue"]).tolist()} if "queue" in records else {}
    of_records, of_keys = _narrowed(records), _narrowed({name: batch.keys[name] for name in _KEYS})
    return _packet(batch, (len(batch.records), len(batch.keys)), names, of_records, of_keys, window)


def pack_apart(batch: Batch, groups: npt.NDArray[np.uint8], queue_of: QueueOf) -> Iterator[tuple[int, bytes]]:
    """Yield (group, packet) for every group of queues; `groups` = the group of each queue by its number.

    The columns that a QueueBuilder reads of a batch without records whose properties are read, keys left out: the same as `pack` for each
    group, but with one pass over the numbers.
    """
    described, data = _narrowed({name: batch.records[name] for name in FOR_QUEUES})
    of_records = groups[batch.records["queue"]]
    order = np.argsort(of_records, kind="stable")
    data = [numbers.take(order) for numbers in data]
    present = np.unique(batch.records["queue"])
    of_present = groups[present]
    counts = np.bincount(of_records).tolist()
    for group, (count, end) in enumerate(zip(counts, accumulate(counts), strict=True)):
        if count:
            names = {number: queue_of(number) for number in present[of_present == group].tolist()}
            part = described, [numbers[end - count : end] for numbers in data]
            yield group, _packet(batch, (count, 0), names, part, ([], []), b"")


def _packet(
    batch: Batch,
    counts: tuple[int, int],
    names: dict[int, tuple[str, int]],
    of_records: tuple[list[_Column], list[_Array]],
    of_keys: tuple[list[_Column], list[_Array]],
    window: bytes,
) -> bytes:
    flags = int(batch.faults), int(batch.marks), int(batch.oddities)
    head = pickle.dumps((of_records[0], of_keys[0], names, counts, flags))
    numbers = of_records[1] + of_keys[1]
    length = _LENGTH.size + len(head) + sum(column.nbytes for column in numbers) + len(window)
    return b"".join((_LENGTH.pack(length), _LENGTH.pack(len(head)), head, *(column.data for column in numbers), window))


def packets(file: BinaryIO, length: int) -> Iterator[bytes]:
    """Yield the packets in the next `length` bytes. Raises EOFError if the file ends before, OSError."""
    while length > 0:
        size = _LENGTH.unpack(_read(file, _LENGTH.size))[0]
        yield _read(file, size)
        length -= _LENGTH.size + size


def _read(file: BinaryIO, length: int) -> bytes:
    data = file.read(length)
    if len(data) < length:
        raise EOFError(f"{file.name} ends within a packet")
    return data


class Unpacker:
    """Restores batches; all of one unpacker number their queues in the same way, whatever scanner they come from."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, int], int] = {}
        self._keys: list[tuple[str, int]] = []
        self._memory = deque(_Memory() for _ in range(BUFFERS))

    def queue(self, number: int) -> tuple[str, int]:
        """Return (topic, queue id) of a number, as `LogScanner.queue`."""
        return self._keys[number]

    def batch(self, data: bytes) -> Batch:
        """Return the content of a packet; other columns are zeros. Of the log's bytes only properties exist, where their record ends."""
        at = _LENGTH.size + _LENGTH.unpack_from(data)[0]
        of_records, of_keys, names, counts, flags = pickle.loads(memoryview(data)[_LENGTH.size : at])
        self._memory.rotate(1)
        records, keys = self._memory[0].rows(counts, {name for name, _, _ in of_records})
        at = _widened(of_records, records, data, at)
        at = _widened(of_keys, keys, data, at)
        if names:
            records["queue"] = self._renumbered(names, records["queue"])
        faults, marks, oddities = flags
        window = np.frombuffer(data, np.uint8, offset=at)
        return Batch(records, keys, window, 0, Fault(faults), Mark(marks), Oddity(oddities), lasts=BUFFERS - 1)

    def _renumbered(self, names: dict[int, tuple[str, int]], numbers: _Array) -> _Array:
        table = np.zeros(max(names, default=0) + 1, numbers.dtype)
        for number, key in names.items():
            if key not in self._numbers:
                self._numbers[key] = len(self._keys)
                self._keys.append(key)
            table[number] = self._numbers[key]
        renumbered: _Array = table[numbers]
        return renumbered


class _Memory:
    """Rows that are reused, because new memory has to be cleared first: unused columns stay zeros."""

    def __init__(self) -> None:
        self._records = np.zeros(0, RECORD_DTYPE)
        self._keys = np.empty(0, KEY_DTYPE)
        self._filled: set[str] = set()

    def rows(self, counts: tuple[int, int], columns: set[str]) -> tuple[npt.NDArray[np.void], npt.NDArray[np.void]]:
        """Return so many records and keys; these columns of the records will be filled."""
        count, key_count = counts
        if len(self._records) < count:
            self._records = np.zeros(-(-count // _ROOM) * _ROOM, RECORD_DTYPE)
        if len(self._keys) < key_count:
            self._keys = np.empty(-(-key_count // _ROOM) * _ROOM, KEY_DTYPE)
        for name in self._filled - columns:
            self._records[name] = 0
        self._filled = columns
        return self._records[:count], self._keys[:key_count]


def without_bytes(batch: Batch) -> Batch:
    """Return the batch for use of its columns alone."""
    return replace(batch, marks=batch.marks & ~READ_PROPERTIES)


def _narrowed(columns: dict[str, _Array]) -> tuple[list[_Column], list[_Array]]:
    """Return the columns, and the numbers of those that need any."""
    described: list[_Column] = []
    data: list[_Array] = []
    for name, column in columns.items():
        # Consecutive, they are read at the pace of memory.
        numbers = column.astype("i8")
        low, high = (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, 0)
        for limit, code in _WIDTHS:
            if high - low < limit:
                described.append((name, low, code))
                if code:
                    data.append(np.subtract(numbers, low, out=np.empty(len(numbers), code), casting="unsafe"))
                break
        else:
            described.append((name, 0, numbers.dtype.str))
            data.append(numbers)
    return described, data


def _widened(columns: list[_Column], rows: npt.NDArray[np.void], data: bytes, at: int) -> int:
    """Fill the columns of the rows with the bytes at `at`, and return where they end."""
    for name, low, code in columns:
        if not code:
            rows[name] = low
            continue
        kept = np.frombuffer(data, code, len(rows), at)
        at += kept.nbytes
        rows[name] = kept if low == 0 else kept.astype("i8") + low
    return at
