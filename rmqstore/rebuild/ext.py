"""The ext units of one queue: consecutive from offset 0 on, addressed by the tagsCodes of queue units (fact sheet queues §3)."""

from __future__ import annotations

import numpy as np

from rmqstore.formats import consumequeue_ext as declared
from rmqstore.formats.naming import offset_to_file_name
from rmqstore.rebuild.sink import Sink
from rmqstore.rebuild.table import QueueTable
from rmqstore.rebuild.unitfiles import Buffers

_UNIT_SIZE = declared.UNIT_PREFIX_SIZE
_END_MARK = np.frombuffer(declared.END_MARK, np.uint8)


class ExtFiles:
    """Ext units without bitmaps: what a bitmap was made from is not in the log (fact sheet queues §3.5).

    Units wait in a buffer, as in `UnitFiles`. The place of the next unit is in the queue's row, where compiled code advances it.
    """

    def __init__(self, directory: str, file_size: int, sink: Sink, buffers: Buffers, table: QueueTable, number: int) -> None:
        self._directory = directory
        self._file_size = file_size
        self._capacity = (file_size - declared.END_SPACE) // _UNIT_SIZE
        self._sink = sink
        self._buffers = buffers
        self._table = table
        self._number = number
        self._buffer = np.empty(0, np.uint8)
        self._room = 0  # units that the buffer takes from its start on
        self._written = 0  # units before the buffer, in the last file
        self._count = 0  # files

    @property
    def paths(self) -> tuple[str, ...]:
        """Return the paths of all files, in order."""
        return tuple(self._path(number) for number in range(self._count))

    def make_room(self) -> bool:
        """Make room for a unit, in a new file if the last one is full; return False if files are too short for a unit."""
        row = self._table.rows[self._number]
        if row["ext_room"] > 0:
            return True
        if self._capacity <= 0:
            return False
        self._write()
        if self._count == 0:
            self._buffer = self._buffers.take(_UNIT_SIZE, self._capacity)
            self._create()
        elif self._written == self._capacity:
            # A file that a unit does not fit into is marked when that unit is written.
            self._sink.write(self._path(self._count - 1), self._capacity * _UNIT_SIZE, _END_MARK)
            self._create()
        self._room = min(len(self._buffer) // _UNIT_SIZE, self._capacity - self._written)
        row["ext_address"] = self._buffer.ctypes.data
        row["ext_room"] = self._room
        return True

    def put(self, tags_code: int, store_timestamp: int) -> int:
        """Append a unit and return the tagsCode that addresses it, `tags_code` itself if it could not be written."""
        if not self.make_room():
            return tags_code
        row = self._table.rows[self._number]
        address = int(row["ext_code"])
        start = (self._room - int(row["ext_room"])) * _UNIT_SIZE
        unit = declared.UNIT.build({"tags_code": tags_code, "msg_store_time": store_timestamp, "filter_bit_map": b""})
        self._buffer[start : start + _UNIT_SIZE] = np.frombuffer(unit, np.uint8)
        row["ext_address"] += _UNIT_SIZE
        row["ext_room"] -= 1
        row["ext_code"] += _UNIT_SIZE
        return address

    def close(self) -> None:
        """Complete all files: no more units follow."""
        self._write()
        for path in self.paths:
            self._sink.close(path)

    def _create(self) -> None:
        self._sink.create(self._path(self._count), self._file_size)
        self._table.rows["ext_code"][self._number] = declared.encode_address(self._count * self._file_size)
        self._count += 1
        self._written = 0

    def _write(self) -> None:
        """Write the waiting units to the last file."""
        row = self._table.rows[self._number]
        units = self._room - int(row["ext_room"])
        if units:
            self._sink.write(self._path(self._count - 1), self._written * _UNIT_SIZE, self._buffer[: units * _UNIT_SIZE])
        self._written += units
        self._room = 0
        row["ext_room"] = 0

    def _path(self, number: int) -> str:
        return f"{self._directory}/{offset_to_file_name(number * self._file_size)}"
