"""The files of one queue while they are written: created in order, filled unit by unit, cut.

A place is the number of a unit: its byte offset in the queue divided by the length of a unit. Units wait in a buffer until it is full, and
no file is open in between, so the number of queues is not limited by open files. Compiled code moves the write position in the queue's
row; everything else is done here.
"""

from __future__ import annotations

import numpy as np

from rmqstore.formats.naming import offset_to_file_name
from rmqstore.rebuild.sink import Bytes, Sink
from rmqstore.rebuild.table import QueueTable

_ALL_BUFFERS = 16 << 20
"""Bytes that the buffers share; with 100,000 of them, it becomes ten times as much."""
_LEAST_BUFFER, _MOST_BUFFER = 512, 256 << 10


class Buffers:
    """The memory in which units wait: the more queues there are, the smaller the buffers of further ones."""

    def __init__(self) -> None:
        self._count = 0

    def take(self, unit_size: int, most: int) -> Bytes:
        """Return a buffer for units of `unit_size` bytes, at most `most` of them and at least one."""
        self._count += 1
        size = max(_LEAST_BUFFER, min(_ALL_BUFFERS // self._count, _MOST_BUFFER))
        return np.empty(max(1, min(size // unit_size, most)) * unit_size, np.uint8)


class UnitFiles:
    """Files of `file_size` bytes below `directory`, named by the byte offset of their first unit."""

    def __init__(
        self, directory: str, unit_size: int, file_size: int, sink: Sink, buffers: Buffers, table: QueueTable, number: int
    ) -> None:
        self._directory = directory
        self._unit_size = unit_size
        self._file_size = file_size
        self._capacity = file_size // unit_size
        self._sink = sink
        self._buffers = buffers
        self._table = table
        self._number = number
        self._buffer = np.empty(0, np.uint8)
        self._written = 0  # units before the buffer, in the current file
        self._first = self._current = 0  # numbers of files
        self._exists = False

    @property
    def used(self) -> int:
        """Return the number of units in the current file."""
        return self._written + self._waiting_at_most - int(self._table.rows["room"][self._number])

    @property
    def end(self) -> int:
        """Return the place after the last unit."""
        return self._current * self._capacity + self.used

    @property
    def paths(self) -> tuple[str, ...]:
        """Return the paths of all files, in order."""
        return tuple(self._path(number) for number in range(self._first, self._current + 1)) if self._exists else ()

    def begin(self, place: int, leading: bytes) -> None:
        """Start the queue: the first file is the one that holds `place`, and the units before the place are copies of `leading`."""
        if not self._exists:
            self._buffer = self._buffers.take(self._unit_size, self._capacity)
        self._discard_from(self._first)
        self._exists = True
        self._first = place // self._capacity
        self._create(self._first)
        self.fill(leading, place % self._capacity)

    def fill(self, unit: bytes, count: int) -> None:
        """Append the same unit `count` times."""
        while count > 0:
            self.make_room()
            row = self._table.rows[self._number]
            units = min(count, int(row["room"]))
            start = (self.used - self._written) * self._unit_size
            self._buffer[start : start + units * self._unit_size].reshape(units, -1)[:] = memoryview(unit)
            row["address"] += units * self._unit_size
            row["room"] -= units
            count -= units

    def make_room(self) -> None:
        """Make room for a unit, in a new file if the last one is full."""
        if self.used == self._capacity:
            self._write()
            self._create(self._current + 1)
        else:
            self.go_on()

    def go_on(self) -> bool:
        """Empty a full buffer and return whether that made room, which it does not in a full file."""
        if not self._exists or self._table.rows["room"][self._number] or self.used == self._capacity:
            return False
        self._write()
        return True

    def read(self, place: int) -> bytes:
        """Return the unit at a place that was written."""
        number, inside = divmod(place, self._capacity)
        if number == self._current:
            self._write()
        return self._sink.read(self._path(number), inside * self._unit_size, self._unit_size)

    def cut(self, place: int) -> None:
        """Remove all units from `place` on; at least one unit before it remains."""
        self._write()
        end = self.end
        # A file that ends at the place is full; the next one is created with its first unit.
        last = (place - 1) // self._capacity
        self._discard_from(last + 1)
        self._current = last
        start = self._current * self._capacity
        removed = min(end - start, self._capacity) - (place - start)
        self._sink.write(self._path(self._current), (place - start) * self._unit_size, np.zeros(removed * self._unit_size, np.uint8))
        self._begin_buffer(place - start)

    def close(self) -> None:
        """Complete all files."""
        if self._exists:
            self._write()
            for path in self.paths:
                self._sink.close(path)

    def _discard_from(self, number: int) -> None:
        if self._exists:
            for each in range(number, self._current + 1):
                self._sink.discard(self._path(each))

    def _create(self, number: int) -> None:
        self._current = number
        self._sink.create(self._path(number), self._file_size)
        self._begin_buffer(0)

    def _write(self) -> None:
        """Write the waiting units to the current file."""
        used = self.used
        if used > self._written:
            units = self._buffer[: (used - self._written) * self._unit_size]
            self._sink.write(self._path(self._current), self._written * self._unit_size, units)
        self._begin_buffer(used)

    def _begin_buffer(self, used: int) -> None:
        self._written = used
        row = self._table.rows[self._number]
        row["address"] = self._buffer.ctypes.data
        row["room"] = self._waiting_at_most

    @property
    def _waiting_at_most(self) -> int:
        """Return the most units that can be in the buffer at a time."""
        return min(len(self._buffer) // self._unit_size, self._capacity - self._written)

    def _path(self, number: int) -> str:
        return f"{self._directory}/{offset_to_file_name(number * self._file_size)}"
