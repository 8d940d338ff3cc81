"""The queue of the timer topic against the timer log: an entry without unit was due when the timer met it, or it is lost.

Units are written in the order of the queue's entries, so both are followed side by side and little of either is in memory. Source: fact
sheet timer §1.6, §1.7, §1.9 (C5, Q1, Q2, Q3).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rmqstore.findings import Finding, Severity
from rmqstore.formats import consumequeue
from rmqstore.formats.naming import TIMER_TOPIC
from rmqstore.scan.columns import integer_columns
from rmqstore.store.mapped import MappedFileQueue, list_directory
from rmqstore.store.parts import PartKind
from rmqstore.store.window import read_at
from rmqstore.times import time_text
from rmqstore.verify.context import Context
from rmqstore.verify.guard import Unmade
from rmqstore.verify.timer.files import TimerFiles
from rmqstore.verify.timer.log import Mask, Offsets
from rmqstore.verify.timer.messages import Problem, deliver_time, message_problems

_UNIT = integer_columns(consumequeue.UNIT)
_CHUNK_UNITS = 20_000
# The write time of a unit is a multiple of the precision, and what was due before it was never put into the log.
_SLACK_MS = 1000


Chunk = tuple[Offsets, Offsets, npt.NDArray[np.int32]]
"""Columns of consecutive entries: queue offsets, physical offsets and sizes of the messages."""


class Entry(NamedTuple):
    """A unit of the timer topic's queue: its queue offset, and physical offset and size of the message."""

    queue_offset: int
    offset: int
    size: int


class Lost(NamedTuple):
    """A message that should have a unit, and when it is due (ms)."""

    entry: Entry
    due: int


class TimerQueue:
    """Comparison of the entries of queue 0 of the timer topic with the units of the timer log, in order."""

    MAX_LOST = 1000

    def __init__(self, context: Context, files: MappedFileQueue) -> None:
        self._context = context
        self._entries = _Entries(files)
        self._offsets = self._write_times = np.empty(0, np.int64)
        self.lost: list[Lost] = []

    def take(self, offsets: Offsets, write_times: Offsets) -> None:
        """Take the next units in log order: physical offsets of their messages, and write times in ms. Raises UnreadableError."""
        if not offsets.size:
            return
        if self._offsets.size:
            # A unit with a damaged offset at the end of a window must not pull the queue along.
            self._compare(min(int(self._offsets[-1]), int(offsets[0])))
        self._offsets = np.concatenate([self._offsets, offsets.astype(np.int64)])
        self._write_times = np.concatenate([self._write_times, write_times.astype(np.int64)])

    def behind(self) -> Iterator[Entry]:
        """Yield the entries after the last unit, after all units were taken. Raises UnreadableError."""
        if self._offsets.size:
            self._compare(int(self._offsets[-1]))
        while (chunk := self._entries.up_to(self._context.log.end_offset - 1)) is not None:
            yield from itertools.starmap(Entry, zip(*(column.tolist() for column in chunk), strict=True))

    def _compare(self, limit: int) -> None:
        """Compare the entries whose messages are up to `limit`, and forget the units up to there."""
        order = np.argsort(self._offsets, kind="stable")
        offsets, write_times = self._offsets[order], self._write_times[order]
        while (chunk := self._entries.up_to(limit)) is not None:
            for i in np.flatnonzero(~np.isin(chunk[1], offsets)).tolist():
                entry = Entry(*(int(column[i]) for column in chunk))
                following = int(np.searchsorted(offsets, entry.offset))
                if following < len(offsets):
                    self._without_unit(entry, int(write_times[following]))
        later = offsets > limit
        self._offsets, self._write_times = offsets[later], write_times[later]

    def _without_unit(self, entry: Entry, met: int) -> None:
        """Judge an entry without unit; `met` = the latest time at which the timer can have met it."""
        due = _due(self._context, entry)
        if due is not None and due >= met + _SLACK_MS and len(self.lost) < self.MAX_LOST:
            self.lost.append(Lost(entry, due))


