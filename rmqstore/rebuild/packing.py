"""Batches as bytes, for builders in another process: the columns that a builder reads, keys, and properties where they are read.

A column is kept as what its numbers exceed the smallest of them by, in as few bytes as the largest needs: most bytes of a record's
columns are the same in all records around it, and what is not written need not be read.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from rmqstore.rebuild.requests import QueueOf, properties_block
from rmqstore.scan.ahead import BUFFERS
from rmqstore.scan.columns import KEY_DTYPE, READ_PROPERTIES, RECORD_DTYPE, Fault, Mark, Oddity
from rmqstore.scan.walk import Batch

FOR_INDEX = ("position", "physical_offset", "store_timestamp")
"""Columns that an IndexBuilder reads of records that `requests_of` left."""
FOR_QUEUES = ("physical_offset", "queue_offset", "store_timestamp", "tags_code", "size", "queue", "sys_flag")
"""Columns that a QueueBuilder reads of such records."""
_FOR_PROPERTIES = ("position", "properties_length", "marks")
_KEYS: tuple[str, ...] = KEY_DTYPE.names or ()
_HEAD = struct.Struct("<II")
"""Bytes of a packet behind this, and of the head that follows."""
_WIDTHS = ((1, ""), (1 << 8, "u1"), (1 << 16, "u2"), (1 << 32, "u4"))
_Column = tuple[str, int, str]
"""Name, smallest number, type of what its numbers exceed it by: "" where all are the same."""


def pack(batch: Batch, queue_of: QueueOf, columns: tuple[str, ...]) -> bytes:
    """These columns of the batch, its keys and, as far as a builder asks for them, the properties: nothing else of the log's bytes."""
    records: dict[str, npt.NDArray[Any]] = {name: batch.records[name] for name in columns}
    window = b""
    if batch.marks & READ_PROPERTIES:
        records |= {name: batch.records[name] for name in _FOR_PROPERTIES}
        blocks = [properties_block(batch, row) for row in range(len(batch.records))]
        window = b"".join(blocks)
        # A builder finds the properties of a record in front of its end.
        records["position"] = np.cumsum([len(block) for block in blocks]) - batch.records["size"]
    names = {number: queue_of(number) for number in np.unique(records["queue"]).tolist()} if "queue" in records else {}
    flags = int(batch.faults), int(batch.marks), int(batch.oddities)
    of_records, of_keys = list(_narrowed(records)), list(_narrowed({name: batch.keys[name] for name in _KEYS}))
    described = [column for column, _ in of_records], [column for column, _ in of_keys]
    head = pickle.dumps((*described, names, len(batch.records), len(batch.keys), flags))
    body = [head, *(data for _, data in of_records), *(data for _, data in of_keys), window]
    return b"".join((_HEAD.pack(sum(map(len, body)), len(head)), *body))


def packets(data: bytes) -> Iterator[memoryview]:
    """The packets that lie one behind the other."""
    rest = memoryview(data)
    while rest:
        length = _HEAD.size + _HEAD.unpack_from(rest)[0]
        yield rest[:length]
        rest = rest[length:]


class Unpacker:
    """Makes batches again; all of one unpacker number their queues in the same way, whoever scanned them."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, int], int] = {}
        self._keys: list[tuple[str, int]] = []

    def queue(self, number: int) -> tuple[str, int]:
        """(topic, queue id) of a number, as `LogScanner.queue`."""
        return self._keys[number]

    def batch(self, data: bytes | memoryview) -> Batch:
        """What was packed; other columns are zeros. Of the log's bytes there are properties alone, where their record ends."""
        _, length = _HEAD.unpack_from(data)
        at = _HEAD.size + length
        of_records, of_keys, names, count, key_count, flags = pickle.loads(data[_HEAD.size : at])
        records, keys = np.zeros(count, RECORD_DTYPE), np.empty(key_count, KEY_DTYPE)
        at = _widened(of_records, records, data, at)
        at = _widened(of_keys, keys, data, at)
        if names:
            records["queue"] = self._renumbered(names, records["queue"])
        faults, marks, oddities = flags
        window = np.frombuffer(data, np.uint8, offset=at)
        return Batch(records, keys, window, 0, Fault(faults), Mark(marks), Oddity(oddities), lasts=BUFFERS)

    def _renumbered(self, names: dict[int, tuple[str, int]], numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
        table = np.zeros(max(names, default=0) + 1, numbers.dtype)
        for number, key in names.items():
            if key not in self._numbers:
                self._numbers[key] = len(self._keys)
                self._keys.append(key)
            table[number] = self._numbers[key]
        renumbered: npt.NDArray[Any] = table[numbers]
        return renumbered


def without_bytes(batch: Batch) -> Batch:
    """The batch of which nothing but columns will be read."""
    return replace(batch, marks=batch.marks & ~READ_PROPERTIES)


def _narrowed(columns: dict[str, npt.NDArray[Any]]) -> Iterator[tuple[_Column, bytes]]:
    for name, values in columns.items():
        low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
        for limit, code in _WIDTHS:
            if high - low < limit:
                yield (name, low, code), (values.astype("i8") - low).astype(code).tobytes() if code else b""
                break
        else:
            yield (name, 0, values.dtype.str), values.tobytes()


def _widened(columns: list[_Column], rows: npt.NDArray[np.void], data: bytes | memoryview, at: int) -> int:
    """Fills the columns of the rows with what lies at `at`, and returns where it ends."""
    for name, low, code in columns:
        if not code:
            rows[name] = low
            continue
        kept = np.frombuffer(data, code, len(rows), at)
        at += kept.nbytes
        rows[name] = kept if low == 0 else kept.astype("i8") + low
    return at
