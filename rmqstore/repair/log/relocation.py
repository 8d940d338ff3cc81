"""The log with all bytes at their places: files that moved bytes belong to are assembled in the staging area.

Further planning reads that log, as a store whose log files are partly in the staging area; the plan then replaces the files. The
former files, those with the moved bytes among them, go to the folder of the transaction.
"""

from __future__ import annotations

import stat
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rmqstore.formats.naming import offset_to_file_name
from rmqstore.repair.files import beneath
from rmqstore.repair.log.corrections import is_proven
from rmqstore.repair.log.evidence import indexed_starts
from rmqstore.repair.log.exchanges import LARGEST_BORDER, only_exchanges, records_end, with_exchanges
from rmqstore.repair.log.moves import PAGE, SECTOR, Move, Moves, all_runs, find_moves
from rmqstore.repair.log.pointers import units_into
from rmqstore.repair.log.segments import LogFiles
from rmqstore.repair.plan.model import TakenRange
from rmqstore.repair.plan.staging import StagedFile, Staging
from rmqstore.store.mapped import MappedFile, MappedFileQueue, OddEntry, ProblemKind
from rmqstore.store.root import Store
from rmqstore.store.window import data_extents, map_window, read_at

_PIECE = 8 << 20
_SOURCES = (ProblemKind.FOREIGN_NAME, ProblemKind.DUPLICATE_NAME, ProblemKind.DIRECTORY)


@dataclass(frozen=True, slots=True)
class Assembled:
    """A file of the log that was assembled: its place `path`, whether one `exists` there now, and the file `like` whose times it takes.

    `former`: the file of the log that is there now.
    """

    path: Path
    exists: bool
    staged: StagedFile
    reason: str
    like: Path | None = None
    former: MappedFile | None = None


@dataclass(frozen=True)
class Relocation:
    """The log as it is to be: `log` and `store` read it, `assembled` are the assembled files, by the path they are read at."""

    log: LogFiles
    store: Store
    assembled: Mapping[Path, Assembled] = field(default_factory=dict)

    def place(self, file: MappedFile) -> Path:
        """Return the path in the store of a file of the log."""
        found = self.assembled.get(file.path)
        return file.path if found is None else found.path

    def after(self, earlier: Relocation) -> Relocation:
        """Return this one, of the log that an earlier one led to, as one of the log before both."""
        assembled = dict(earlier.assembled)
        for path, one in self.assembled.items():
            first = assembled.pop(one.path, None)
            if first is not None:
                one = replace(first, staged=one.staged, reason=f"{first.reason}; {one.reason}")
            assembled[path] = one
        return replace(self, assembled=assembled)

    def former(self, file: MappedFile) -> MappedFile:
        """Return a file of the log as it is now; the file itself if it is new."""
        found = self.assembled.get(file.path)
        return file if found is None or found.former is None else found.former


@dataclass(frozen=True, slots=True)
class Healing:
    """The log with what was taken from other copies, None if nothing was; the ranges that were taken; and sentences for users."""

    relocation: Relocation | None = None
    taken: tuple[TakenRange, ...] = ()
    notes: tuple[str, ...] = ()


def relocate(store: Store, log: LogFiles, staging: Staging) -> Relocation | None:
    """Return the log of `store` with moved bytes at their places; None where no bytes moved.

    Raises UnreadableError, StoreChangedError, OSError.
    """
    lengths = {file.path: file.length for file in store.commitlog.files}
    files = [replace(file, length=lengths[file.path]) for file in log.files]
    odd = [MappedFile(path, 0, length, 0) for entry in log.odd if entry.kind in _SOURCES for path, length in _plain_files(entry)]
    own, foreign = all_runs(files), all_runs(odd)
    if foreign:
        # Blocks that were exchanged inside the log go back before a copy beside it fills what is missing there.
        blocks = only_exchanges(find_moves(files, own, (), log.file_size, partial(_Witnesses, store)), log.files, log.file_size)
        if blocks.moves:
            return _with_rest(_Assembly(store, log, staging, blocks).run(), staging)
    moves = find_moves(files, own, foreign, log.file_size, partial(_Witnesses, store))
    if not moves.moves and not moves.copies:
        return None
    whole = tuple(moves.of_whole_files(log.file_size))
    if not whole:
        return _Assembly(store, log, staging, with_exchanges(moves, log.files, log.file_size)).run()
    # Blocks that were exchanged between files are found where both files are at their places.
    renamed = _Assembly(store, log, staging, replace(moves, moves=whole, copies=())).run()
    if len(whole) == len(moves.moves) and not moves.copies:
        return renamed
    return _with_rest(renamed, staging)


