"""The records of two copies of one log file: which are valid, the same, or in conflict."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rmqstore.scan.columns import Check, Fault, Stop
from rmqstore.scan.walk import Batch, FileEnd, LogScanner
from rmqstore.store.mapped import MappedFile

INVALID = Fault.BODY_CRC | Fault.PROPERTY_CRC | Fault.PHYSICAL_OFFSET
_INCOMPLETE = INVALID | Fault.PROPERTIES
"""Faults of records of which another copy may have more."""
"""Faults by which bytes are not what a broker wrote at that place."""

Ranges = npt.NDArray[np.int64]
"""Physical offsets, shape (n, 2): ascending ranges [begin, end) apart from each other."""

NEIGHBOURS = 8
"""Records that have to be the same, where there are as many, before and after those that are not."""

_BLANK_BYTES = 8


@dataclass(frozen=True)
class RecordTable:
    """The records of one log file by offset: `begins` and `ends` are physical offsets, with the entry headers of a DLedger log.

    `valid`: which have the checksums and the PHYSICALOFFSET that they should have. `times`: store times in ms. A BLANK that ends the
    file counts as a record without a time; `blank` is its offset, None without one.
    """

    begins: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    valid: npt.NDArray[np.bool_]
    times: npt.NDArray[np.int64]
    blank: int | None

    def touched(self, ranges: Ranges) -> npt.NDArray[np.bool_]:
        """Return which records hold bytes of ascending ranges."""
        if not len(ranges):
            return np.zeros(len(self.begins), np.bool_)
        following = np.searchsorted(ranges[:, 1], self.begins, side="right")
        inside = following < len(ranges)
        return np.asarray(inside & (ranges[np.minimum(following, len(ranges) - 1), 0] < self.ends))

    def around(self, offset: int) -> int | None:
        """Return the offset of the record that holds a byte, None where no record does."""
        row = int(np.searchsorted(self.begins, offset, side="right")) - 1
        return int(self.begins[row]) if row >= 0 and offset < self.ends[row] else None


def record_table(file: MappedFile, *, entry_header: int = 0, start: int | None = None) -> RecordTable:
    """Return the records of a log file from physical offset `start` on, where one begins. Raises UnreadableError, StoreChangedError."""
    columns: list[tuple[npt.NDArray[np.int64], ...]] = []
    blank = None
    for event in LogScanner(checks=Check.BODY_CRC | Check.PROPERTY_CRC, lead=entry_header).scan(file, start=start):
        if isinstance(event, Batch):
            records = event.records
            begins = records["position"].astype(np.int64) - entry_header
            ends = records["position"] + records["size"]
            faults = (records["faults"] & int(_INCOMPLETE)).astype(np.int64)
            columns.append((begins, ends, faults, records["store_timestamp"].astype(np.int64)))
        elif isinstance(event, FileEnd) and event.reason is Stop.BLANK:
            blank = event.position
            columns.append(tuple(np.array([value], np.int64) for value in (blank, file.end, 0, -1)))
    begins, ends, faults, times = (np.concatenate([*(one[number] for one in columns), np.zeros(0, np.int64)]) for number in range(4))
    valid = faults == 0
    if blank is not None and len(begins) > 1:
        valid[-1] = valid[-2] and ends[-2] == blank  # a BLANK has no PHYSICALOFFSET that shows whether it belongs there
    return RecordTable(begins, ends, valid, times, blank)


def used_ranges(ranges: Ranges, one: RecordTable, other: RecordTable) -> Ranges:
    """Return differing ranges without those after the BLANK of a file, whose bytes brokers do not read."""
    if one.blank is None or one.blank != other.blank:
        return ranges
    return ranges[ranges[:, 0] < one.blank + _BLANK_BYTES]


def meeting(one: RecordTable, other: RecordTable, others: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return which records of a table share bytes with one of the marked records of another table."""
    return one.touched(np.stack([other.begins[others], other.ends[others]], axis=1))


def divergence(one: RecordTable, other: RecordTable, both: npt.NDArray[np.bool_], ranges: Ranges, limit: int) -> int | None:
    """Return the offset of the first record, valid in both copies and not the same (`both`), that is not followed by equal ones.

    If the next eight that are valid in both copies, as many as there are before `limit`, are the same, a single record was changed.
    """
    rows = np.flatnonzero((equal_records(one, other, ranges) | both) & (one.begins < limit))
    conflicts = np.flatnonzero(both[rows])
    sums = np.concatenate([[0], np.cumsum(both[rows])])
    following = np.minimum(conflicts + 1 + NEIGHBOURS, len(rows))
    single = (sums[following] == sums[conflicts + 1]) & (following > conflicts + 1)
    diverged = conflicts[~single]
    return int(one.begins[rows[diverged[0]]]) if diverged.size else None


def equal_records(one: RecordTable, other: RecordTable, ranges: Ranges) -> npt.NDArray[np.bool_]:
    """Return which records of a table are valid and the same in another one; `ranges`: all bytes that differ."""
    rows = np.minimum(np.searchsorted(other.begins, one.begins), max(0, len(other.begins) - 1))
    if not len(other.begins):
        return np.zeros(len(one.begins), np.bool_)
    same = (other.begins[rows] == one.begins) & (other.ends[rows] == one.ends) & other.valid[rows]
    return np.asarray(one.valid & same & ~one.touched(ranges))
