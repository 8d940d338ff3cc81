"""The logs of two copies: the first byte in which they differ, the records that do, and what only one of them has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from rmqstore.diff.copies import Copy, Range
from rmqstore.reading.differences import differing_ranges, shared_files
from rmqstore.reading.progress import Advance, silent
from rmqstore.reading.recordtables import Ranges, RecordTable, divergence, meeting, record_table, used_ranges
from rmqstore.store.mapped import MappedFile
from rmqstore.store.root import Store

SMALL = 64 << 20
"""Bytes; two logs that share no more are always compared as a whole."""
_SAMPLE = 64 << 10
_TAIL = 1 << 20
_SHOWN = 100
Pair = tuple[MappedFile, MappedFile, int, int]


class Validity(StrEnum):
    """The state of a differing record: valid in both copies, in one of them, or in neither."""

    BOTH = "both"
    FIRST = "first"
    SECOND = "second"
    NEITHER = "neither"


@dataclass(frozen=True, slots=True)
class DifferingRecord:
    """Bytes that differ: a record at `offset`, or, if neither copy has a valid one there, a range."""

    offset: int
    size: int
    valid_in: Validity


@dataclass
class LogDifference:
    """The result for the range `common` that both logs have; `compared` bytes of it were looked at, `whole`: all of them.

    `first`: the first differing byte that was found; `record`: the offset of its record. `diverged`: the offset from which on both logs
    hold valid records that are not the same. `counts` are those of differing records by validity, `records` the first of these records.
    `unused`: bytes after the BLANK of a file differ, which brokers do not read.
    """

    common: Range
    whole: bool = False
    compared: int = 0
    first: int | None = None
    record: int | None = None
    diverged: int | None = None
    counts: dict[Validity, int] = field(default_factory=lambda: dict.fromkeys(Validity, 0))
    records: list[DifferingRecord] = field(default_factory=list)
    unused: bool = False

    def add(self, part: LogDifference) -> None:
        """Add the result for a range that follows those that were added by now."""
        self.compared += part.compared
        if self.first is None:
            self.first, self.record = part.first, part.record
        if self.diverged is None:
            self.diverged = part.diverged
        for validity, count in part.counts.items():
            self.counts[validity] += count
        self.records += part.records[: _SHOWN - len(self.records)]
        self.unused |= part.unused


Passes = Callable[[Sequence[Pair], Advance], Iterable[LogDifference]]
"""Runner of the comparison of pairs of files; returns their results in order."""


def compare_logs(one: Copy, other: Copy, *, deep: bool, passes: Passes | None = None, advance: Advance = silent) -> LogDifference:
    """Return the differences of the logs of two copies. Raises UnreadableError, StoreChangedError.

    `passes` compares whole files; without it this process does.

    Without `deep`, of logs that share more than 64 MiB, samples of each file and the last MiB are compared, and everything between the
    last equal sample and the end of the file that has a differing one.
    """
    begin, end = max(one.begin, other.begin), min(one.end, other.end)
    result = LogDifference((begin, max(begin, end)))
    pairs = list(shared_files(one.log, other.log, begin, end))
    shared = sum(high - low for _, _, low, high in pairs)
    result.whole = deep or shared <= SMALL
    chosen = pairs if result.whole else list(_suspicious(pairs, result, advance))
    here = (compare_files(pair, headers_of(one.store, other.store, pair), advance) for pair in chosen)
    for part in passes(chosen, advance) if passes else here:
        result.add(part)
    return result


def headers_of(one: Store, other: Store, pair: Pair) -> tuple[int, int]:
    """Return the bytes before each record in two files, one of each store."""
    return one.entry_header(pair[0]), other.entry_header(pair[1])


def compare_files(pair: Pair, headers: tuple[int, int], advance: Advance = silent) -> LogDifference:
    """Return the differences of two files in the range that they share. Raises UnreadableError, StoreChangedError."""
    first, second, low, high = pair
    result = LogDifference((low, high), compared=high - low)
    ranges = differing_ranges(first, second, low, high, advance=advance)
    if len(ranges):
        tables = [record_table(file, entry_header=header) for file, header in zip((first, second), headers, strict=True)]
        _set(result, ranges, tables[0], tables[1], high)
    return result


def _suspicious(pairs: list[Pair], result: LogDifference, advance: Advance) -> Iterator[Pair]:
    """Yield the rest of the first file from the last equal sample before a differing one on; nothing where all samples are equal."""
    equal: dict[int, int] = {}  # end of the last equal sample by number of the pair
    for number, pair in enumerate(pairs):
        for low, high in _samples(pair, last=number == len(pairs) - 1):
            if len(differing_ranges(pair[0], pair[1], low, high, first=True, advance=advance)):
                for before in range(max(equal, default=0), number + 1):
                    first, second, begin, end = pairs[before]
                    yield first, second, max(begin, equal.get(before, begin)), end
                return
            result.compared += high - low
            equal[number] = high


def _samples(pair: Pair, *, last: bool) -> Iterator[Range]:
    """Yield ranges at the begin, inside and at the end of what two files share, ascending."""
    _, _, low, high = pair
    length = high - low
    if length <= 4 * _SAMPLE:
        yield low, high
        return
    for begin in (low, low + length // 3, low + 2 * length // 3):
        yield begin, begin + _SAMPLE
    yield max(low + 2 * length // 3 + _SAMPLE, high - (_TAIL if last else _SAMPLE)), high


def _set(result: LogDifference, ranges: Ranges, one: RecordTable, other: RecordTable, limit: int) -> None:
    """Set the differing records of one file in its result; bytes from `limit` on were not compared."""
    used = used_ranges(ranges, one, other)
    result.unused = len(used) < len(ranges)
    ranges = used
    if not len(ranges):
        return
    rows, others = one.touched(ranges) & one.valid, other.touched(ranges) & other.valid
    both = rows & meeting(one, other, others)
    first, second = rows & ~both, others & ~meeting(other, one, rows)
    found = [(one.begins[both], one.ends[both], Validity.BOTH), (one.begins[first], one.ends[first], Validity.FIRST)]
    found.append((other.begins[second], other.ends[second], Validity.SECOND))
    neither = ranges[~(_covered(ranges, one, rows) | _covered(ranges, other, others))]
    found.append((neither[:, 0], neither[:, 1], Validity.NEITHER))
    result.first = int(ranges[0, 0])
    result.record = _record_of(result.first, one, other)
    result.diverged = divergence(one, other, both, ranges, limit)
    listed: list[DifferingRecord] = []
    for begins, ends, validity in found:
        result.counts[validity] += len(begins)
        shown = zip(begins[:_SHOWN].tolist(), ends[:_SHOWN].tolist(), strict=True)
        listed += [DifferingRecord(begin, end - begin, validity) for begin, end in shown]
    result.records = sorted(listed, key=lambda record: record.offset)[:_SHOWN]


def _record_of(offset: int, one: RecordTable, other: RecordTable) -> int | None:
    """Return the offset of the record that holds a byte, in the copy where it is valid, if it is in one."""
    places = [(table, table.around(offset)) for table in (one, other)]
    valid = (place for table, place in places if place is not None and table.valid[np.searchsorted(table.begins, place)])
    return next(valid, next((place for _, place in places if place is not None), None))


def _covered(ranges: Ranges, table: RecordTable, rows: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return which ranges share bytes with a marked record."""
    if not rows.any():
        return np.zeros(len(ranges), np.bool_)
    begins, ends = table.begins[rows], table.ends[rows]
    following = np.searchsorted(ends, ranges[:, 0], side="right")
    return np.asarray((following < len(begins)) & (begins[np.minimum(following, len(begins) - 1)] < ranges[:, 1]))
