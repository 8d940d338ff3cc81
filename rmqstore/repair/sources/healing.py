"""The log with its damaged and missing records from other copies: files that some are taken for are assembled in the staging area.

A RocketMQ log has the same bytes at the same physical offset in every copy. A record is taken from another copy if it is valid there and
its bytes here are not, and if the nearest valid records that both have, eight on each side where there are as many, are the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from rmqstore.errors import RefusedError
from rmqstore.formats.naming import offset_to_file_name
from rmqstore.reading.differences import NO_RANGES, differing_ranges
from rmqstore.reading.progress import Advance, silent
from rmqstore.reading.records import read_record
from rmqstore.reading.recordtables import NEIGHBOURS, Ranges, divergence, equal_records, meeting, record_table, used_ranges
from rmqstore.reading.zeros import end_of_nonzero
from rmqstore.repair.log.relocation import Assembled, Healing, Relocation, copy_into
from rmqstore.repair.log.segments import LogFiles, emptied
from rmqstore.repair.log.survey import FileSurvey
from rmqstore.repair.plan.model import TakenRange
from rmqstore.repair.plan.staging import StagedFile, Staging
from rmqstore.repair.sources.copies import OtherCopy, epoch_limit, epochs_of
from rmqstore.store.ends import queue_ends
from rmqstore.store.mapped import MappedFile, MappedFileQueue, parse_offset_name
from rmqstore.store.root import Store
from rmqstore.store.window import read_at
from rmqstore.wording import counted

_EQUAL, _CONFLICT, _TAKE = 0, 1, 2
_SAID = 3


@dataclass(frozen=True, slots=True)
class _Rows:
    """Valid records of another copy, ascending: physical offsets [begins, ends), and whether they are equal, in conflict or to be taken."""

    begins: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    kinds: npt.NDArray[np.int64]


def heal(
    store: Store,
    log: LogFiles,
    results: Sequence[FileSurvey],
    copies: Sequence[OtherCopy],
    staging: Staging,
    *,
    extend: bool = False,
    advance: Advance = silent,
) -> Healing:
    """Return the log of a store, surveyed in `results`, with what other copies have of its damaged and missing records.

    The first copy that has a record is taken. `extend`: also records after the end of the log. Raises RefusedError for a copy of another
    log, UnreadableError, StoreChangedError, OSError.
    """
    healing = _Healing(store, log, results, staging, extend, advance)
    for copy in copies:
        healing.use(copy)
    return healing.result()


class _Healing:
    def __init__(
        self, store: Store, log: LogFiles, results: Sequence[FileSurvey], staging: Staging, extend: bool, advance: Advance
    ) -> None:
        self._store = store
        self._log = log
        self._staging = staging
        self._extend = extend
        self._advance = advance
        self._size = log.file_size
        self._slots = {file.start: file for file in log.files}
        self._now = dict(self._slots)  # with the files assembled so far
        self._suspects = {result.file.start: np.array(sorted(result.suspects), np.int64) for result in results}
        self._first = min([log.files[0].start, *(file.start for file in emptied(log.odd, log.files[0], log.file_size))])
        last = max((result.last_sound for result in results), default=-1)
        self._end = self._first if last < 0 else last + _size_at(log.files, last)
        self._damaged_end = max(self._end, self._queued_end(), *map(_end_of_bytes, results))
        self._epochs = epochs_of(store)
        self._staged: dict[int, StagedFile] = {}
        self._taken: list[TakenRange] = []
        self._notes: list[str] = []

    def use(self, copy: OtherCopy) -> None:
        """Take from another copy what is damaged or missing so far. Raises RefusedError for a copy of another log."""
        pieces, diverged = self._compared(copy)
        begins, ends, kinds = (np.concatenate([getattr(rows, name) for rows in pieces]) for name in ("begins", "ends", "kinds"))
        self._require_same(copy, begins, kinds, diverged)
        if diverged is not None:
            self._notes.append(f"{copy.name} diverges from this log at offset {diverged}; nothing from there on is taken from it.")
        takes = (kinds == _TAKE) & _has_equal_neighbours(kinds)
        refused = int(((kinds == _TAKE) & ~takes).sum())
        if refused:
            self._notes.append(f"{counted(refused, 'record')} of {copy.name} beside records that differ are not taken.")
        alone = begins[kinds == _CONFLICT]
        alone = alone if diverged is None else alone[alone < diverged]
        if len(alone):
            places = ", ".join(map(str, alone[:_SAID].tolist()))
            self._notes.append(
                f"{counted(len(alone), 'record')} valid here and in {copy.name} differ and stay unchanged: at offset {places}."
            )
        takes &= self._is_wanted(copy, begins, ends)
        by_slot: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for begin, end in _runs(begins[takes], ends[takes]):
            for start in range(begin - begin % self._size, end, self._size):
                by_slot[start].append((max(begin, start), min(end, start + self._size)))
        for start, ranges in sorted(by_slot.items()):
            self._assemble(copy, start, ranges)

    def result(self) -> Healing:
        """Return the log as it is after all copies were used."""
        if not self._staged:
            return Healing(None, (), tuple(self._notes))
        assembled = {staged.path: self._assembled(start, staged) for start, staged in self._staged.items()}
        paths = {one.path for one in assembled.values()}
        files = tuple(self._now[start] for start in sorted(self._now))
        lengths = {file.path: file.length for file in self._store.commitlog.files}
        queue = MappedFileQueue(tuple(replace(file, length=lengths.get(file.path, file.length)) for file in files), (), self._size)
        log = replace(self._log, files=files, odd=tuple(entry for entry in self._log.odd if entry.path not in paths))
        taken = tuple(sorted(self._taken, key=lambda one: one.begin))
        return Healing(Relocation(log, self._store.with_commitlog(queue), assembled), taken, tuple(self._notes))

    # Comparison

    def _compared(self, copy: OtherCopy) -> tuple[list[_Rows], int | None]:
        """Return the rows of each file of another copy in the order of the log, and where it diverges."""
        none = np.zeros(0, np.int64)
        pieces = [_Rows(none, none, none)]
        limit = epoch_limit(self._epochs, copy.epochs)
        for start in range(self._first, max(copy.end, self._first), self._size):
            theirs = copy.files.get(start)
            if limit is not None and start >= limit:
                break
            if theirs is not None:
                rows, diverged = self._rows(self._now.get(start), theirs, limit)
                pieces.append(rows)
                if diverged is not None:
                    return pieces, diverged
        return pieces, limit if limit is not None and limit < max(self._end, copy.end) else None

    def _rows(self, ours: MappedFile | None, theirs: MappedFile, limit: int | None) -> tuple[_Rows, int | None]:
        table = record_table(theirs) if ours is None else None
        ranges = NO_RANGES if ours is None else self._differing(ours, theirs)
        if ours is not None and not len(ranges) and theirs.end <= self._end:
            count = NEIGHBOURS if read_record(theirs, theirs.start) is not None else 0
            begins = np.full(count, theirs.start, np.int64)
            return _Rows(begins, begins, np.full(count, _EQUAL)), None
        table = record_table(theirs) if table is None else table
        kinds = np.full(len(table.begins), _TAKE)
        diverged = None
        if ours is not None:
            own = record_table(ours)
            own.valid[np.isin(own.begins, self._suspects.get(ours.start, ()))] = False
            ranges = used_ranges(ranges, table, own)
            touched = table.touched(ranges)
            conflicts = table.valid & touched & meeting(table, own, own.valid & own.touched(ranges))
            kinds[~touched] = -1
            kinds[equal_records(table, own, ranges)] = _EQUAL
            kinds[conflicts] = _CONFLICT
            diverged = divergence(table, own, conflicts, ranges, min(self._end, ours.end))
            kinds[conflicts & _beside(kinds == _TAKE)] = _TAKE
        if limit is not None and limit < theirs.end:
            diverged = limit if diverged is None else min(limit, diverged)
        kept = table.valid & (kinds >= 0)
        if diverged is not None:
            kept &= table.ends <= diverged
        rows = _Rows(table.begins[kept], table.ends[kept], kinds[kept])
        if diverged is not None:
            last = np.array([diverged])
            rows = _Rows(*(np.concatenate([one, two]) for one, two in ((rows.begins, last), (rows.ends, last), (rows.kinds, [_CONFLICT]))))
        return rows, diverged

    def _differing(self, ours: MappedFile, theirs: MappedFile) -> Ranges:
        shared = ours.start + min(ours.length, theirs.length)
        ranges = differing_ranges(ours, theirs, ours.start, shared, advance=self._advance)
        return ranges if theirs.end <= shared else np.concatenate([ranges, [[shared, theirs.end]]])

    def _require_same(self, copy: OtherCopy, begins: npt.NDArray[np.int64], kinds: npt.NDArray[np.int64], diverged: int | None) -> None:
        equal = int((kinds == _EQUAL).sum())
        if equal >= NEIGHBOURS or (equal and diverged is None):
            return
        conflicts = begins[kinds == _CONFLICT]
        place = f"the first difference is at offset {int(conflicts[0])}" if len(conflicts) else "they have no valid record in common"
        raise RefusedError(f"{copy.name} is not proven to be a copy of this store: {place}.", "`rmqstore diff` compares both.")

    def _is_wanted(self, copy: OtherCopy, begins: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which records are inside the log, or continue it without a gap as far as they are wanted; add a note about the others."""
        inside = begins < self._end
        after = np.flatnonzero(~inside & (ends > begins))
        if not len(after):
            return inside
        expected = np.concatenate([[self._end], ends[after[:-1]]])
        gaps = np.flatnonzero(begins[after] != expected)
        chain = after[: gaps[0]] if len(gaps) else after
        wanted = chain if self._extend else chain[begins[chain] < self._damaged_end]
        inside[wanted] = True
        if len(chain) > len(wanted):
            # A BLANK ends where its file ends, and no record does.
            count, end = int((ends[chain[len(wanted) :]] % self._size != 0).sum()), int(ends[chain[-1]])
            self._notes.append(
                f"{copy.name} has {counted(count, 'record')} after the end of this log, up to offset {end}: --extend takes them."
            )
        return inside

    def _queued_end(self) -> int:
        """Return the offset after the last record that a queue of this store names, as far as files near the end can hold it."""
        most = self._log.files[-1].start + 2 * self._size
        ends = (queue_ends(queue.files) for queue in self._store.queue_directories())
        return max((end for one in ends if (end := one.last_physical_offset + one.last_size) <= most), default=0)

    # Files

    def _assemble(self, copy: OtherCopy, start: int, ranges: Sequence[tuple[int, int]]) -> None:
        name, theirs, ours = offset_to_file_name(start), copy.files[start], self._now.get(start)
        if start in self._staged:
            data = self._staging.reopen(name, self._staged[start])
        else:
            data = self._staging.open(name, self._size)
            if ours is not None:
                copy_into(ours, 0, data)
        for begin, end in ranges:
            part = data[begin - start : end - start]
            part[:] = 0
            copy_into(theirs, begin - start, part)
            self._taken.append(TakenRange(copy.name_of(theirs), begin, end))
        staged = self._staged[start] = self._staging.close(name)
        self._now[start] = MappedFile(staged.path, start, self._size, 0)

    def _assembled(self, start: int, staged: StagedFile) -> Assembled:
        former = self._slots.get(start)
        there = (entry.path for entry in self._log.odd if parse_offset_name(entry.path.name) == start)
        path = next(there, self._store.commitlog_directories.writable[0] / offset_to_file_name(start)) if former is None else former.path
        return Assembled(path, path.exists(), staged, self._reason(start), former=former)

    def _reason(self, start: int) -> str:
        parts = [f"{one.begin}-{one.end} from {one.file}" for one in self._taken if start <= one.begin < start + self._size]
        more = f" and {len(parts) - _SAID} more ranges" if len(parts) > _SAID else ""
        return f"records of another copy: {', '.join(parts[:_SAID])}{more}"


