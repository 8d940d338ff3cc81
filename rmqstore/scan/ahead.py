"""A scan that runs ahead in a thread, so that whoever works on the batches and the scan share two processors.

Kernels release the interpreter lock. A batch that leaves the thread is a copy; of the log's bytes it has those of its own records, and
only where somebody will want to read properties.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace

from rmqstore.scan.columns import Mark
from rmqstore.scan.walk import Batch, Damage, FileEnd

DEPTH = 8
"""Batches between the scan and its reader."""
_READ_PROPERTIES = Mark.MULTI_DISPATCH | Mark.INNER_BATCH | Mark.MALFORMED_TEXT


def ahead(events: Iterable[Batch | Damage | FileEnd]) -> Iterator[Batch]:
    """The batches among the events of a scan, in their order. What the scan raises is raised here."""
    ready: queue.Queue[Batch | BaseException | None] = queue.Queue(DEPTH)
    abandoned = threading.Event()

    def scan() -> None:
        outcome: BaseException | None = None
        try:
            for event in events:
                if isinstance(event, Batch):
                    ready.put(kept(event))
                if abandoned.is_set():
                    return
        except BaseException as error:
            outcome = error
        ready.put(outcome)

    thread = threading.Thread(target=scan, name="scan", daemon=True)
    thread.start()
    try:
        while isinstance(item := ready.get(), Batch):
            yield item
        if item is not None:
            raise item
    finally:
        abandoned.set()
        while thread.is_alive():
            # The scan may wait for room.
            _drain(ready)
            thread.join(0.01)


def kept(batch: Batch) -> Batch:
    """A copy that outlives the scan."""
    records = batch.records.copy()
    start = int(records["position"][0])
    end = int(records["position"][-1]) + int(records["size"][-1]) if batch.marks & _READ_PROPERTIES else start
    window = batch.window[start - batch.origin : end - batch.origin].copy()
    return replace(batch, records=records, keys=batch.keys.copy(), window=window, origin=start)


def _drain(ready: queue.Queue[Batch | BaseException | None]) -> None:
    while not ready.empty():
        ready.get()
