"""Records of batch queues that carry another queue offset than the units that point at them.

Consume queues are compared with the log by compiled code; batch queues are few and short, and are read whole.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from rmqstore.store.root import QueueDirectory
from rmqstore.verify.queues.batchqueue import Units, load_units
from rmqstore.verify.queues.spans import QueueKey

_ALONE = 2  # up to so many records in a row are examined one by one; where more are wrong, the queue is


class BatchClaims:
    """The batch queues of a store; each is read when it is first asked for."""

    def __init__(self, queues: Mapping[QueueKey, QueueDirectory]) -> None:
        self._queues = queues
        self._units: dict[QueueKey, Units] = {}

    @property
    def queues(self) -> frozenset[QueueKey]:
        """Topic and queue id of each."""
        return frozenset(self._queues)

    def misplaced(self, key: QueueKey, records: npt.NDArray[np.void]) -> npt.NDArray[np.bool_]:
        """Return which records of one queue, in log order, are one or two in a row whose units have another queue offset.

        Raises UnreadableError, StoreChangedError.
        """
        units = self._of(key)
        if not units.offsets.size:
            return np.zeros(len(records), np.bool_)
        at = np.minimum(np.searchsorted(units.offsets, records["position"]), units.offsets.size - 1)
        bases = units.rows["msg_base_offset"][units.order[at]].astype(np.int64)
        wrong = (units.offsets[at] == records["position"]) & (bases != records["queue_offset"])
        return np.asarray(wrong & ~_in_runs_of(_ALONE + 1, wrong))

    def _of(self, key: QueueKey) -> Units:
        if key not in self._units:
            self._units[key] = load_units(self._queues[key].files.files)
        return self._units[key]


def _in_runs_of(length: int, marked: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return which marks are in a row of at least `length` marks."""
    found = np.zeros_like(marked)
    if len(marked) >= length:
        windows = len(marked) - length + 1
        begins = np.all([marked[shift : shift + windows] for shift in range(length)], axis=0)
        for shift in range(length):
            found[shift : shift + windows] |= begins
    return found
