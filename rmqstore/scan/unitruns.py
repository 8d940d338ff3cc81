"""Groups of consume queue units, determined without reading a record: never written, filler, before, in or after the log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from rmqstore.formats import consumequeue as declared
from rmqstore.formats.layout import fixed_layout

UNIT_ROWS = np.dtype([(name, f">i{place.width}") for name, place in fixed_layout(declared.UNIT).items()])
_PRE_BLANK = np.frombuffer(declared.PRE_BLANK, UNIT_ROWS)[0]


class UnitKind(IntEnum):
    """The kind of a unit without a claiming record."""

    ZERO = 0
    PRE_BLANK = 1
    EXPIRED = 2  # points before the first commit log file
    BEYOND = 3  # points at or after the end of the log
    POINTS = 4  # points into the log
    INVALID = 5  # negative offset, or size below 1


@dataclass(frozen=True, slots=True)
class UnitRun:
    """Consecutive units of one kind: queue offsets [start, end), and the physical offset in the first unit."""

    kind: UnitKind
    start: int
    end: int
    position: int


def unit_runs(units: npt.NDArray[np.void], first: int, log_start: int, log_end: int) -> Iterator[UnitRun]:
    """Yield the runs of these units (UNIT_ROWS), the first of which has queue offset `first`; the log is [log_start, log_end)."""
    kinds = _kinds(units, log_start, log_end)
    begins = np.flatnonzero(np.diff(kinds, prepend=-1))
    ends = np.append(begins[1:], len(units))[: begins.size]
    columns = (kinds[begins], begins, ends, units["physical_offset"][begins])
    for kind, begin, end, position in zip(*(column.tolist() for column in columns), strict=True):
        yield UnitRun(UnitKind(kind), first + begin, first + end, position)


def _kinds(units: npt.NDArray[np.void], log_start: int, log_end: int) -> npt.NDArray[np.int8]:
    position = units["physical_offset"].astype(np.int64)
    size = units["size"].astype(np.int32)
    kinds = np.full(len(units), UnitKind.POINTS, np.int8)
    kinds[position >= log_end] = UnitKind.BEYOND
    kinds[position < log_start] = UnitKind.EXPIRED
    kinds[(position < 0) | (size <= 0)] = UnitKind.INVALID
    at_zero = np.flatnonzero(position == 0)
    plain = at_zero[units["tags_code"][at_zero] == 0]
    kinds[plain[size[plain] == 0]] = UnitKind.ZERO
    kinds[plain[size[plain] == _PRE_BLANK["size"]]] = UnitKind.PRE_BLANK
    return kinds
