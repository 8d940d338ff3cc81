"""Batches as bytes, for builders in another process: the columns that builders read, keys, and properties where they are read."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from rmqstore.rebuild.requests import QueueOf, properties_block
from rmqstore.scan.columns import KEY_DTYPE, READ_PROPERTIES, RECORD_DTYPE, Fault, Mark, Oddity
from rmqstore.scan.walk import Batch

_COLUMNS = (
    "position",
    "queue_offset",
    "physical_offset",
    "store_timestamp",
    "tags_code",
    "size",
    "queue",
    "sys_flag",
    "properties_length",
    "marks",
    "faults",
    "body_length",
)
PACKED_DTYPE = np.dtype([(name, RECORD_DTYPE[name]) for name in _COLUMNS])


def pack(batch: Batch, queue_of: QueueOf) -> bytes:
    """The batch without bodies and, as long as no builder asks for properties, without anything else of the log's bytes."""
    rows = np.empty(len(batch.records), PACKED_DTYPE)
    for name in _COLUMNS:
        rows[name] = batch.records[name]
    window = b""
    if batch.marks & READ_PROPERTIES:
        blocks = [properties_block(batch, row) for row in range(len(rows))]
        window = b"".join(blocks)
        # A builder finds the properties of a record in front of its end.
        rows["position"] = np.cumsum([len(block) for block in blocks]) - rows["size"]
    names = {number: queue_of(number) for number in np.unique(rows["queue"]).tolist()}
    head = names, len(rows), len(batch.keys), int(batch.faults), int(batch.marks), int(batch.oddities)
    return pickle.dumps((head, rows.tobytes(), batch.keys.tobytes(), window))


class Unpacker:
    """Makes batches again; all of one unpacker number their queues in the same way, whoever scanned them."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, int], int] = {}
        self._keys: list[tuple[str, int]] = []

    def queue(self, number: int) -> tuple[str, int]:
        """(topic, queue id) of a number, as `LogScanner.queue`."""
        return self._keys[number]

    def batch(self, data: bytes) -> Batch:
        """What was packed. Of the log's bytes it has nothing but properties; a record's are in front of its end, as in the log."""
        head, rows, keys, window = pickle.loads(data)
        names, count, key_count, faults, marks, oddities = head
        packed = np.frombuffer(rows, PACKED_DTYPE, count)
        records = np.zeros(count, RECORD_DTYPE)
        for name in _COLUMNS:
            records[name] = packed[name]
        records["queue"] = self._renumbered(names, packed["queue"])
        found = np.frombuffer(keys, KEY_DTYPE, key_count)
        return Batch(records, found, np.frombuffer(window, np.uint8), 0, Fault(faults), Mark(marks), Oddity(oddities))

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
