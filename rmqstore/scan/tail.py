"""The last records of a file with too many records to step over each: the walk of `rmqstore.store.ends`, compiled."""

from __future__ import annotations

from collections import deque

from rmqstore.store.mapped import MappedFile


def tail_records(file: MappedFile, position: int, entry_header: int, count: int) -> deque[tuple[int, int]]:
    """Return (physical offset, size) of the last `count` records that follow each other from `position`, the first one included.

    `entry_header` bytes are before each record. Compiled code is loaded on the first call. Raises UnreadableError, StoreChangedError.
    """
    import numpy as np

    from rmqstore.scan.columns import Fault
    from rmqstore.scan.walk import Batch, LogScanner

    last: deque[tuple[int, int]] = deque(maxlen=count)
    for event in LogScanner(lead=entry_header).scan(file, start=file.start + position):
        if not isinstance(event, Batch):
            break
        records = event.records
        if event.faults & Fault.PHYSICAL_OFFSET:
            records = records[: int(np.argmax(records["position"] != records["physical_offset"]))]
        last.extend(zip(records["position"][-count:].tolist(), records["size"][-count:].tolist(), strict=True))
        if len(records) < len(event.records):
            break
    return last
