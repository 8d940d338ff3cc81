"""Contents of the files of a batch consume queue: the units of expired messages that are there, then the rebuilt ones.

A unit is found by the queue offset in it, so its place means nothing, and a lost message needs none (fact sheet queues §4).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from rmqstore.repair.derived.queue_files import Bytes
from rmqstore.store.mapped import MappedFile
from rmqstore.verify.queues.batchqueue import UNIT_DTYPE, load_units, written_units


def batch_files(
    found: Sequence[MappedFile], made: Sequence[npt.NDArray[np.uint8]], log_start: int, file_size: int
) -> Iterator[tuple[int, Bytes]]:
    """Yield (number, bytes) of every file the queue should have; `made`: the rebuilt files. Raises UnreadableError, StoreChangedError."""
    capacity = file_size // UNIT_DTYPE.itemsize
    # As bytes: rows that are joined would change their byte order.
    stream = np.concatenate([units.view(np.uint8) for units in (_expired(found, log_start), *map(_units, made))])
    first = found[0].start // file_size if found else 0
    for number, start in enumerate(range(0, stream.size, capacity * UNIT_DTYPE.itemsize), first):
        part = stream[start : start + capacity * UNIT_DTYPE.itemsize]
        data = np.zeros(file_size, np.uint8)
        data[: part.size] = part
        yield number, data


def _expired(found: Sequence[MappedFile], log_start: int) -> npt.NDArray[np.void]:
    """Return the units at the beginning that point before the log."""
    rows = load_units(found).rows.astype(UNIT_DTYPE)
    expired = (rows["physical_offset"] >= 0) & (rows["physical_offset"] < log_start) & (rows["size"] > 0)
    return rows[: len(rows) if expired.all() else int(np.argmin(expired))]


def _units(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.void]:
    return written_units(data[: data.size // UNIT_DTYPE.itemsize * UNIT_DTYPE.itemsize].view(UNIT_DTYPE))