def _with_rest(relocation: Relocation, staging: Staging) -> Relocation:
    """Return a relocation with what is still to move after it."""
    rest = relocate(relocation.store, relocation.log, staging)
    return relocation if rest is None else rest.after(relocation)


def _plain_files(entry: OddEntry) -> Iterator[tuple[Path, int]]:
    """Yield path and length of the regular files that an entry is or has below it; no link is followed."""
    if entry.path.is_symlink():
        return
    if entry.kind is not ProblemKind.DIRECTORY:
        if entry.length > 0 and entry.path.is_file():
            yield entry.path, entry.length
        return
    for path, status in beneath.walk(entry.path):
        if stat.S_ISREG(status.st_mode) and status.st_size > 0:
            yield Path(path), status.st_size


class _Witnesses:
    """Queue entries that point into ranges of the log, and index entries where there are no others; all are read once."""

    def __init__(self, store: Store, ranges: Sequence[tuple[int, int]]) -> None:
        self._store = store
        self._ranges = ranges
        self._units = [(unit.position, unit.size) for unit in units_into(store, ranges)]

    @cached_property
    def _indexed(self) -> list[tuple[int, int]]:
        return [(start, 0) for start in indexed_starts(self._store, self._ranges)]

    def __call__(self, move: Move) -> float | None:
        """Return the share of those that point into the place of a move that point at its records; None where there are none."""
        places = _within(self._units, move) or _within(self._indexed, move)
        agree = sum(_is_at(move, position, size) for position, size in places)
        return agree / len(places) if places else None


def _within(places: Sequence[tuple[int, int]], move: Move) -> Sequence[tuple[int, int]]:
    """Return those of (physical offset, size), in ascending order, in the place of a move."""
    return places[bisect_left(places, (move.start, 0)) : bisect_left(places, (move.end, 0))]


def _is_at(move: Move, start: int, size: int) -> bool:
    """Return whether a record of a move belongs at physical offset `start`; `size` in bytes, 0 if that is not known."""
    position = move.position + start - move.start
    head = int.from_bytes(read_at(move.file, position, min(4, move.file.length - position)), "big")
    return head == (size or head) and 0 < head <= move.file.length - position and is_proven(read_at(move.file, position, head), start)


