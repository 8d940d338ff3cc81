"""Queue units as numpy columns, with the types of their declarations."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from construct import Struct

from rmqstore.formats import batchconsumequeue, consumequeue
from rmqstore.formats.layout import core, fixed_layout
from rmqstore.prediction.log.mappedfiles import SimulatedFile

_FIRST_READ, _LARGEST_READ = 1 << 6, 1 << 14
"""Units of the first read of a file, which is all of most queues, and of one read at most."""

UnitArray = npt.NDArray[np.void]


def unit_dtype(struct: Struct) -> np.dtype[np.void]:
    """Return the structured dtype, big-endian and packed, of a structure of integers."""
    fields = fixed_layout(struct)
    members = {member.name: member for member in struct.subcons}
    return np.dtype([(name, f">{'i' if core(members[name]).fmtstr[-1].islower() else 'u'}{field.width}") for name, field in fields.items()])


UNIT = unit_dtype(consumequeue.UNIT)
BATCH_UNIT = unit_dtype(batchconsumequeue.UNIT)


def valid(units: UnitArray) -> npt.NDArray[np.bool_]:
    """Return which units recovery accepts as entries (fact sheet queues §2.2, §4.1)."""
    found = (units["physical_offset"] >= 0) & (units["size"] > 0)
    if units.dtype == BATCH_UNIT:
        found &= (units["msg_base_offset"] >= 0) & (units["batch_size"] > 0)
    return found


def unit_runs(file: SimulatedFile, dtype: np.dtype[np.void], end: int) -> Iterator[tuple[int, UnitArray]]:
    """Yield (number of the first unit, units) of a file, piece by piece, up to byte `end`."""
    size = dtype.itemsize
    first, wanted = 0, _FIRST_READ
    while first < end // size:
        count = min(wanted, end // size - first)
        yield first, np.frombuffer(file.read(first * size, count * size), dtype)
        first, wanted = first + count, min(wanted * 16, _LARGEST_READ)


def keep_units_before(file: SimulatedFile, dtype: np.dtype[np.void], phy_offset: int) -> np.void | None:
    """Cut a queue file after its first units that are valid and belong to messages before `phy_offset` (fact sheet queues §2.9).

    The very first unit is taken without being tested. Returns the last unit that is left, None for a file without any.
    """
    last = None
    for first, units in unit_runs(file, dtype, file.length):
        good = valid(units) & (units["physical_offset"] < phy_offset)
        if first == 0:
            good[0] = True
        count = len(units) if good.all() else int(good.argmin())
        if count:
            file.wrote = (first + count) * dtype.itemsize
            last = units[count - 1]
        if count < len(units):
            break
    return last
