"""The timer log as columns: units window by window, what breaks their sequence, and where a start would stop reading."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import takewhile

import numpy as np
import numpy.typing as npt

from rmqstore.formats import timer
from rmqstore.scan.columns import integer_columns
from rmqstore.store.mapped import MappedFile, MappedFileQueue
from rmqstore.store.window import read_at

Units = npt.NDArray[np.void]
Offsets = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


UNIT = integer_columns(timer.LOG_UNIT)
_CHUNK_UNITS = 20_000
_KINDS = (1, 3, 5, 7)
# The widest roll window, and a third more that a unit may stay beyond it (fact sheet timer §1.2, §1.3).
_LARGEST_DELAY_MS = 604_740 * 1000 // 3 * 4
# Every precision is a multiple of 100 ms, whatever it was when the unit was written.
_SMALLEST_PRECISION_MS = 100


@dataclass(frozen=True, slots=True)
class Window:
    """Consecutive units of a file, with their `offsets` in the timer log.

    `accepted`: those that a start and the timer take for units; `sound`: those of them that break no rule of a writer.
    """

    file: MappedFile
    offsets: Offsets
    units: Units
    accepted: Mask
    sound: Mask


@dataclass(slots=True)
class BadRun:
    """Consecutive places of a file without a valid unit."""

    file: MappedFile
    position: int
    length: int
    rule: str


@dataclass(slots=True)
class _FileState:
    file: MappedFile
    stop: int | None = None  # position where a start would stop reading this file
    last_sound: int = -1  # position of the last valid unit
    runs: list[BadRun] = field(default_factory=list)
    blank: str | None = None  # what is wrong with the mark at the end of a full file


class TimerLog:
    """Reader of the units of a timer log. `file_size` is the length that its files should have, in bytes."""

    MAX_RUNS = 1000

    def __init__(self, queue: MappedFileQueue) -> None:
        self.queue = queue
        self.file_size = queue.file_size or timer.DEFAULT_LOG_FILE_SIZE
        self.last_unit = timer.last_unit_position(self.file_size)
        self._states: list[_FileState] = []
        self._patches: list[tuple[int, bytes]] = []

    def patch(self, patches: Mapping[int, bytes]) -> None:
        """Read these bytes, by their offset in the timer log, instead of those on the disk from now on."""
        self._patches = sorted(patches.items())

    def _read(self, file: MappedFile, position: int, length: int) -> bytes:
        """Return bytes of a file with the patches in them. Raises UnreadableError, StoreChangedError."""
        data = read_at(file, position, length)
        start, end = file.start + position, file.start + position + length
        first = bisect_right(self._patches, start - timer.LOG_UNIT_SIZE, key=lambda patch: patch[0])
        inside = list(takewhile(lambda patch: patch[0] < end, self._patches[first:]))
        if not inside:
            return data
        changed = bytearray(data)
        for offset, new in inside:
            low, high = max(offset, start), min(offset + len(new), end)
            if low < high:
                changed[low - start : high - start] = new[low - offset : high - offset]
        return bytes(changed)

    def windows(self, first: int = 0) -> Iterator[Window]:
        """Yield all units of the files that begin at offset `first` or after it, up to the unused rest of each.

        Raises UnreadableError, StoreChangedError.
        """
        self._states = []
        for file in (file for file in self.queue.files if file.start >= first):
            state = _FileState(file)
            self._states.append(state)
            count = min(self.last_unit + timer.LOG_UNIT_SIZE, file.length) // timer.LOG_UNIT_SIZE
            for first in range(0, count, _CHUNK_UNITS):
                number = min(_CHUNK_UNITS, count - first)
                data = self._read(file, first * timer.LOG_UNIT_SIZE, number * timer.LOG_UNIT_SIZE)
                units = np.frombuffer(data, UNIT)
                positions = (first + np.arange(number, dtype=np.int64)) * timer.LOG_UNIT_SIZE
                accepted = (units["size"] == timer.LOG_UNIT_SIZE) & ((units["magic"] | 0xF) == 0xF)
                sound = accepted & _keeps_rules(units)
                self._note(state, positions, units, accepted, sound)
                yield Window(file, file.start + positions, units, accepted, sound)
            state.blank = self._blank_problem(file)

    def _note(self, state: _FileState, positions: Offsets, units: Units, accepted: Mask, sound: Mask) -> None:
        if state.stop is None and not accepted.all():
            state.stop = int(positions[np.argmin(accepted)])
        if sound.any():
            state.last_sound = int(positions[np.flatnonzero(sound)[-1]])
        bad = np.flatnonzero(~sound)
        if not bad.size:
            return
        for run in np.split(bad, np.flatnonzero(np.diff(bad) != 1) + 1):
            position, length = int(positions[run[0]]), len(run) * timer.LOG_UNIT_SIZE
            previous = state.runs[-1] if state.runs else None
            if previous is not None and previous.position + previous.length == position:
                previous.length += length
            elif len(state.runs) < self.MAX_RUNS:
                rule = "no entry" if not accepted[run[0]] else "an entry with impossible values"
                if not units[run[0] : run[-1] + 1].tobytes().strip(b"\0"):
                    rule = "zeros"
                state.runs.append(BadRun(state.file, position, length, rule))

    def _blank_problem(self, file: MappedFile) -> str | None:
        position = self.last_unit + timer.LOG_UNIT_SIZE
        if position + timer.LOG_BLANK_SIZE > file.length:
            return "the file is too short for its end mark"
        data = self._read(file, position, timer.LOG_BLANK_SIZE)
        if data[12:] != timer.LOG_BLANK_MAGIC.to_bytes(4, "big"):
            return "the end mark is missing"
        found, left = int.from_bytes(data[:4], "big", signed=True), self.file_size - position
        return None if found == left else f"the end mark counts {found} bytes left instead of {left}"

    def replay_start(self, flushed: int) -> int:
        """Return the offset where a start begins to read: the last file that begins at or before the flushed position less one file."""
        begin = max(0, flushed - self.file_size)
        starts = [file.start for file in self.queue.files]
        return max((start for start in starts if start <= begin), default=starts[0] if starts else 0)

    # After the windows were read

    def end(self, flushed: int) -> int:
        """Return the offset where a start stops reading: what follows is discarded, later files are deleted."""
        first = self.replay_start(flushed)
        end = 0
        for state in self._states:
            if state.file.start < first:
                continue
            if state.stop is not None:
                return state.file.start + state.stop
            end = state.file.start + self.last_unit + timer.LOG_UNIT_SIZE
            if state.blank is not None:
                return end
            end = state.file.start + self.file_size
        return end

    @property
    def has_units(self) -> bool:
        """Whether any file holds a valid unit."""
        return any(state.last_sound >= 0 for state in self._states)

    def damages(self) -> Iterator[BadRun]:
        """Yield places without a valid unit although units follow, in this file or in a later one."""
        units_follow = False
        found: list[BadRun] = []
        for state in reversed(self._states):
            limit = self.last_unit + 1 if units_follow else state.last_sound
            if units_follow and state.blank is not None:
                position = self.last_unit + timer.LOG_UNIT_SIZE
                found.append(BadRun(state.file, position, timer.LOG_BLANK_SIZE, state.blank))
            for run in reversed(state.runs):
                if run.position < limit:
                    found.append(run)
            units_follow = units_follow or state.last_sound >= 0
        yield from reversed(found)

    def units_at(self, offsets: Offsets) -> Units:
        """Return the unit at each offset of the timer log; zeros where no file holds one. `offsets` may come in any order."""
        result = np.zeros(len(offsets), UNIT)
        chunk = _CHUNK_UNITS * timer.LOG_UNIT_SIZE
        for file in self.queue.files:
            inside = np.flatnonzero((offsets >= file.start) & (offsets <= file.end - timer.LOG_UNIT_SIZE))
            positions = offsets[inside] - file.start
            for number in np.unique(positions // chunk):
                start = int(number) * chunk
                buffer = np.frombuffer(self._read(file, start, min(chunk + timer.LOG_UNIT_SIZE, file.length - start)), np.uint8)
                here = positions // chunk == number
                at = positions[here, None] - start + np.arange(timer.LOG_UNIT_SIZE)
                result[inside[here]] = np.ascontiguousarray(buffer[at]).view(UNIT)[:, 0]
        return result

    def aligned(self, offsets: Offsets) -> Mask:
        """Return whether a unit can begin at these offsets."""
        positions = offsets % self.file_size
        return np.asarray((positions % timer.LOG_UNIT_SIZE == 0) & (positions <= self.last_unit))


def _keeps_rules(units: Units) -> Mask:
    """Return which units keep the rules of every writer (fact sheet timer §1.9 L2); foreign fields are compared without overflow."""
    return np.asarray(
        np.isin(units["magic"], _KINDS)
        & (units["reserved"] == 0)
        & (units["prev_pos"] >= -1)
        & (units["write_time"] > 0)
        & (units["write_time"] % _SMALLEST_PRECISION_MS == 0)
        & (np.abs(units["delay"].astype(np.int64)) <= _LARGEST_DELAY_MS)
        & (units["offset_py"] >= 0)
        & (units["size_py"] >= timer.GIVEN_UP)
    )
