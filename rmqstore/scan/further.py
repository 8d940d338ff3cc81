"""The further queues of the records of a batch, read by compiled code."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rmqstore.scan.kernels import registry
from rmqstore.scan.kernels.further import FURTHER_DTYPE, Reading, read_further
from rmqstore.scan.names import QueueRegistry
from rmqstore.scan.walk import Batch

_CAPACITY = 1 << 16  # more than one record can have
_FIRST_CAPACITY = 64  # of the table of names, which grows


@dataclass(frozen=True, slots=True)
class Further:
    """Further queues in the order of their records (FURTHER_DTYPE), and rows of records that only Python reads, ascending."""

    queues: npt.NDArray[np.void]
    unusual: list[int]


class FurtherQueues:
    """Reader of further queues; queues keep their dense numbers over all batches."""

    def __init__(self, *, light: bool) -> None:
        """Prepare a reader; `light`: light message queues have queue id 0, otherwise that of the record."""
        self._light = int(light)
        self._registry = QueueRegistry(_FIRST_CAPACITY)
        self._keys: list[tuple[str, int]] = []
        self._out = np.empty(_CAPACITY, FURTHER_DTYPE)

    def queue(self, number: int) -> tuple[str, int]:
        """Return (topic, queue id) of a dense number."""
        for topic, queue_id in self._registry.queues[len(self._keys) : number + 1]:
            self._keys.append((self._registry.topics[topic].decode("ascii"), queue_id))
        return self._keys[number]

    def read(self, batch: Batch, rows: npt.NDArray[np.int64]) -> Further:
        """Return the further queues of the records in the rows given, which are ascending."""
        rows = np.ascontiguousarray(rows, np.int64)
        found: list[npt.NDArray[np.void]] = []
        unusual: list[int] = []
        at = written = 0
        while at < len(rows):
            at, written, reason, queue_id = read_further(
                batch.window.ctypes.data,
                batch.origin,
                batch.records.ctypes.data,
                rows.ctypes.data,
                at,
                len(rows),
                self._light,
                self._registry.state.ctypes.data,
                self._out.ctypes.data,
                written,
                len(self._out),
            )
            if reason == Reading.UNKNOWN_QUEUE:
                self._registry.number(self._unknown(batch), queue_id)
            elif reason == Reading.UNUSUAL:
                unusual.append(int(rows[at]))
                at += 1
            elif reason == Reading.FULL:
                found.append(self._out[:written].copy())
                written = 0
        found.append(self._out[:written].copy())
        return Further(np.concatenate(found), unusual)

    def _unknown(self, batch: Batch) -> bytes:
        state = self._registry.state
        start = int(state[registry.TOPIC_START])
        return batch.window[start : start + int(state[registry.TOPIC_LENGTH])].tobytes()
