"""Buffered units of consume queues for the compiled comparison with the records of one scan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rmqstore.errors import RmqstoreError
from rmqstore.formats.consumequeue import UNIT_SIZE
from rmqstore.scan.kernels.queue import (
    COUNTS_DTYPE,
    DONE,
    EVENT_DTYPE,
    EXT_DTYPE,
    FULL,
    NEED_UNITS,
    QUEUE_DTYPE,
    RUN_DTYPE,
    claim_units,
)
from rmqstore.scan.walk import LogScanner
from rmqstore.store.mapped import MappedFileQueue
from rmqstore.store.root import QueueDirectory
from rmqstore.store.window import read_into
from rmqstore.verify.queues.spans import NUMBERS, QueueKey, Spans

_FAR = 1 << 61
_SHARED = 16 << 20
"""Bytes that the queues of a table share, at its size when they were added."""
_MOST = 4 * _SHARED
"""Bytes of buffers from which a table that grows drops them for one."""
_SMALLEST_SHARE = 16 * UNIT_SIZE
_FIRST_QUEUES = 64


@dataclass(frozen=True, slots=True)
class _Buffer:
    """Memory for units of queues, `share` bytes for each, from the queue with the number `first` on."""

    first: int
    share: int
    units: npt.NDArray[np.uint8]
    address: int

    @classmethod
    def shared_by(cls, first: int, end: int) -> _Buffer:
        """Make one for the queues `first` to `end`; `_SHARED` is what all from 0 on would share."""
        share = max(_SHARED // end // UNIT_SIZE * UNIT_SIZE, _SMALLEST_SHARE)
        # One piece of memory for all, not touched before it is needed: pages of a large piece cost the system less.
        units = np.empty(share * (end - first), np.uint8)
        return cls(first, share, units, units.ctypes.data)


class QueueClaims:
    """Comparison of the records of one scanner with the units they claim. `unchecked` queues are only followed, not compared."""

    def __init__(
        self, scanner: LogScanner, queues: Mapping[QueueKey, QueueDirectory], unchecked: frozenset[QueueKey], compare: bool
    ) -> None:
        self._scanner = scanner
        self._queues = queues
        self._unchecked = unchecked
        self._compare = compare
        self._keys: list[QueueKey] = []
        self._table = np.zeros(0, QUEUE_DTYPE)
        self._buffers: list[_Buffer] = []
        self._outputs = {"runs": np.empty(4096, RUN_DTYPE), "events": np.empty(1024, EVENT_DTYPE), "exts": np.empty(16384, EXT_DTYPE)}
        self._counts = np.zeros(1, COUNTS_DTYPE)
        for name, rows in self._outputs.items():
            self._counts[f"most_{name}"] = rows.size
        self._addresses = [rows.ctypes.data for rows in (*self._outputs.values(), self._counts)]
        self._kept_runs: list[npt.NDArray[np.void]] = []
        self._kept_events: list[npt.NDArray[np.void]] = []
        self.unreadable: dict[str, RmqstoreError] = {}

    def add(self, records: npt.NDArray[np.void], *, ordered: bool = True) -> npt.NDArray[np.void]:
        """Compare the next records of the log, and return the ext addresses found (EXT_DTYPE)."""
        self._name_queues()
        row, state = 0, NEED_UNITS
        met: list[npt.NDArray[np.void]] = []
        place = records.ctypes.data
        while state != DONE:
            row, state = claim_units(place, row, records.size, int(ordered), self._table.ctypes.data, *self._addresses)
            if state == NEED_UNITS:
                self._buffer(int(records["queue"][row]), int(records["queue_offset"][row]))
            elif state == FULL:
                met.append(self._taken("exts"))
                self._keep()
        if self._counts["exts"][0]:
            met.append(self._taken("exts"))
        return np.concatenate(met) if met else self._outputs["exts"][:0]

    def _taken(self, name: str) -> npt.NDArray[np.void]:
        """Return the used rows of an output, which is empty afterwards."""
        rows = self._outputs[name][: int(self._counts[name][0])].copy()
        self._counts[name] = 0
        return rows

    def _keep(self) -> None:
        self._kept_runs.append(self._taken("runs"))
        self._kept_events.append(self._taken("events"))

    def _name_queues(self) -> None:
        named = self._scanner.queue_count
        if named > self._table.size:
            self._make_room(max(2 * self._table.size, named, _FIRST_QUEUES))
        known = len(self._keys)
        self._keys += map(self._scanner.queue, range(known, named))
        self._table["checked"][known:named] = [self._compare and key not in self._unchecked for key in self._keys[known:]]

    def _make_room(self, queues: int) -> None:
        """Enlarge the table to so many queues. Those that it has keep their buffer, unless all would have too much."""
        first = self._table.size
        self._table = np.concatenate([self._table, np.zeros(queues - first, QUEUE_DTYPE)])
        if sum(buffer.units.size for buffer in self._buffers) > _MOST:
            self._buffers, first = [], 0
            self._table["address"] = self._table["count"] = 0
        self._buffers.append(_Buffer.shared_by(first, queues))

    def _buffer(self, number: int, offset: int) -> None:
        """Make the queue's row point to the units around queue offset `offset`."""
        row = self._table[number]
        directory = self._queues.get(self._keys[number])
        row["address"] = 0
        first, count = self._read(number, directory.files, offset) if directory is not None else (-_FAR, 2 * _FAR)
        # A damaged QUEUEOFFSET may be outside of every range: then the range is the unit it names.
        row["first"], row["count"] = (first, count) if first <= offset < first + count else (offset, 1)

    def _read(self, number: int, files: MappedFileQueue, offset: int) -> tuple[int, int]:
        """Return (first queue offset, units) of the part of the queue that `offset` belongs to. Its units are buffered if there are any."""
        position = offset * UNIT_SIZE
        file = files.find(position) if 0 <= position < 1 << 62 else None
        if file is not None:
            whole = (file.length // UNIT_SIZE) * UNIT_SIZE
            if position - file.start < whole:
                buffer = next(buffer for buffer in reversed(self._buffers) if buffer.first <= number)
                start = (position - file.start) // buffer.share * buffer.share
                begin = (number - buffer.first) * buffer.share
                units = buffer.units[begin : begin + min(buffer.share, whole - start)]
                try:
                    read_into(file, start, units)
                except RmqstoreError as error:
                    self.unreadable[str(file.path)] = error
                else:
                    self._table["address"][number] = buffer.address + begin
                    return (file.start + start) // UNIT_SIZE, units.size // UNIT_SIZE
            return offset, 1
        before = max((f.end // UNIT_SIZE for f in files.files if f.start <= position), default=-_FAR)
        behind = min((-(-f.start // UNIT_SIZE) for f in files.files if f.start > position), default=_FAR)
        return before, max(behind - before, 1)

    def finish(self) -> Spans:
        """Close all open runs, and return the spans of all queues."""
        self._keep()
        open_runs = self._table["run"]
        self._kept_runs.append(open_runs[open_runs["start"] != open_runs["end"]])
        runs = np.concatenate(self._kept_runs)
        table = self._table[: len(self._keys)]
        met = np.flatnonzero((table["seen"] != 0) | (table["run"]["start"] != table["run"]["end"]))
        found = Spans.of_keys(map(self._keys.__getitem__, met.tolist()))
        found.numbers = np.column_stack([table[name][met] for name in NUMBERS])
        found.counts = np.bincount(runs["queue"], minlength=len(self._keys))[met]
        found.runs = runs[np.argsort(runs["queue"], kind="stable")]
        found.events = np.concatenate(self._kept_events)
        found.events["queue"] = np.searchsorted(met, found.events["queue"])
        return found