class _Assembly:
    """The assembly of the files."""

    def __init__(self, store: Store, log: LogFiles, staging: Staging, moves: Moves) -> None:
        self._store = store
        self._log = log
        self._staging = staging
        self._moves = moves
        self._size = log.file_size
        self._slots = {file.start: file for file in log.files}
        self._copies = {file.start for file in moves.copies}
        self._into: dict[int, list[Move]] = defaultdict(list)  # by the start of the file that they go to
        self._from: dict[Path, list[Move]] = defaultdict(list)  # by the file that they leave
        for move in moves.moves:
            self._into[move.start - move.start % self._size].append(move)
            self._from[move.file.path].append(move)
        left = {file.start for file in log.files if file.path in self._from}
        self._targets = sorted(self._into.keys() | left | self._copies)

    def run(self) -> Relocation:
        """Write the files and return the log that they make up."""
        assembled: dict[Path, Assembled] = {}
        files = dict(self._slots)
        for start in self._targets:
            one = self._assemble(start)
            assembled[one.staged.path] = one
            files[start] = MappedFile(one.staged.path, start, self._size, 0)
        ordered = tuple(files[start] for start in sorted(files))
        taken = {one.path for one in assembled.values()}
        kept = tuple(entry for entry in self._log.odd if entry.path not in taken)
        lengths = {file.path: file.length for file in self._store.commitlog.files}
        queue = MappedFileQueue(tuple(replace(file, length=lengths.get(file.path, file.length)) for file in ordered), (), self._size)
        return Relocation(replace(self._log, files=ordered, odd=kept), self._store.with_commitlog(queue), assembled)

    def _assemble(self, start: int) -> Assembled:
        name = offset_to_file_name(start)
        file = self._slots.get(start)
        data = self._staging.open(name, self._size)
        into = self._into.get(start, [])
        whole = next((move for move in into if (move.start, move.length) == (start, self._size)), None)
        if file is not None and whole is None and start not in self._copies:
            copy_into(file, 0, data)
            for move in self._from.get(file.path, ()):
                data[move.position : move.position_end] = 0
        for move in into:
            copy_into(move.file, move.position, data[move.start - start : move.end - start])
        if whole is None:
            for move in into:
                self._settle_borders(move, start, data)
        staged = self._staging.close(name)
        path = file.path if file is not None else self._store.commitlog_directories.writable[0] / name
        return Assembled(path, path.exists(), staged, _reason(into, start), whole.file.path if whole is not None else None, file)

    def _settle_borders(self, move: Move, start: int, data: npt.NDArray[np.uint8]) -> None:
        """Move the rest of the first and the last block as well where that makes the records across its borders valid."""
        end = start + self._size
        before, after = max(start, self._moves.taken_before(move.start)), min(end, self._moves.taken_after(move.end))
        for block in (SECTOR, PAGE):
            cut = max(before, move.start - move.start % block)
            position = move.position - (move.start - cut)
            if cut < move.start <= before + LARGEST_BORDER and position >= 0:
                moved = read_at(move.file, position, move.start - cut)
                if records_end(data[before - start : cut - start].tobytes() + moved, before, end, move.start) is not None:
                    data[cut - start : move.start - start] = np.frombuffer(moved, np.uint8)
                    break
        for block in (SECTOR, PAGE):
            cut = min(-(-move.end // block) * block, after)
            if move.end < cut and after - move.end <= LARGEST_BORDER and move.position_end + cut - move.end <= move.file.length:
                moved = read_at(move.file, move.position_end, cut - move.end)
                if records_end(moved + data[cut - start : after - start].tobytes(), move.end, end, after) is not None:
                    data[move.end - start : cut - start] = np.frombuffer(moved, np.uint8)
                    break


def copy_into(source: MappedFile, position: int, target: npt.NDArray[np.uint8]) -> None:
    """Fill `target` with the bytes of a file from `position` on, as far as they go; holes stay holes."""
    length = min(target.size, source.length - position)
    for begin, end in data_extents(source):
        for at in range(max(begin, position), min(end, position + length), _PIECE):
            size = min(_PIECE, end - at, position + length - at)
            with map_window(source, at, size) as window:
                target[at - position : at - position + size] = window.array


def _reason(moves: Sequence[Move], start: int) -> str:
    if not moves:
        return "it held bytes that belong at other positions"
    parts = [f"{move.start}-{move.end} from {move.file.path.name} at {move.position}" for move in moves]
    more = f" and {len(parts) - 3} more ranges" if len(parts) > 3 else ""
    return f"bytes that belong here by their PHYSICALOFFSET: {', '.join(parts[:3])}{more}"


def needs_relocation(damaged: Iterable[bool], log: LogFiles) -> bool:
    """Return whether a log is to be searched for moved bytes: something in it is damaged, missing, or does not belong."""
    return any(damaged) or any(entry.kind in _SOURCES for entry in log.odd)
