"""Contents of the files of a consume queue: the rebuilt units, and units that are valid although no record of the log gives them.

Those are units of messages that expired with old log files, and units of messages that are lost: their places have to be taken by a
neighbour, because a consumer that meets anything else stalls or skips messages (fact sheet hole experiments). Places are queue offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rmqstore.formats.consumequeue import PRE_BLANK
from rmqstore.rebuild.settings import Mode
from rmqstore.repair.log.future import FutureLog
from rmqstore.scan.ranges import in_ranges
from rmqstore.scan.unitruns import UNIT_ROWS

Units = npt.NDArray[np.void]
Read = Callable[[int], Units | None]
"""A function that returns the units (UNIT_ROWS) of the file with a number, counted from queue offset 0, without the zeros after the
last unit that is written; None where there is no file."""

_PRE_BLANK = np.frombuffer(PRE_BLANK, UNIT_ROWS)[0]


@dataclass(frozen=True, slots=True)
class Sources:
    """Sources of units: the queue as it is, and as it was rebuilt, `made_until` (exclusive). `capacity` = units in a file."""

    found: Read
    found_numbers: tuple[int, ...]
    made: Read
    made_numbers: tuple[int, ...]
    made_until: int
    capacity: int


class QueueTarget:
    """The files of one queue. `placeholders`: units for queue offsets whose message a placeholder represents."""

    def __init__(self, sources: Sources, log: FutureLog, mode: Mode, placeholders: Mapping[int, bytes]) -> None:
        self._sources = sources
        self._log = log
        self._fills_lost = mode is Mode.USEFUL
        self._placeholders = placeholders
        self._damages = np.array(log.damages, np.int64).reshape(-1, 2)
        self._last: Units | None = None  # the last unit of the queue so far
        self._start, self._first, self._next = self._bounds()
        self._end = sources.made_until if sources.made_numbers else self._start

    @property
    def end(self) -> int:
        """The queue offset after the last unit, when all files were asked for."""
        return self._end

    def files(self) -> Iterator[tuple[int, Units]]:
        """Yield (number, units) of every file that the queue should have, ascending; zeros follow the units.

        Raises UnreadableError, StoreChangedError.
        """
        capacity = self._sources.capacity
        if self._first is None:
            return
        number = self._first
        while number * capacity < self._end or (number * capacity == self._end and self._goes_on_lost(number)):
            yield number, self._file(number)
            number += 1

    def _bounds(self) -> tuple[int, int | None, Units | None]:
        """Return (place of the first unit that was rebuilt, number of the first file, that first unit).

        Where nothing was rebuilt the first place is the one after the last unit that stays.
        """
        sources = self._sources
        kept = self._kept_before(min(sources.made_numbers, default=1 << 62))
        if sources.made_numbers:
            first = min(sources.made_numbers)
            made = sources.made(first)
            assert made is not None
            inside = int(np.argmax(~_is_pre_blank(made)))
            while first - 1 in kept:
                first -= 1
            return min(sources.made_numbers) * sources.capacity + inside, first, made[inside : inside + 1].copy()
        if not kept:
            return 0, None, None
        first = last = max(kept)
        while first - 1 in kept:
            first -= 1
        return last * sources.capacity + kept[last], first, None

    def _kept_before(self, limit: int) -> dict[int, int]:
        """Return, for the files before number `limit` with a unit that stays, how many units there are up to the last such one."""
        kept: dict[int, int] = {}
        expired_seen = False
        for number in sorted(self._sources.found_numbers):
            found = self._sources.found(number) if number < limit else None
            if found is None:
                continue
            expired = self._is_expired(found)
            expired_seen = expired_seen or bool(expired.any())
            stays = np.flatnonzero(expired | (self._is_lost(found) if expired_seen or limit < 1 << 62 else False))
            if stays.size:
                kept[number] = int(stays[-1]) + 1
        return kept

    def _file(self, number: int) -> Units:
        """Return the units of one file; files are asked for in ascending order."""
        sources = self._sources
        first = number * sources.capacity
        until = min(max(self._end - first, 0), sources.capacity)
        units, found = padded(sources.made(number), until), sources.found(number)
        before = min(max(self._start - first, 0), sources.capacity)
        if before:
            units[:before] = self._before(padded(found, before))
        if until:
            self._last = units[until - 1 : until].copy()
        if found is not None and until < len(found) and first + until == self._end:
            lost = self._lost_run(found[until:])
            units = padded(units, until + lost)
            units[until:] = self._last if self._last is not None else 0
            self._end += lost
        for place, unit in self._placeholders.items():
            if first <= place < min(self._end, first + sources.capacity):
                units[place - first] = np.frombuffer(unit, UNIT_ROWS)[0]
        return units

    def _before(self, found: Units) -> Units:
        """Return units before those that were rebuilt: expired ones stay, lost ones and holes repeat a neighbour, the rest is pre-blank."""
        units = np.full(len(found), _PRE_BLANK, UNIT_ROWS)
        expired, lost = self._is_expired(found), self._is_lost(found)
        units[expired] = found[expired]
        settled = expired
        if self._next is not None:
            units[lost] = self._next
            settled = expired | lost
        latest = np.maximum.accumulate(np.where(settled, np.arange(len(found)), -1))
        holes = ~settled & (latest >= 0)
        units[holes] = units[latest[holes]]
        if self._last is not None:
            units[latest < 0] = self._last
        if settled.any() or self._last is not None:
            self._last = units[-1:].copy()
        return units

    def _goes_on_lost(self, number: int) -> bool:
        found = self._sources.found(number)
        return found is not None and self._last is not None and self._lost_run(found) > 0

    def _lost_run(self, found: Units) -> int:
        """Return how many units from the first one on belong to lost messages."""
        lost = self._is_lost(found)
        return len(lost) if lost.all() else int(np.argmin(lost))

    def _is_expired(self, units: Units) -> npt.NDArray[np.bool_]:
        offsets = units["physical_offset"].astype(np.int64)
        expired: npt.NDArray[np.bool_] = (
            (offsets >= 0) & (offsets < self._log.min_offset) & (units["size"].astype(np.int32) > 0) & ~_is_pre_blank(units)
        )
        return expired

    def _is_lost(self, units: Units) -> npt.NDArray[np.bool_]:
        if not self._fills_lost or not len(self._damages):
            return np.zeros(len(units), np.bool_)
        offsets = units["physical_offset"].astype(np.int64)
        return in_ranges(offsets, self._damages) & (units["size"].astype(np.int32) > 0) & ~_is_pre_blank(units)


def padded(units: Units | None, count: int) -> Units:
    """Return the first `count` units, zeros where there are fewer."""
    copy = np.zeros(count, UNIT_ROWS)
    if units is not None:
        copy[: len(units)] = units[:count]
    return copy


def _is_pre_blank(units: Units) -> npt.NDArray[np.bool_]:
    blank: npt.NDArray[np.bool_] = units == _PRE_BLANK
    return blank
