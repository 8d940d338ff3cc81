"""The targets of units of a queue: looked up in the log for many of them at once, up to a limit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from rmqstore.formats.consumequeue import PRE_BLANK_SIZE
from rmqstore.formats.naming import LMQ_PREFIX
from rmqstore.scan.columns import RECORD_DTYPE, Fault, Mark
from rmqstore.scan.ranges import in_ranges
from rmqstore.scan.walk import Batch, LogScanner
from rmqstore.verify.context import Context
from rmqstore.verify.queues.multidispatch import entries
from rmqstore.verify.queues.spans import QueueKey

# Steps of one verification: a batch of up to 4096 records that is scanned (about 1 ms), or a record whose properties are read.
_STEPS = 20_000
# Bytes between two wanted records up to which it is cheaper to continue the scan than to begin another one.
_NEAR = 1 << 20
_NO_PLACE_IN_QUEUES = 4  # bit of prepared and of rolled back records in SYSFLAG


class TargetKind(IntEnum):
    """The kind of target of a unit."""

    UNKNOWN = 0  # not looked at
    NOTHING = 1  # no record begins there
    DAMAGED = 2  # a damaged range of the log
    OTHER_QUEUE = 3  # a record of another queue
    NOT_QUEUED = 4  # a prepared or rolled back record of this queue
    OWN = 5  # a record of this queue
    PRE_BLANK = 6  # the unit is a pre-blank and points at nothing


@dataclass(slots=True)
class UnitTarget:
    """Units [start, end) that point at the same: `shift` = QUEUEOFFSET minus place for records of this queue, `other` = the other queue."""

    target: TargetKind
    start: int
    end: int
    offset: int  # physical offset in the first unit
    shift: int = 0
    other: QueueKey | None = None

    def goes_on(self, following: UnitTarget) -> bool:
        """Return whether the units `following` these, in order, point at the same."""
        same = (self.target, self.shift, self.other) == (following.target, following.shift, following.other)
        return same and self.end == following.start


class Targets:
    """Lookup of what units point at, up to a limit for the whole verification."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._scanners: dict[int, LogScanner] = {}  # by the bytes before every record of a file
        self._numbers: dict[QueueKey, int] = {}  # of the queues found, over all scanners
        self._steps = _STEPS

    def of_units(self, key: QueueKey, units: npt.NDArray[np.void], first: int) -> Iterator[UnitTarget]:
        """Yield runs of these units (UNIT_ROWS) of queue `key`, the first of which has queue offset `first`. Raises UnreadableError."""
        offsets = units["physical_offset"].astype(np.int64)
        wanted, which = np.unique(offsets, return_inverse=True)
        records, looked = self._records(wanted)
        targets, numbers = self._judge(key, wanted, records, looked)
        kinds = targets[which]
        kinds[(offsets == 0) & (units["size"] == PRE_BLANK_SIZE)] = TargetKind.PRE_BLANK
        places = first + np.arange(len(units))
        details = np.where(kinds == TargetKind.OWN, numbers[which] - places, 0)
        details[kinds == TargetKind.OTHER_QUEUE] = records["queue"][which][kinds == TargetKind.OTHER_QUEUE]
        keys = list(self._numbers)
        changes = (kinds[1:] != kinds[:-1]) | (details[1:] != details[:-1])
        begins = np.concatenate([[0], np.flatnonzero(changes) + 1])
        for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(units)], strict=True):
            run = UnitTarget(TargetKind(int(kinds[begin])), first + begin, first + end, int(offsets[begin]))
            if run.target is TargetKind.OWN:
                run.shift = int(details[begin])
            elif run.target is TargetKind.OTHER_QUEUE:
                run.other = keys[int(details[begin])]
            yield run

    def owners(self, key: QueueKey, units: npt.NDArray[np.void]) -> tuple[list[QueueKey], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return (queues, row of `queues` per unit, QUEUEOFFSET per unit) of the records that these units (UNIT_ROWS) of `key` point at.

        A row of -1 means no record, one that was not looked at, or in a light queue one that belongs into such queues.
        Raises UnreadableError.
        """
        wanted, which = np.unique(units["physical_offset"].astype(np.int64), return_inverse=True)
        records, looked = self._records(wanted)
        known = looked & (records["size"] > 0)
        if key[0].startswith(LMQ_PREFIX):
            known &= (records["marks"] & int(Mark.MULTI_DISPATCH)) == 0
        numbers = np.where(known, records["queue"], -1).astype(np.int64)
        return list(self._numbers), numbers[which], records["queue_offset"].astype(np.int64)[which]

    def _judge(
        self, key: QueueKey, offsets: npt.NDArray[np.int64], records: npt.NDArray[np.void], looked: npt.NDArray[np.bool_]
    ) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int64]]:
        """Return (target of every offset, the place in the queue that its record was given)."""
        targets = np.full(len(offsets), TargetKind.OTHER_QUEUE, np.int8)
        places = records["queue_offset"].copy()
        targets[records["queue"] == self._numbers.get(key, -1)] = TargetKind.OWN
        dispatched = (targets == TargetKind.OTHER_QUEUE) & (records["marks"] & int(Mark.MULTI_DISPATCH) != 0)
        for row in np.flatnonzero(dispatched & looked):
            place = self._dispatched(key, int(offsets[row]))
            if place is not None:
                targets[row], places[row] = TargetKind.OWN, place
        targets[(targets == TargetKind.OWN) & (records["sys_flag"] & _NO_PLACE_IN_QUEUES != 0)] = TargetKind.NOT_QUEUED
        targets[records["size"] == 0] = TargetKind.NOTHING
        targets[~looked] = TargetKind.UNKNOWN
        targets[in_ranges(offsets, self._context.log.damages)] = TargetKind.DAMAGED
        return targets, places

    def _dispatched(self, key: QueueKey, offset: int) -> int | None:
        """Return the place that a multi-dispatched record was given in queue `key`; None for none."""
        self._steps -= 1
        record = self._context.record_at(offset)
        return next((entry.number for entry in entries(record) if entry.key == key), None) if record is not None else None

    def _records(self, offsets: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.void], npt.NDArray[np.bool_]]:
        """Return (columns of the records at these ascending offsets, size 0 where none begins; which of them were looked at)."""
        found = np.zeros(len(offsets), RECORD_DTYPE)
        looked = np.ones(len(offsets), np.bool_)
        at = 0
        while at < len(offsets) and self._steps > 0:
            at = self._scan(offsets, at, found)
        looked[at:] = False
        return found, looked

    def _scan(self, offsets: npt.NDArray[np.int64], first: int, found: npt.NDArray[np.void]) -> int:
        """Scan from one offset on as long as others are near, and return the number of the first one that is not reached."""
        offset = int(offsets[first])
        store = self._context.store
        file = store.message_log.find(offset) if 0 <= offset < self._context.log.end_offset else None
        lead = store.entry_header(file) if file is not None else 0
        if file is None or offset - lead < file.start:
            return first + 1
        if lead not in self._scanners:
            self._scanners[lead] = LogScanner(lead=lead)
        scanner = self._scanners[lead]
        at = first
        for event in scanner.scan(file, start=offset - lead):
            self._steps -= 1
            if not isinstance(event, Batch):
                break
            end = int(event.records["position"][-1] + event.records["size"][-1])
            behind = int(np.searchsorted(offsets, end))
            _pick(event.records, offsets[at:behind], found[at:behind])
            found["queue"][at:behind] = self._common(scanner, found["queue"][at:behind])
            at = behind
            if at == len(offsets) or int(offsets[at]) - end > _NEAR or self._steps <= 0:
                break
        return max(at, first + 1)

    def _common(self, scanner: LogScanner, numbers: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """Return the numbers over all scanners of queues that this scanner numbered."""
        distinct, which = np.unique(numbers, return_inverse=True)
        common = [self._numbers.setdefault(scanner.queue(number), len(self._numbers)) for number in distinct.tolist()]
        return np.array(common, np.int32)[which]


def _pick(records: npt.NDArray[np.void], offsets: npt.NDArray[np.int64], found: npt.NDArray[np.void]) -> None:
    """Copy the records that begin at these offsets."""
    rows = np.minimum(np.searchsorted(records["position"], offsets), len(records) - 1)
    hits = (records["position"][rows] == offsets) & (records["faults"][rows] & int(Fault.PHYSICAL_OFFSET) == 0)
    found[hits] = records[rows[hits]]
