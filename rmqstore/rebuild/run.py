"""One pass over the log for several builders, with the scan in a separate thread that runs ahead of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from rmqstore.scan.ahead import ahead
from rmqstore.scan.walk import Batch, Damage, FileEnd


class Builder(Protocol):
    """A consumer of the records of the log in order."""

    def put(self, batch: Batch) -> None:
        """Process the next records."""


def rebuild(events: Iterable[Batch | Damage | FileEnd], *builders: Builder) -> int | None:
    """Put all batches among `events` into the builders; return STORETIMESTAMP (ms) of the last record, None without records.

    The events are those of `LogScanner.scan`, of all log files in the order of their offsets.
    """
    last = None
    for batch in ahead(events):
        last = int(batch.records["store_timestamp"][-1])
        for builder in builders:
            builder.put(batch)
    return last
