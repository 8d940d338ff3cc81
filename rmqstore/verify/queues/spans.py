"""What scans of the log found for each queue: of one file, or of several in a row, whose spans are joined in the order of the log."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from rmqstore.scan.kernels.queue import EVENT_DTYPE, Claim, Order

QueueKey = tuple[str, int]


@dataclass(slots=True)
class QueueSpan:
    """The results for one queue: the QUEUEOFFSETs of its first and last record, and the outcome of every claim as runs (RUN_DTYPE)."""

    first_offset: int = 0
    first_position: int = 0
    next_offset: int = 0
    last_position: int = 0
    records: int = 0
    runs: list[npt.NDArray[np.void]] = field(default_factory=list)

    def extend(self, later: QueueSpan) -> npt.NDArray[np.void] | None:
        """Append the span of the records after these; return the event (EVENT_DTYPE) if their QUEUEOFFSETs do not continue."""
        event = None
        if self.records and later.records and later.first_offset != self.next_offset:
            order = Order.GAP if later.first_offset > self.next_offset else Order.REPEAT
            order = Order.RESTART if later.first_offset == 0 else order
            event = np.array([(0, order, self.next_offset, later.first_offset, later.first_position, self.last_position)], EVENT_DTYPE)[0]
        if later.records:
            if not self.records:
                self.first_offset, self.first_position = later.first_offset, later.first_position
            self.next_offset, self.last_position = later.next_offset, later.last_position
            self.records += later.records
        self.runs += later.runs
        return event

    def compact(self) -> None:
        """Make one run of those that match and continue each other."""
        rows = np.concatenate(self.runs)
        joins = (rows["claim"][:-1] == Claim.MATCH) & (rows["claim"][1:] == Claim.MATCH) & (rows["end"][:-1] == rows["start"][1:])
        begins = np.flatnonzero(np.concatenate([[True], ~joins]))
        kept = rows[begins]
        ends = np.append(begins[1:], rows.size) - 1
        for name in ("end", "last_position"):
            kept[name] = rows[name][ends]
        self.runs = [kept]


@dataclass(slots=True)
class Spans:
    """The spans of all queues, and unexpected QUEUEOFFSETs as (queue, EVENT_DTYPE row); those of one queue are in the order of the log."""

    queues: dict[QueueKey, QueueSpan] = field(default_factory=dict)
    events: list[tuple[QueueKey, npt.NDArray[np.void]]] = field(default_factory=list)

    def extend(self, later: Spans) -> None:
        """Append the spans of what follows in the log, which stay as they are."""
        for key, span in later.queues.items():
            mine = self.queues.get(key)
            if mine is None:
                self.queues[key] = replace(span, runs=list(span.runs))
                continue
            event = mine.extend(span)
            if event is not None:
                self.events.append((key, event))
        self.events += later.events


def joined(spans: Iterable[Spans]) -> Spans:
    """Return the spans of several parts of the log, given in its order, as those of one."""
    found = Spans()
    for one in spans:
        found.extend(one)
    return found