class CheckPoint(NamedTuple):
    """The content of timercheck: entries up to the queue offset `passed` were put in, and it was written at `last_sign` (ms) or later."""

    passed: int
    last_sign: int

    @classmethod
    def of(cls, context: Context, check: Any | None) -> CheckPoint:
        """Return the check point; `check` = fields of timercheck, None without one."""
        return cls(_passed(context, check), _last_sign(check))

    def passes_over(self, context: Context, entry: Entry) -> bool:
        """Return whether an entry after the last unit is still to be delivered, and counts as put in."""
        if entry.queue_offset >= self.passed:
            return False
        due = _due(context, entry)
        return due is not None and due > self.last_sign


def findings(context: Context, queue: TimerQueue, check: Any | None, *, goes_back: bool) -> Iterator[Unmade]:
    """Yield the findings about the queue after all units of the timer log were taken; `check` = fields of timercheck.

    `goes_back`: a start finds the last unit and continues with the entry after it, whatever the check point says.
    """
    known = CheckPoint.of(context, check)
    first: Entry | None = None
    number = 0
    for entry in queue.behind():
        if known.passes_over(context, entry):
            first, number = first or entry, number + 1
        for code, message in _problems(context, entry):
            yield _of_entry(context, code, message, entry)
    for lost in queue.lost:
        message = f"the message at {lost.entry.offset} is due at {time_text(lost.due)} but was skipped: no entry of the timer log names it"
        code, make = _of_entry(context, "RMQ-TM-LOST", message, lost.entry)
        yield code, make if lost.due > known.last_sign else partial(_milder, make)
    if first is not None and goes_back:
        message = f"the check point includes {number} pending entries after the last entry of the timer log; a start adds them again"
        code, make = _of_entry(context, "RMQ-TM-CHECK", message, first)
        yield code, partial(_milder, make)
    elif first is not None:
        message = f"{number} pending messages were skipped, and no last entry leads a start back to them: it never adds them again"
        yield _of_entry(context, "RMQ-TM-LOST", message, first)


class NeverDelivered(NamedTuple):
    """Numbers of pending messages that no unit names and no start puts into the timer again; `first`: those before any with a unit."""

    total: int
    first: int


def never_delivered(context: Context, queue: MappedFileQueue, files: TimerFiles) -> NeverDelivered:
    """Return how many messages of `queue` are pending and never delivered.

    Reads the timer log and the queue whole, and the record of each entry that no unit names. Raises UnreadableError, StoreChangedError.
    """
    known = CheckPoint.of(context, files.check)
    if files.check is None or not known.passed:
        return NeverDelivered(0, 0)
    named = _named_messages(files)
    resumes = files.resumes_at(context.record_at)
    passed = min(known.passed if resumes is None else resumes, int(files.check.master_timer_queue_offset))
    lost: list[int] = []
    first_named = -1
    for chunk, has_unit in _beside_units(context, queue, named):
        numbers, offsets, _ = chunk
        if first_named < 0 and has_unit.any():
            first_named = int(numbers[np.argmax(has_unit)])
        # A file of the timer log is deleted when the messages of all its units have expired.
        for i in np.flatnonzero((numbers < passed) & (offsets >= context.log.min_offset) & ~has_unit):
            entry = Entry(*(int(column[i]) for column in chunk))
            due = _due(context, entry)
            if due is not None and due > known.last_sign:
                lost.append(entry.queue_offset)
    return NeverDelivered(len(lost), sum(number < first_named for number in lost))


def entered_again(context: Context, queue: MappedFileQueue, files: TimerFiles, cursor: int) -> int:
    """Return how many messages of `queue` from queue offset `cursor` on have a unit, or were due before the read time.

    Reads the timer log and the queue whole, and the record of each entry from there on that no unit names. Raises UnreadableError,
    StoreChangedError.
    """
    count = 0
    for chunk, has_unit in _beside_units(context, queue, _named_messages(files)):
        later = chunk[0] >= cursor
        count += int((has_unit & later).sum())
        for i in np.flatnonzero(later & ~has_unit):
            due = _due(context, Entry(*(int(column[i]) for column in chunk)))
            count += due is not None and due <= files.read_time
    return count


