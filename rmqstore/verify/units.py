"""Buffers the units of consume queues for the compiled comparison with the records of one scan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from rmqstore.errors import RmqstoreError
from rmqstore.scan.kernels_queue import (
    EVENT_DTYPE,
    EXT_DTYPE,
    FULL,
    NEED_UNITS,
    QUEUE_DTYPE,
    RUN_DTYPE,
    UNIT_SIZE,
    claim_units,
)
from rmqstore.scan.walk import LogScanner
from rmqstore.store.mapped import MappedFileQueue
from rmqstore.store.root import QueueDirectory
from rmqstore.store.window import read_at

QueueKey = tuple[str, int]

_FAR = 1 << 61
_BUFFER_BUDGET = 16 << 20
_LARGEST_BUFFER = 13_000 * UNIT_SIZE
_SMALLEST_BUFFER = 64 * UNIT_SIZE


@dataclass(slots=True)
class QueueSpan:
    """What one scan saw of one queue: the QUEUEOFFSETs of its first and last record, and the outcome of every claim as runs."""

    first_offset: int = 0
    first_position: int = 0
    next_offset: int = 0
    last_position: int = 0
    records: int = 0
    runs: list[npt.NDArray[np.void]] = field(default_factory=list)


class QueueClaims:
    """Compares the records of one scanner with the units they claim. `unchecked` queues are only followed, not compared."""

    def __init__(
        self, scanner: LogScanner, queues: Mapping[QueueKey, QueueDirectory], unchecked: frozenset[QueueKey], compare: bool
    ) -> None:
        self._scanner = scanner
        self._queues = queues
        self._unchecked = unchecked
        self._compare = compare
        self._table = np.zeros(0, QUEUE_DTYPE)
        self._buffers: dict[int, bytes] = {}
        self._runs = np.zeros(4096, RUN_DTYPE)
        self._events = np.zeros(1024, EVENT_DTYPE)
        self._exts = np.zeros(16384, EXT_DTYPE)
        self._counts = np.zeros(3, np.int64)
        self._kept_runs: list[npt.NDArray[np.void]] = []
        self._kept_events: list[npt.NDArray[np.void]] = []
        self.unreadable: dict[str, RmqstoreError] = {}

    def add(self, records: npt.NDArray[np.void], *, ordered: bool = True) -> npt.NDArray[np.void]:
        """Takes the next records of the log; returns the ext addresses met (EXT_DTYPE, valid until the next call)."""
        self._name_queues()
        row = 0
        met: list[npt.NDArray[np.void]] = []
        while True:
            row, state = claim_units(records, row, int(ordered), self._table, self._runs, self._events, self._exts, self._counts)
            if state == NEED_UNITS:
                self._buffer(int(records["queue"][row]), int(records["queue_offset"][row]))
                continue
            if self._counts[2]:
                met.append(self._exts[: self._counts[2]].copy())
                self._counts[2] = 0
            if state == FULL or self._counts[0] > self._runs.size // 2 or self._counts[1] > self._events.size // 2:
                self._keep()
            if state != FULL:
                break
        return np.concatenate(met) if met else self._exts[:0]

    def _keep(self) -> None:
        if self._counts[0]:
            self._kept_runs.append(self._runs[: self._counts[0]].copy())
        if self._counts[1]:
            self._kept_events.append(self._events[: self._counts[1]].copy())
        self._counts[:2] = 0

    def _name_queues(self) -> None:
        known = self._table.size
        named = self._scanner.queue_count
        if named > known:
            added = np.zeros(named - known, QUEUE_DTYPE)
            for number in range(known, named):
                added["checked"][number - known] = self._compare and self._scanner.queue(number) not in self._unchecked
            self._table = np.concatenate([self._table, added])

    def _buffer(self, number: int, offset: int) -> None:
        """Makes the units around queue offset `offset` the ones that the queue's row points to."""
        row = self._table[number]
        directory = self._queues.get(self._scanner.queue(number))
        self._buffers.pop(number, None)
        row["address"] = 0
        first, data, count = self._read(directory.files, offset) if directory is not None else (-_FAR, b"", 2 * _FAR)
        # A damaged QUEUEOFFSET may lie outside of every range: then the range is the unit it names.
        row["first"], row["count"] = (first, count) if first <= offset < first + count else (offset, 1)
        if data:
            self._buffers[number] = data
            row["address"] = np.frombuffer(data, np.uint8).ctypes.data

    def _read(self, files: MappedFileQueue, offset: int) -> tuple[int, bytes, int]:
        """(first queue offset, unit bytes or nothing, units): the buffered part of the queue that `offset` belongs to."""
        position = offset * UNIT_SIZE
        file = files.find(position) if 0 <= position < 1 << 62 else None
        if file is not None:
            size = min(max(_BUFFER_BUDGET // max(len(self._table), 1), _SMALLEST_BUFFER), _LARGEST_BUFFER)
            size -= size % UNIT_SIZE
            whole = (file.length // UNIT_SIZE) * UNIT_SIZE
            start = (position - file.start) // size * size
            if position - file.start < whole:
                try:
                    data = read_at(file, start, min(size, whole - start))
                    return (file.start + start) // UNIT_SIZE, data, len(data) // UNIT_SIZE
                except RmqstoreError as error:
                    self.unreadable[str(file.path)] = error
            return offset, b"", 1
        before = max((f.end // UNIT_SIZE for f in files.files if f.start <= position), default=-_FAR)
        behind = min((-(-f.start // UNIT_SIZE) for f in files.files if f.start > position), default=_FAR)
        return before, b"", max(behind - before, 1)

    def finish(self) -> tuple[dict[QueueKey, QueueSpan], list[tuple[QueueKey, npt.NDArray[np.void]]]]:
        """Closes all open runs. Returns what was seen per queue, and the odd QUEUEOFFSETs as (queue, EVENT_DTYPE row) in log order."""
        self._keep()
        open_runs = self._table["run"]
        self._kept_runs.append(open_runs[open_runs["start"] < open_runs["end"]].copy())
        runs = np.concatenate(self._kept_runs)
        order = np.argsort(runs["queue"], kind="stable")
        runs = runs[order]
        spans: dict[QueueKey, QueueSpan] = {}
        for number, row in enumerate(self._table):
            key = self._scanner.queue(number)
            if row["seen"] or row["run"]["start"] < row["run"]["end"]:
                spans[key] = QueueSpan(
                    int(row["first_offset"]),
                    int(row["first_position"]),
                    int(row["next_offset"]),
                    int(row["last_position"]),
                    int(row["records"]),
                )
        starts = np.searchsorted(runs["queue"], np.arange(len(self._table) + 1))
        for number in range(len(self._table)):
            mine = runs[starts[number] : starts[number + 1]]
            if mine.size:
                spans[self._scanner.queue(number)].runs.append(mine)
        events = np.concatenate(self._kept_events) if self._kept_events else self._events[:0]
        return spans, [(self._scanner.queue(int(event["queue"])), event) for event in events]
