"""The part of a log that was written in a range of time, by binary search: brokers append records in the order of their store times."""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise

from rmqstore.dump.resync import next_record
from rmqstore.formats.record import Record
from rmqstore.reading.records import read_record
from rmqstore.store.mapped import MappedFile, MappedFileQueue
from rmqstore.store.window import read_at

_CLOSE = 64 << 10
"""Bytes that are searched record by record."""


class TimeSearch:
    """A search in one log, which remembers the store times that it has read."""

    def __init__(self, log: MappedFileQueue) -> None:
        """Read the first record of each file. Raises UnreadableError, StoreChangedError."""
        self._log = log
        self._times: dict[int, int] = {}
        for file in log.files:
            self._remember(read_record(file, file.start))
        self._firsts = list(self._times)

    @property
    def count(self) -> int:
        """Return the number of records that were read."""
        return len(self._times)

    def is_ordered(self) -> bool:
        """Return whether all store times that were read ascend with the offset. They do not if the clock of the broker was set back."""
        times = [time for _, time in sorted(self._times.items())]
        return all(before <= after for before, after in pairwise(times))

    def begin_of(self, time: int) -> int:
        """Return an offset at or at most 64 KiB before the first record that was stored at `time` (ms) or later, or the end of the log.

        Raises UnreadableError, StoreChangedError.
        """
        low, high = self._log.min_offset, self._log.max_offset
        while high - low > _CLOSE:
            middle = (low + high) // 2
            found = self._record_from(middle)
            if found is None or found[0] >= high or found[1] >= time:
                high = middle
            else:
                low = found[0]
        return low

    def end_of(self, time: int) -> int:
        """Return an offset after all records that were stored at `time` (ms) or earlier. Raises UnreadableError, StoreChangedError."""
        offset = self.begin_of(time + 1)
        while (found := self._record_from(offset)) is not None and found[1] <= time:
            offset = found[0] + 1
        return self._log.max_offset if found is None else found[0]

    def _record_from(self, offset: int) -> tuple[int, int] | None:
        """Return offset and store time of the first record at or after an offset, None if there is none."""
        file = self._log.find(offset)
        if file is not None and offset not in self._times and not self._is_unwritten(file, offset):
            position = next_record(file, offset - file.start)
            offset = file.end if position is None or not self._remember(read_record(file, file.start + position)) else file.start + position
        if offset not in self._times:
            following = bisect_left(self._firsts, offset)
            if following == len(self._firsts):
                return None
            offset = self._firsts[following]
        return offset, self._times[offset]

    def _is_unwritten(self, file: MappedFile, offset: int) -> bool:
        """Return whether the last file has zeros from an offset on, as far as they are read here.

        Where records follow after all, a range begins earlier or ends later than it could.
        """
        position = offset - file.start
        return file.start == self._log.files[-1].start and not any(read_at(file, position, min(_CLOSE, file.length - position)))

    def _remember(self, record: Record | None) -> bool:
        if record is not None:
            self._times[record.physical_offset] = record.store_timestamp
        return record is not None
