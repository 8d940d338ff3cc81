"""The ext units of one queue: consecutive from offset 0 on, addressed by the tagsCodes of queue units (fact sheet queues §3)."""

from __future__ import annotations

import numpy as np

from rmqstore.formats import consumequeue_ext as declared
from rmqstore.formats.naming import offset_to_file_name
from rmqstore.rebuild.sink import Bytes, Sink
from rmqstore.rebuild.table import QueueTable

_UNIT_SIZE = declared.UNIT_PREFIX_SIZE
_END_MARK = np.frombuffer(declared.END_MARK, np.uint8)


class ExtFiles:
    """Ext units without bitmaps: what a bitmap was made from is not in the log (fact sheet queues §3.5).

    The place of the next unit is in the queue's row, where compiled code advances it.
    """

    def __init__(self, directory: str, file_size: int, sink: Sink, table: QueueTable, number: int) -> None:
        self._directory = directory
        self._file_size = file_size
        self._sink = sink
        self._table = table
        self._number = number
        self._memory: Bytes | None = None
        self._count = 0  # files

    @property
    def paths(self) -> tuple[str, ...]:
        """Return the paths of all files, in order."""
        return tuple(self._path(number) for number in range(self._count))

    def make_room(self) -> bool:
        """Open a file if none is open or the last one is full; return False if files are too short for a unit."""
        row = self._table.rows[self._number]
        if row["ext_room"] > 0:
            return True
        capacity = (self._file_size - declared.END_SPACE) // _UNIT_SIZE
        if capacity <= 0:
            return False
        if self._memory is not None:
            # A file that a unit does not fit into is marked when that unit is written.
            self._memory[capacity * _UNIT_SIZE :][: _END_MARK.size] = _END_MARK
            self.close()
        self._memory = self._sink.open(self._path(self._count), self._file_size)
        row["ext_address"] = self._memory.ctypes.data
        row["ext_room"] = capacity
        row["ext_code"] = declared.encode_address(self._count * self._file_size)
        self._count += 1
        return True

    def put(self, tags_code: int, store_timestamp: int) -> int:
        """Append a unit and return the tagsCode that addresses it, `tags_code` itself if it could not be written."""
        if not self.make_room() or self._memory is None:
            return tags_code
        row = self._table.rows[self._number]
        address = int(row["ext_code"])
        start = declared.decode_address(address) % self._file_size
        unit = declared.UNIT.build({"tags_code": tags_code, "msg_store_time": store_timestamp, "filter_bit_map": b""})
        self._memory[start : start + _UNIT_SIZE] = np.frombuffer(unit, np.uint8)
        row["ext_address"] += _UNIT_SIZE
        row["ext_room"] -= 1
        row["ext_code"] += _UNIT_SIZE
        return address

    def close(self) -> None:
        """Finish the files: no more units follow."""
        if self._memory is not None:
            self._memory = None
            self._sink.close(self._path(self._count - 1))

    def _path(self, number: int) -> str:
        return f"{self._directory}/{offset_to_file_name(number * self._file_size)}"