def _beside_units(context: Context, queue: MappedFileQueue, named: Offsets) -> Iterator[tuple[Chunk, Mask]]:
    """Yield the entries of `queue` a chunk at a time, and whether a unit names the message of each. Raises UnreadableError."""
    entries = _Entries(queue)
    while (chunk := entries.up_to(context.log.end_offset - 1)) is not None:
        offsets = chunk[1]
        places = np.minimum(np.searchsorted(named, offsets), max(0, named.size - 1))
        yield chunk, named[places] == offsets if named.size else np.zeros(offsets.size, np.bool_)


def _named_messages(files: TimerFiles) -> Offsets:
    """Return the physical offsets of the messages that units name which a start keeps, ascending. Reads the timer log; 8 bytes a unit."""
    for _ in files.log.windows(files.log.replay_start(files.flushed)):
        pass  # so that it is known where a start stops
    end = files.log.end(files.flushed)
    kept = [window.units["offset_py"][window.accepted & (window.offsets < end)].astype(np.int64) for window in files.log.windows()]
    named = np.concatenate([np.empty(0, np.int64), *kept])
    named.sort()
    return named


def _passed(context: Context, check: Any | None) -> int:
    """Return the queue offset up to which by the check point every entry was put in; 0 where RocksDB may have taken entries instead."""
    config, switch = context.store.config, "timerRocksDBEnable"
    database = context.store.root / PartKind.ROCKSDBSTORE
    if check is None or config.flag(switch) or (config.explicit(switch) is None and _holds_entries(database)):
        return 0
    return int(check.last_timer_queue_offset)


def _holds_entries(database: Path) -> bool:
    """Return whether a RocksDB database holds anything: from 5.5.1 on an empty one always exists (fact sheet timer observed §1)."""
    entries = list_directory(database) if database.is_dir() else []
    return any(entry.name.endswith((".sst", ".log")) and entry.length > 0 for entry in entries)


def _last_sign(check: Any | None) -> int:
    """Return the latest time (ms) that a check point has; what is due later was pending when it was written."""
    return 0 if check is None else max(int(check.last_read_time_ms), int(check.data_version_timestamp))


def _due(context: Context, entry: Entry) -> int | None:
    """Return when the message of an entry is due (ms), None for no message of the timer."""
    record = context.record_at(entry.offset)
    return deliver_time(record.properties) if record is not None and record.topic == TIMER_TOPIC else None


def _problems(context: Context, entry: Entry) -> Iterator[Problem]:
    record = context.record_at(entry.offset)
    if record is not None and record.topic == TIMER_TOPIC:
        yield from message_problems(context, entry.offset, entry.size, record.properties)


def _milder(make: Callable[[], Finding]) -> Finding:
    return replace(make(), severity=Severity.WARNING)


def _of_entry(context: Context, code: str, message: str, entry: Entry) -> Unmade:
    where = {"topic": TIMER_TOPIC, "queue_id": 0, "queue_offset": entry.queue_offset}
    file, position = context.place(entry.offset)
    place = {"file": file, "position": position, "offset": entry.offset, "length": entry.size}
    return code, partial(context.finding, code, message, **place, **where)


class _Entries:
    """Reader of the entries of a consume queue in order, a chunk at a time."""

    def __init__(self, files: MappedFileQueue) -> None:
        self._files = files.files
        self._file = 0
        self._number = 0

    def up_to(self, limit: int) -> Chunk | None:
        """Return (queue offsets, physical offsets, sizes) of the next entries up to physical offset `limit`, None if there are no more."""
        while self._file < len(self._files):
            file = self._files[self._file]
            count = min(file.length // consumequeue.UNIT_SIZE - self._number, _CHUNK_UNITS)
            if count <= 0:
                self._file, self._number = self._file + 1, 0
                continue
            units = np.frombuffer(read_at(file, self._number * consumequeue.UNIT_SIZE, count * consumequeue.UNIT_SIZE), _UNIT)
            used = (units["size"] > 0) & (units["size"] != consumequeue.PRE_BLANK_SIZE)
            behind = np.flatnonzero(used & (units["physical_offset"] > limit))
            taken = int(behind[0]) if behind.size else count
            if not taken:
                return None
            first, self._number = file.start // consumequeue.UNIT_SIZE + self._number, self._number + taken
            rows = np.flatnonzero(used[:taken])
            if rows.size:
                return first + rows, units["physical_offset"][rows].astype(np.int64), units["size"][rows].astype(np.int32)
        return None
