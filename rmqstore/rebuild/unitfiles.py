"""The files of one queue while they are written: opened in order, filled unit by unit, cut.

A place is the number of a unit: its byte offset in the queue divided by the length of a unit. Units wait in a buffer until it is full:
writing them then costs a sixth of what touching the pages of a mapped file does. Compiled code moves the write position in the queue's row;
everything else is done here.
"""

from __future__ import annotations

from collections import OrderedDict

import numpy as np

from rmqstore.formats.naming import offset_to_file_name
from rmqstore.rebuild.sink import Bytes, Sink
from rmqstore.rebuild.table import QueueTable

MOST_OPEN = 16_384
"""Files that are open at a time: a process has some 65 000 mappings."""
_ALL_BUFFERS = 32 << 20
"""Bytes that the open files share; with more and more of them, it becomes five times as much."""
_LEAST_BUFFER, _MOST_BUFFER = 4 << 10, 256 << 10


class OpenFiles:
    """A sink that keeps a limited number of files open: the owner of the oldest open file closes it until it writes again."""

    def __init__(self, sink: Sink, most: int = MOST_OPEN) -> None:
        self._sink = sink
        self._most = most
        self._owners: OrderedDict[str, UnitFiles] = OrderedDict()

    def open(self, path: str, length: int, owner: UnitFiles) -> Bytes:
        """Open a file as `Sink.open`."""
        if len(self._owners) >= self._most:
            next(iter(self._owners.values())).close()
        self._owners[path] = owner
        return self._sink.open(path, length)

    @property
    def buffer_size(self) -> int:
        """Return the bytes of the buffer of the file that was opened last."""
        return max(_LEAST_BUFFER, min(_ALL_BUFFERS // len(self._owners), _MOST_BUFFER))

    def write(self, path: str, position: int, data: Bytes) -> None:
        """Write to a file as `Sink.write`."""
        self._sink.write(path, position, data)

    def close(self, path: str) -> None:
        """Close a file as `Sink.close`."""
        del self._owners[path]
        self._sink.close(path)


class UnitFiles:
    """Files of `file_size` bytes below `directory`, named by the byte offset of their first unit."""

    def __init__(self, directory: str, unit_size: int, file_size: int, files: OpenFiles, table: QueueTable, number: int) -> None:
        self._directory = directory
        self._unit_size = unit_size
        self._file_size = file_size
        self._capacity = file_size // unit_size
        self._files = files
        self._table = table
        self._number = number
        self._memory: Bytes | None = None
        self._buffer = np.empty(0, np.uint8)
        self._written = 0  # units before the buffer, in the open file
        self._first = self._current = 0  # numbers of files
        self._used = 0  # units in the current file while it is not open
        self._left_over: set[int] = set()  # files that hold units which were removed
        self._exists = False

    @property
    def used(self) -> int:
        """Return the number of units in the current file."""
        return self._used if self._memory is None else self._written + self._waiting_at_most - int(self._table.rows["room"][self._number])

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
        if self._exists:
            self.close()
            self._left_over.update(range(self._first, self._current + 1))
        self._exists = True
        self._first = self._current = place // self._capacity
        self._used = 0
        self._open()
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
            self.close()
            self._current += 1
            self._used = 0
        if self._memory is None:
            self._open()
        else:
            self.go_on()

    def go_on(self) -> bool:
        """Empty a full buffer and return whether that made room, which it does not in a full file."""
        if self._memory is None or self._table.rows["room"][self._number] or self.used == self._capacity:
            return False
        self._write()
        return True

    def read(self, place: int) -> bytes:
        """Return the unit at a place that was written."""
        number, inside = divmod(place, self._capacity)
        part = slice(inside * self._unit_size, (inside + 1) * self._unit_size)
        if number == self._current:
            memory = self._open() if self._memory is None else self._memory
            self._write()
            return memory[part].tobytes()
        path = self._path(number)
        unit = self._files.open(path, self._file_size, self)[part].tobytes()
        self._files.close(path)
        return unit

    def cut(self, place: int) -> None:
        """Remove all units from `place` on; at least one unit before it remains."""
        end = self.end
        self.close()
        self._left_over.update(range(place // self._capacity, self._current + 1))
        # A file that ends at the place is full; the next one is created with its first unit.
        self._current = (place - 1) // self._capacity
        self._used = place - self._current * self._capacity
        if self._used < self._capacity:
            self._left_over.discard(self._current)
            memory = self._open()
            memory[self._used * self._unit_size : (end - self._current * self._capacity) * self._unit_size] = 0

    def close(self) -> None:
        """Close the open file, for good or until more is written."""
        if self._memory is not None:
            self._write()
            self._used = self._written
            self._memory = None
            self._buffer = np.empty(0, np.uint8)
            self._table.rows["room"][self._number] = 0
            self._files.close(self._path(self._current))

    def _open(self) -> Bytes:
        memory = self._files.open(self._path(self._current), self._file_size, self)
        if self._current in self._left_over:
            self._left_over.remove(self._current)
            memory[:] = 0
        self._memory = memory
        self._buffer = np.empty(max(1, self._files.buffer_size // self._unit_size) * self._unit_size, np.uint8)
        self._begin_buffer(self._used)
        return memory

    def _write(self) -> None:
        """Write the waiting units to the open file."""
        used = self.used
        if used > self._written:
            units = self._buffer[: (used - self._written) * self._unit_size]
            self._files.write(self._path(self._current), self._written * self._unit_size, units)
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
