"""Bytes through the compiled walker, without files: what tests of the kernels share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rmqstore.formats.delay import DEFAULT_DELAY_LEVELS
from rmqstore.scan.columns import KEY_DTYPE, RECORD_DTYPE, Check, Stop
from rmqstore.scan.kernels.offsets import QUEUE_ID
from rmqstore.scan.kernels.record import walk
from rmqstore.scan.kernels.registry import TOPIC_LENGTH, TOPIC_START
from rmqstore.scan.names import QueueRegistry

EVERYTHING = Check.BODY_CRC | Check.PROPERTY_CRC | Check.KEYS


@dataclass(frozen=True)
class Walked:
    """What one call of the kernel gave: rows, keys, where it stopped and why, and the tables of names."""

    records: npt.NDArray[np.void]
    keys: npt.NDArray[np.void]
    position: int
    stop: Stop
    names: QueueRegistry

    def topic(self, row: int) -> bytes:
        return self.names.topics[int(self.records["topic"][row])]

    def queue(self, row: int) -> tuple[int, int]:
        """(number of the topic, queue id) that the number of the queue stands for."""
        return self.names.queues[int(self.records["queue"][row])]

    def key_hashes(self, row: int) -> list[int]:
        return [int(key["hash"]) for key in self.keys[self.keys["record"] == row]]


def walked(
    data: bytes,
    *,
    end: int | None = None,
    origin: int = 0,
    checks: Check = EVERYTHING,
    delay_levels: Sequence[int] = DEFAULT_DELAY_LEVELS,
    batch: int = 64,
) -> Walked:
    """`walk` over all of `data`; `end` is the end of the mapped bytes where that is not the end of the file."""
    memory = np.frombuffer(data + b"\xff", np.uint8)
    records, keys, names = np.zeros(batch, RECORD_DTYPE), np.zeros(batch * 8 + 256, KEY_DTYPE), QueueRegistry(8)
    delays = np.array([0, *delay_levels], np.int64)
    position = count = key_count = 0
    while True:
        position, count, key_count, stop = walk(
            memory.ctypes.data,
            position,
            len(data) if end is None else end,
            len(data),
            origin,
            0,
            int(checks),
            delays.ctypes.data,
            delays.size - 1,
            names.state.ctypes.data,
            records.ctypes.data,
            count,
            records.size,
            keys.ctypes.data,
            key_count,
            keys.size,
        )
        if stop != Stop.UNKNOWN_QUEUE:
            return Walked(records[:count], keys[:key_count], position, Stop(stop), names)
        start, queue_id = int(names.state[TOPIC_START]), position + QUEUE_ID
        topic = data[start : start + int(names.state[TOPIC_LENGTH])]
        names.number(topic, int.from_bytes(data[queue_id : queue_id + 4], "big", signed=True))
