"""Batches of records into queues: compiled code appends units to buffers; the queue object handles the records at which that stops.

As long as a queue is open, only this module knows its end. Callers that read queues call `settle` first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from rmqstore.prediction.log.messages import Message
from rmqstore.prediction.log.record_check import Request
from rmqstore.prediction.queues.batchqueue import BatchQueue
from rmqstore.prediction.queues.consumequeue import UNIT_SIZE, ConsumeQueue
from rmqstore.prediction.queues.kernels_dispatch import APART, CLOSED, OPEN, OPEN_DTYPE, put_units

_FIRST_QUEUES = 64
_BUFFERS = 4 << 20  # bytes of all buffers, unless many queues need more
_LEAST_ROOM = 16  # units of one buffer

Find = Callable[[int], ConsumeQueue | BatchQueue | None]


class UnitWriter:
    """Writes to queues, which have the dense numbers of one reader. Memory: about 4 MiB, from 13 000 queues on some 400 bytes a queue."""

    def __init__(self, find: Find, *, know_ends: bool) -> None:
        """`find` returns the queue of a number, created if necessary, or None if the file system refuses its name.

        `know_ends`: what the queues know is the end of their last message, not where it begins.
        """
        self._find = find
        self._ends = int(know_ends)
        self._queues: dict[int, ConsumeQueue | BatchQueue] = {}
        self._make_room(_FIRST_QUEUES)

    def put(self, records: npt.NDArray[np.void], requests: Mapping[int, Request]) -> int:
        """Put records (RECORD_DTYPE) into their queues as the broker does one by one; `requests` has the decoded ones, by row.

        Returns the number of processed records: all, or those before the first one whose queue is refused.
        """
        end = len(records)
        queues = int(records["queue"].max(initial=0)) + 1
        if queues > len(self._table):
            self.settle()
            self._make_room(queues * 2)
        apart = np.empty(end, np.int64)
        row, count = 0, 0
        while True:
            row, count = put_units(records.ctypes.data, row, end, self._table.ctypes.data, apart.ctypes.data, count, self._ends)
            if row == end:
                break
            number = int(records["queue"][row])
            queue = self._queues.get(number) or self._find(number)
            if queue is None:
                break
            self._queues[number] = queue
            self._close(number)
            if not self._open(number):
                queue.take(Message.of(records[row], requests.get(row)))
                row += 1
                if not self._open(number):
                    self._table["state"][number] = APART
        for one in apart[:count].tolist():
            self._queues[int(records["queue"][one])].take(Message.of(records[one], requests.get(one)))
        if count:
            self._table["state"][self._table["state"] == APART] = CLOSED
        return int(row)

    def settle(self) -> None:
        """Append the buffered units to the queues, and update their ends."""
        for number in np.flatnonzero(self._table["state"] == OPEN).tolist():
            self._close(number)

    def _make_room(self, queues: int) -> None:
        self._table = np.zeros(queues, OPEN_DTYPE)
        self._buffers = np.zeros((queues, max(_LEAST_ROOM, _BUFFERS // UNIT_SIZE // queues) * UNIT_SIZE), np.uint8)

    def _open(self, number: int) -> bool:
        """Return whether compiled code can append to the queue from now on."""
        queue, buffer = self._queues[number], self._buffers[number]
        if not isinstance(queue, ConsumeQueue) or not queue.room:
            return False
        place = queue.files.max_offset
        limit = place + min(buffer.size, queue.room)
        self._table[number] = (OPEN, queue.max_physic_offset, place, limit, buffer.ctypes.data, queue.shifted)
        return True

    def _close(self, number: int) -> None:
        """Return the end of the queue to the queue object."""
        queue = self._queues[number]
        state, max_physic_offset, place, _, _, shifted = self._table[number].item()
        if state == OPEN and isinstance(queue, ConsumeQueue):
            length = place - queue.files.max_offset
            queue.append(self._buffers[number, :length].tobytes(), max_physic_offset, shifted)
        self._table["state"][number] = CLOSED
