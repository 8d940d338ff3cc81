"""Change of one file of a queue to the bytes it should have: in place where most of it is right, else by a new file in its place.

A file keeps its length, its holes and its old bytes as far as they are right, so that a plan shows what is wrong and not what is there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rmqstore.repair.plan.builder import PlanBuilder
from rmqstore.repair.plan.staging import StagedFile
from rmqstore.store.mapped import MappedFile
from rmqstore.store.window import data_extents, map_window

Bytes = npt.NDArray[np.uint8]

# A plan with more separate writes than this into one file is too long to read.
_MOST_RUNS = 256


@dataclass(frozen=True, slots=True)
class Wanted:
    """A file as it should be: its path, its bytes, and the staged file that holds just these, if there is one.

    `data` are the first bytes of the `length` bytes of the file, whole units; zeros follow.
    """

    path: Path
    data: Bytes
    length: int
    staged: StagedFile | None = None


class FileFitter:
    """The changes of the files of one queue in a plan: every action has `reason` and `code`."""

    def __init__(self, builder: PlanBuilder, unit_size: int, reason: str, code: str | None) -> None:
        self._builder = builder
        self._unit_size = unit_size
        self._reason = reason
        self._code = code

    def fit(self, wanted: Wanted, found: MappedFile | None) -> bool:
        """Make the file `found` (None: there is nothing at the path) the wanted one; return whether that takes anything."""
        if found is None:
            self._builder.create(wanted.path, self._staged(wanted), reason=self._reason, code=self._code)
            return True
        if found.length != wanted.length:
            self._builder.replace(wanted.path, self._staged(wanted), reason=self._reason, code=self._code)
            return True
        # Most of a queue file is a hole: nothing is compared where both are zeros.
        filled = max((stop for _, stop in data_extents(found)), default=0)
        compared = min(max(-(-filled // self._unit_size) * self._unit_size, wanted.data.size), wanted.length)
        with map_window(found, 0, compared) as window:
            return self._change(replace(wanted, data=np.pad(wanted.data, (0, compared - wanted.data.size))), window.array)

    def take_away(self, path: Path, why: str) -> None:
        """Quarantine a file that does not belong to the queue."""
        self._builder.quarantine(path, reason=f"{self._reason}: {why}", code=self._code)

    def _change(self, wanted: Wanted, found: Bytes) -> bool:
        differing = _units(found != wanted.data, self._unit_size)
        if not differing.any():
            return False
        right = np.count_nonzero(~differing & _units(wanted.data != 0, self._unit_size))
        wrong = np.count_nonzero(differing & _units(found != 0, self._unit_size))
        edges = np.flatnonzero(np.diff(differing, prepend=False, append=False)).tolist()
        runs = list(zip(edges[::2], edges[1::2], strict=True))
        if wrong > right or len(runs) > _MOST_RUNS:
            self._builder.replace(wanted.path, self._staged(wanted), reason=self._reason, code=self._code)
            return True
        for begin, end in runs:
            self._change_run(wanted, begin * self._unit_size, min(end * self._unit_size, found.size))
        return True

    def _change_run(self, wanted: Wanted, begin: int, end: int) -> None:
        """Write bytes [begin, end) up to the last one that is not zero, and zero those after it."""
        filled = np.flatnonzero(wanted.data[begin:end])
        middle = begin
        if filled.size:
            middle = begin + (int(filled[-1]) // self._unit_size + 1) * self._unit_size
            data = wanted.data[begin:middle].tobytes()
            self._builder.write(wanted.path, begin, data, reason=self._reason, code=self._code)
        if middle < end:
            self._builder.zero(wanted.path, middle, end - middle, reason=self._reason, code=self._code)

    def _staged(self, wanted: Wanted) -> StagedFile:
        return wanted.staged or self._builder.staging.add(wanted.data.tobytes(), wanted.length)


def _units(marked: npt.NDArray[np.bool_], unit_size: int) -> npt.NDArray[np.bool_]:
    """Return which units have a marked byte; bytes after the last whole unit count as one."""
    whole = marked.size // unit_size * unit_size
    units: npt.NDArray[np.bool_] = np.logical_or.reduce(marked[:whole].reshape(-1, unit_size), axis=1)
    return units if whole == marked.size else np.append(units, marked[whole:].any())
