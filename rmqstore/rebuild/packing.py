"""Batches as bytes, for builders in another process: the columns that a builder reads, keys, and properties where they are read."""

from __future__ import annotations

import pickle
import struct
from dataclasses import replace
from functools import cache
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
_HEAD = struct.Struct("<I")


def pack(batch: Batch, queue_of: QueueOf, columns: tuple[str, ...]) -> bytes:
    """These columns of the batch, its keys and, as far as a builder asks for them, the properties: nothing else of the log's bytes."""
    if batch.marks & READ_PROPERTIES:
        columns = tuple(dict.fromkeys((*columns, *_FOR_PROPERTIES)))
    rows = np.empty(len(batch.records), _packed(columns))
    for name in columns:
        rows[name] = batch.records[name]
    window = b""
    if batch.marks & READ_PROPERTIES:
        blocks = [properties_block(batch, row) for row in range(len(rows))]
        window = b"".join(blocks)
        # A builder finds the properties of a record in front of its end.
        rows["position"] = np.cumsum([len(block) for block in blocks]) - rows["size"]
    names = {number: queue_of(number) for number in np.unique(rows["queue"]).tolist()} if "queue" in columns else {}
    flags = int(batch.faults), int(batch.marks), int(batch.oddities)
    head = pickle.dumps((columns, names, len(rows), len(batch.keys), flags))
    keys = np.ascontiguousarray(batch.keys)
    return b"".join((_HEAD.pack(len(head)), head, rows.view(np.uint8).data, keys.view(np.uint8).data, window))


class Unpacker:
    """Makes batches again; all of one unpacker number their queues in the same way, whoever scanned them."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, int], int] = {}
        self._keys: list[tuple[str, int]] = []

    def queue(self, number: int) -> tuple[str, int]:
        """(topic, queue id) of a number, as `LogScanner.queue`."""
        return self._keys[number]

    def batch(self, data: bytes) -> Batch:
        """What was packed; other columns are zeros. Of the log's bytes there are properties alone, where their record ends."""
        (length,) = _HEAD.unpack_from(data)
        columns, names, count, key_count, flags = pickle.loads(data[_HEAD.size : _HEAD.size + length])
        at = _HEAD.size + length
        packed = np.frombuffer(data, _packed(columns), count, at)
        at += packed.nbytes
        keys = np.frombuffer(data, KEY_DTYPE, key_count, at)
        at += keys.nbytes
        records = np.zeros(count, RECORD_DTYPE)
        for name in columns:
            records[name] = packed[name]
        if "queue" in columns:
            records["queue"] = self._renumbered(names, packed["queue"])
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


@cache
def _packed(columns: tuple[str, ...]) -> np.dtype[np.void]:
    return np.dtype([(name, RECORD_DTYPE[name]) for name in columns])
