"""A scan that runs ahead in a thread, so that the scan and the reader of its batches share two processors.

Kernels release the interpreter lock. Batches that do not last long enough leave the thread as copies. They contain only those bytes of
the log that belong to their own records, and only if properties will be read from them.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from rmqstore.scan.columns import KEY_DTYPE, READ_PROPERTIES, RECORD_DTYPE
from rmqstore.scan.walk import Batch, Damage, FileEnd

DEPTH = 2
"""Batches that the scan is ahead of its reader at most: more of them would only displace each other from the cache."""
BATCH = 16_384
"""Records of a batch for which the handover between two threads is a small part of the work."""
BUFFERS = DEPTH + 2
"""Buffers of a scanner whose batches need no copies: one that is read, one that is filled, and those between."""


def ahead(events: Iterable[Batch | Damage | FileEnd]) -> Iterator[Batch]:
    """Yield the batches among the events of a scan, in order; each is valid until the next one is requested.

    Exceptions of the scan are raised here.
    """
    spare: queue.SimpleQueue[_Copy | None] = queue.SimpleQueue()
    ready: queue.SimpleQueue[tuple[_Copy, Batch] | BaseException | None] = queue.SimpleQueue()
    for _ in range(DEPTH):
        spare.put(_Copy())

    def scan() -> None:
        outcome: BaseException | None = None
        try:
            for event in events:
                if isinstance(event, Batch):
                    copy = spare.get()
                    if copy is None:
                        return
                    ready.put((copy, copy.of(event)))
        except BaseException as error:
            outcome = error
        ready.put(outcome)

    thread = threading.Thread(target=scan, name="scan", daemon=True)
    thread.start()
    try:
        while isinstance(item := ready.get(), tuple):
            copy, batch = item
            yield batch
            spare.put(copy)
        if item is not None:
            raise item
    finally:
        spare.put(None)
        thread.join()


class _Copy:
    """Memory for what has to be copied of a batch."""

    def __init__(self) -> None:
        self._records = np.empty(0, RECORD_DTYPE)
        self._keys = np.empty(0, KEY_DTYPE)
        self._window = np.empty(0, np.uint8)

    def of(self, batch: Batch) -> Batch:
        """Return the batch as it can leave the thread; the previous one becomes invalid."""
        records, keys = batch.records, batch.keys
        if batch.lasts < BUFFERS - 1:
            self._records, records = _copied(self._records, records)
            self._keys, keys = _copied(self._keys, keys)
        start = int(batch.records["position"][0])
        read = batch.marks & READ_PROPERTIES
        end = int(batch.records["position"][-1]) + int(batch.records["size"][-1]) if read else start
        self._window, window = _copied(self._window, batch.window[start - batch.origin : end - batch.origin])
        return replace(batch, records=records, keys=keys, window=window, origin=start)


def _copied(memory: npt.NDArray[Any], source: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return (memory that is large enough, the copy in it). Rows are copied as bytes; field by field would take many times as long."""
    if len(memory) < len(source):
        memory = np.empty(len(source), source.dtype)
    copy = memory[: len(source)]
    copy.view(np.uint8)[:] = source.view(np.uint8)
    return memory, copy
