"""Moved bytes of the log: bytes in its directory that belong at another place, found by the PHYSICALOFFSETs of runs of valid records.

Log files under a wrong name, exchanged pages, a lost or inserted sector, copies beside the log: such bytes are moved to where they belong,
if their own place holds no valid records. Pure: files are read, nothing is written.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from rmqstore.formats.record import Record, RecordError, decode_record
from rmqstore.repair.log.corrections import is_proven
from rmqstore.store.mapped import MappedFile, parse_offset_name
from rmqstore.store.window import read_at
from rmqstore.verify.log.runs import LogBytes, Run, blank_after, joined, runs_of
from rmqstore.verify.queues.judgement import union

_MOST_ENTRIES = 0.5
_HEAD = 64  # bytes of damage that show whether anything was written there
_COMPARED = 1 << 16
"""Bytes before a place in which a copy has to be equal to the log, if it has as many."""
SECTOR, PAGE = 512, 4096
"""Bytes that are written, lost or exchanged at once: all that moved together is between borders of such blocks."""


@dataclass(frozen=True, slots=True)
class Move(LogBytes):
    """Bytes that are not where they belong."""

    def part(self, start: int, end: int) -> Move:
        """Return the move of the bytes that belong at [start, end), which may be more than now."""
        return replace(self, position=self.position + start - self.start, start=start, length=end - start)


Witness = Callable[[Move], float | None]
"""The share of the entries of derived files in the place of a move that point at its records, from 0 to 1; None without entries."""


@dataclass(frozen=True, slots=True)
class Moves:
    """Moves by physical offset, and the ranges [start, end) of the log that they or valid records in their place take, ascending.

    `placed` are the valid records in their place. `copies` are files of the log that hold nothing but records whose own places are taken:
    they were copied over what was there.
    """

    moves: tuple[Move, ...]
    taken: tuple[tuple[int, int], ...]
    placed: tuple[Run, ...] = ()
    copies: tuple[MappedFile, ...] = ()

    def taken_before(self, offset: int) -> int:
        """Return where the last range that ends at `offset` or before ends, 0 without one."""
        number = bisect_right(self.taken, offset, key=lambda one: one[1])
        return self.taken[number - 1][1] if number else 0

    def taken_after(self, offset: int) -> int:
        """Return where the first range that starts at `offset` or after starts, a number beyond all logs without one."""
        number = bisect_left(self.taken, offset, key=lambda one: one[0])
        return self.taken[number][0] if number < len(self.taken) else 1 << 62

    def is_free(self, start: int, end: int) -> bool:
        """Return whether nothing takes a byte of [start, end)."""
        number = bisect_left(self.taken, end, key=lambda one: one[0])
        return not number or self.taken[number - 1][1] <= start

    def record_before(self, offset: int) -> int:
        """Return where the last record in its place begins that has bytes from `offset` on; without one the same as `taken_before`."""
        number = bisect_left(self.placed, offset, key=lambda one: one.start)
        run = self.placed[number - 1] if number else None
        crosses = run is not None and run.end - run.last_size < offset < run.end
        return run.end - run.last_size if run is not None and crosses else self.taken_before(offset)

    def of_whole_files(self, file_size: int) -> Iterator[Move]:
        """Yield a move of all bytes of each file that is another one of the log: it holds most records of a file that has none in place.

        Some of them have to be where they belong in that file; blocks of it may have moved as well. Bytes of the former file that are to
        be moved are in the way, unless all of that file moves.
        """
        in_place = {run.file.path for run in self.placed}
        sources = {move.file.path for move in self.moves}
        whole: dict[int, Move] = {}
        for slot, group in groupby(self.moves, key=lambda move: move.start - move.start % file_size):
            moves = tuple(group)
            records: Counter[Path] = Counter()
            for move in moves:
                records[move.file.path] += move.records
            (path, most), *_ = records.most_common(1)
            number = bisect_left(self.placed, slot + file_size, key=lambda run: run.start)
            empty = not number or self.placed[number - 1].end <= slot
            exact = next((move for move in moves if move.file.path == path and move.start - move.position == slot), None)
            if empty and exact is not None and 2 * most > records.total() and path not in in_place:
                whole[slot] = exact.part(slot, slot + min(file_size, exact.file.length))
        while True:
            in_the_way = {parse_offset_name(path.name) for path in sources - {move.file.path for move in whole.values()}}
            if not in_the_way & whole.keys():
                break
            whole = {slot: move for slot, move in whole.items() if slot not in in_the_way}
        yield from whole.values()


def all_runs(files: Sequence[MappedFile]) -> list[Run]:
    """Return the runs of valid records in files, by their place. Raises UnreadableError, StoreChangedError."""
    return [*joined(run for file in files for run in _well_formed(file))]


def find_moves(
    files: Sequence[MappedFile],
    own: Sequence[Run],
    foreign: Sequence[Run],
    file_size: int,
    witnesses: Callable[[Sequence[tuple[int, int]]], Witness],
) -> Moves:
    """Return the moves of a log.

    `own` are the runs of its `files`, `foreign` those of further files of its directories, whose names say nothing. `witnesses`
    returns what derived files know of ranges of the log, ascending and apart from each other.
    Raises UnreadableError, StoreChangedError.
    """
    foreign_paths = {run.file.path for run in foreign}
    placed = tuple(run for run in own if not run.shift)
    candidates = [run for run in (*own, *foreign) if run.shift or run.file.path in foreign_paths]
    witness = witnesses(union([(run.start, run.end) for run in candidates]))
    found: list[Move] = []
    taken = [(one.start, one.end) for one in placed]
    ends: dict[int, LogBytes] = {one.end: one for one in placed}
    # Blocks exchanged inside the log count before copies beside it: they also say which bytes around them moved.
    for run in sorted(candidates, key=lambda run: (run.file.path in foreign_paths, -run.records, run.start)):
        for move in tuple(_free_parts(run, taken)):  # each move that is found changes `taken`
            share = witness(move)
            exact, before = run.file.path in foreign_paths, ends.get(move.start)
            belongs = _fits(run, move, placed, before, file_size, only_exact=exact) if share is None else share >= _MOST_ENTRIES
            if belongs and (share == 1 or _is_in_time(run, move, placed, file_size, pointed_at=share is not None)):
                found.append(move)
                ends[move.end] = move
                _take(taken, move)
    found = list(_reachable(found, [file.start for file in files if _holds(placed, file)], {file.start for file in files}, file_size))
    bridged = list(_bridged(sorted(found, key=lambda move: move.start), placed, file_size))
    ranges = sorted([(move.start, move.end) for move in bridged] + [(one.start, one.end) for one in placed])
    moves = tuple(_to_blank(bridged, ranges, file_size))
    return Moves(moves, tuple(ranges), placed, tuple(_copies(files, own, moves, placed)))


def _well_formed(file: MappedFile) -> Iterator[Run]:
    """Yield the runs of a file, the last record of each only if it looks written.

    No checksum covers topic and properties of most records, so other bytes can begin inside of what the lengths call the last record.
    They are searched for runs as well.
    """
    runs = [*runs_of(file)]
    for number, run in enumerate(runs):
        begin = run.position_end - run.last_size
        if is_proven(read_at(file, begin, run.last_size), run.end - run.last_size):
            yield run
            continue
        if run.records > 1:
            yield replace(run, length=run.length - run.last_size, records=run.records - 1)
        stop = runs[number + 1].position if number + 1 < len(runs) else file.length
        yield from runs_of(file, begin + 1, stop)


def _free_parts(run: Run, taken: Sequence[tuple[int, int]]) -> Iterator[Move]:
    """Yield the parts of a run whose places are not taken."""
    move = Move(run.file, run.position, run.start, run.length, run.records)
    at = run.start
    for number in range(max(bisect_right(taken, (run.start, run.start)) - 1, 0), len(taken)):
        start, end = taken[number]
        if start >= run.end:
            break
        if start > at:
            yield move.part(at, start)
        at = max(at, end)
    if at < run.end:
        yield move.part(at, run.end)


def _take(taken: list[tuple[int, int]], move: Move) -> None:
    taken.insert(bisect_left(taken, (move.start, move.end)), (move.start, move.end))


def _around(move: Move, placed: Sequence[Run]) -> tuple[Run | None, Run | None]:
    """Return the records in their place before and after the place of a move."""
    number = bisect_left(placed, move.end, key=lambda one: one.start)
    return placed[number - 1] if number else None, placed[number] if number < len(placed) else None


def _touches(run: Run, move: Move, placed: Sequence[Run], file_size: int) -> tuple[bool, bool]:
    """Return whether a part of a run begins where the records before it end, and ends where those after it begin, or the file does."""
    before, after = _around(move, placed)
    begins = move.start % file_size == 0 or (before is not None and before.end == move.start)
    ends = (after is not None and after.start == move.end) or bool(move.end == run.end and blank_after(run, file_size))
    return begins, ends


def _is_in_time(run: Run, move: Move, placed: Sequence[Run], file_size: int, *, pointed_at: bool) -> bool:
    """Return whether a part of a run is not older than the records before its place and not newer than those after, or touches both.

    Leftovers of earlier use of the log are older than the records before them, and do not fit exactly. Records that most queue entries
    point at may be newer than those after them: the clock of the broker was set back.
    """
    before, after = _around(move, placed)
    record = None if move.start == run.start else _record_in(move.file, move.position, move.position_end)
    first = run.first_timestamp if move.start == run.start else None if record is None else record.store_timestamp
    in_time = (before is None or first is None or before.last_timestamp <= first) and (
        pointed_at or after is None or move.end < run.end or run.last_timestamp <= after.first_timestamp
    )
    return in_time or all(_touches(run, move, placed, file_size))


def _fits(run: Run, move: Move, placed: Sequence[Run], before: LogBytes | None, file_size: int, *, only_exact: bool) -> bool:
    """Return whether a part of a run that no queue entry points into belongs to its place.

    With `only_exact` it has to touch both sides, or to follow on the last file of the log, or to replace damaged bytes after bytes of the
    log that it holds as well: `before` are the records or the move that end where its place begins.

    Blocks of a disk and files moved by whole sectors; other bytes, such as a record inside of a message, have to fit exactly.
    """
    begins, ends = _touches(run, move, placed, file_size)
    if only_exact:
        fits = begins and (ends or _ends_log(run, move, placed, file_size))
        return fits or (before is not None and _replaces(run, move, before))
    if run.shift % SECTOR:
        return begins and ends
    return run.records > 1 or begins or ends or None not in _around(move, placed)


def _ends_log(run: Run, move: Move, placed: Sequence[Run], file_size: int) -> bool:
    """Return whether a run is the file that follows on the last one of the log: it begins where that ends, and has the same STOREHOST."""
    before, after = _around(move, placed)
    if before is None or after is not None or run.position or move.start != run.start or move.start % file_size:
        return False
    first, last = _record_in(run.file, run.position), _record_in(before.file, before.position)
    return before.end > move.start - file_size and first is not None and last is not None and first.store_host == last.store_host


def _replaces(run: Run, move: Move, before: LogBytes) -> bool:
    """Return whether a run has the bytes `before` its place as well, and that place holds other bytes than zeros."""
    if run.start >= move.start:
        return False
    length = min(move.start - max(run.start, before.start), _COMPARED)
    same = read_at(before.file, before.position_end - length, length) == read_at(run.file, move.position - length, length)
    return same and any(read_at(before.file, before.position_end, min(_HEAD, before.file.length - before.position_end)))


def _record_in(file: MappedFile, position: int, stop: int | None = None) -> Record | None:
    """Return the record at a byte of a file, wherever it belongs, None where none ends by `stop`, without it the end of the file."""
    most = (file.length if stop is None else stop) - position
    size = int.from_bytes(read_at(file, position, min(4, most)), "big")
    try:
        return decode_record(read_at(file, position, min(size, most)))
    except RecordError:
        return None


def _copies(files: Sequence[MappedFile], own: Sequence[Run], moves: Sequence[Move], placed: Sequence[Run]) -> Iterator[MappedFile]:
    """Yield files before the last record in its place that hold only displaced records, not all of which are moved."""
    moved: dict[Path, list[tuple[int, int]]] = defaultdict(list)
    for move in moves:
        moved[move.file.path].append((move.position, move.position_end))
    ranges = {path: union(parts) for path, parts in moved.items()}
    displaced = {run.file.path for run in own if run.shift and not _overlaps(ranges.get(run.file.path, ()), run)}
    for file in files:
        if file.path in displaced and not _holds(placed, file) and placed and placed[-1].start >= file.end:
            yield file


def _overlaps(ranges: Sequence[tuple[int, int]], run: Run) -> bool:
    """Return whether one of the ranges of bytes of a file, ascending and apart from each other, has bytes of a run."""
    number = bisect_right(ranges, run.position, key=lambda one: one[1])
    return number < len(ranges) and ranges[number][0] < run.position_end


def _holds(placed: Sequence[Run], file: MappedFile) -> bool:
    """Return whether a file has valid records in their place."""
    number = bisect_left(placed, file.start, key=lambda one: one.start)
    return number < len(placed) and placed[number].start < file.end


def _reachable(moves: Sequence[Move], starts: Sequence[int], present: Set[int], file_size: int) -> Iterator[Move]:
    """Yield the moves into files of the log, and into files right before or after them: older ones expired, others are of another log.

    `starts` are those of files with records in their place, `present` those of all files.
    """
    if not starts:
        yield from moves
        return
    low, high = min(starts), max(starts)
    slots = present | {move.start - move.start % file_size for move in moves}
    while low - file_size in slots:
        low -= file_size
    while high + file_size in slots:
        high += file_size
    yield from (move for move in moves if low <= move.start < high + file_size)


def _bridged(moves: Sequence[Move], placed: Sequence[Run], file_size: int) -> Iterator[Move]:
    """Yield the moves, those that one damage separates joined: bytes between two moves of one source by one shift moved as well."""
    last: Move | None = None
    for move in moves:
        if last is not None and _goes_on(last, move, placed, file_size):
            last = replace(last.part(last.start, move.end), records=last.records + move.records)
            continue
        if last is not None:
            yield last
        last = move
    if last is not None:
        yield last


def _goes_on(move: Move, following: Move, placed: Sequence[Run], file_size: int) -> bool:
    same = move.file == following.file and move.start - move.position == following.start - following.position
    number = bisect_left(placed, move.end, key=lambda one: one.start)
    between = number < len(placed) and placed[number].start < following.start
    return same and not between and move.start // file_size == (following.end - 1) // file_size


def _to_blank(moves: Sequence[Move], taken: Sequence[tuple[int, int]], file_size: int) -> Iterator[Move]:
    """Yield the moves, the last one of a file with the BLANK that ends it."""
    for move in moves:
        last = taken[bisect_left(taken, (move.start - move.start % file_size + file_size, 0)) - 1]
        ends = last == (move.start, move.end) and move.file.length - move.position_end >= 8 and blank_after(move, file_size)
        yield move.part(move.start, move.end + 8) if ends else move
