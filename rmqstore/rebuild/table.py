"""The rows of all queues that compiled code appends to, and the row of each number of a scan."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rmqstore.rebuild.kernels_append import QUEUE_DTYPE

_FIRST = 256
UNKNOWN = -1


class QueueTable:
    """`rows` (QUEUE_DTYPE) by number of the queue here; `numbers` (int32) by number of the queue in the scan, UNKNOWN for none yet.

    Both arrays are replaced by larger ones when they are full: hold the table, not the arrays.
    """

    def __init__(self) -> None:
        self.rows: npt.NDArray[np.void] = np.zeros(_FIRST, QUEUE_DTYPE)
        self.numbers: npt.NDArray[np.int32] = np.full(_FIRST, UNKNOWN, np.int32)
        self._count = 0

    def add(self) -> int:
        """Return the number of a new row, of a queue without messages."""
        number, self._count = self._count, self._count + 1
        if number == len(self.rows):
            self.rows = np.concatenate([self.rows, np.zeros(len(self.rows), QUEUE_DTYPE)])
        self.rows["max_physic_offset"][number] = -1
        return number

    def cover(self, scanned: int) -> None:
        """Extend `numbers` to the scan's number `scanned`."""
        size = len(self.numbers)
        while size <= scanned:
            size *= 2
        if size > len(self.numbers):
            self.numbers = np.concatenate([self.numbers, np.full(size - len(self.numbers), UNKNOWN, np.int32)])