def _has_equal_neighbours(kinds: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return for each row whether none of the nearest rows on either side that are not taken is in conflict."""
    others = np.flatnonzero(kinds != _TAKE)
    conflicts = np.concatenate([[0], np.cumsum(kinds[others] == _CONFLICT)])
    place = np.searchsorted(others, np.arange(len(kinds)))
    before, after = np.maximum(place - NEIGHBOURS, 0), np.minimum(place + NEIGHBOURS, len(others))
    return np.asarray(conflicts[after] == conflicts[before])


def _beside(takes: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return which rows are next to one that is taken: a single record that differs there is part of the same damage."""
    return np.asarray(np.append(takes[1:], False) | np.append(False, takes[:-1]))


def _runs(begins: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield ranges of consecutive records."""
    if len(begins):
        cuts = np.flatnonzero(begins[1:] != ends[:-1])
        yield from zip(
            begins[np.concatenate([[0], cuts + 1])].tolist(), ends[np.concatenate([cuts, [len(ends) - 1]])].tolist(), strict=True
        )


def _size_at(files: Sequence[MappedFile], offset: int) -> int:
    """Return the size of the record at an offset of the log."""
    file = next(file for file in files if file.start <= offset < file.end)
    return int.from_bytes(read_at(file, offset - file.start, 4), "big")


def _end_of_bytes(result: FileSurvey) -> int:
    """Return the offset after the last record of a file, or after the last byte after it that is not zero."""
    if result.tail is not None:
        return result.tail.end
    hole = next((hole for hole in result.holes if hole.to_file_end), None)
    return result.end_offset if hole is None else result.file.start + end_of_nonzero(result.file, hole.start - result.file.start)
