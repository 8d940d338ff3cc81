"""Bytes through the compiled walker, without files: what tests of the kernels share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rmqstore.formats.delay import DEFAULT_DELAY_LEVELS
from rmqstore.scan.columns import KEY_DTYPE, RECORD_DTYPE, Check, Stop
from rmqstore.scan.kernels_record import Names, make_names, walk

EVERYTHING = Check.BODY_CRC | Check.PROPERTY_CRC | Check.KEYS


@dataclass(frozen=True)
class Walked:
    """What one call of the kernel gave: rows, keys, where it stopped and why, and the tables of names."""

    records: npt.NDArray[np.void]
    keys: npt.NDArray[np.void]
    position: int
    stop: Stop
    names: Names

    def topic(self, row: int) -> bytes:
        number = int(self.records["topic"][row])
        start, length = int(self.names.topic_start[number]), int(self.names.topic_length[number])
        return self.names.heap[start : start + length].tobytes()

    def queue(self, row: int) -> tuple[int, int]:
        """(number of the topic, queue id) that the number of the queue stands for."""
        number = int(self.records["queue"][row])
        return int(self.names.queue_topic[number]), int(self.names.queue_id[number])

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
    """One call of `walk` over all of `data`; `end` is the end of the mapped bytes where that is not the end of the file."""
    memory = np.frombuffer(data + b"\xff", np.uint8)
    records, keys, names = np.zeros(batch, RECORD_DTYPE), np.zeros(batch * 8 + 256, KEY_DTYPE), make_names(128, 128)
    delays = np.array([0, *delay_levels], np.int64)
    position, count, key_count, stop = walk(
        memory.ctypes.data, 0, len(data) if end is None else end, len(data), origin, int(checks), delays, names.addresses, records, keys
    )
    return Walked(records[:count], keys[:key_count], position, Stop(stop), names)
