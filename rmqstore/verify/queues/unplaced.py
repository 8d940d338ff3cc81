"""Records that their queue has no place for: those before and after them in the log have consecutive QUEUEOFFSETs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple, Protocol

from rmqstore.findings import Finding
from rmqstore.verify.context import Context
from rmqstore.verify.queues.courses import queue_offset_finding
from rmqstore.verify.queues.spans import QueueKey


class Break(Protocol):
    """A record whose QUEUEOFFSET, `found`, does not continue that of the record of its queue before, which asks for `expected`."""

    @property
    def key(self) -> QueueKey: ...
    @property
    def expected(self) -> int: ...
    @property
    def found(self) -> int: ...
    @property
    def position(self) -> int: ...


class Unplaced(NamedTuple):
    """A record without a place: its queue, QUEUEOFFSET and physical offset, and the QUEUEOFFSET of the record after it.

    `after`: the physical offset of that record.
    """

    key: QueueKey
    queue_offset: int
    position: int
    following: int
    after: int


def unplaced(breaks: Iterable[Break]) -> list[Unplaced]:
    """Return the single records after which their queue continues as if they were not there.

    A record with QUEUEOFFSET 0 is none: a broker that lost the queue wrote it.
    """
    by_queue: dict[QueueKey, list[Break]] = defaultdict(list)
    for one in sorted(breaks, key=lambda one: one.position):
        by_queue[one.key].append(one)
    return [
        Unplaced(key, here.found, here.position, there.found, there.position)
        for key, of_queue in by_queue.items()
        for here, there in pairwise(of_queue)
        if here.found and there.expected == here.found + 1 and there.found == here.expected
    ]


def unplaced_finding(context: Context, one: Unplaced) -> Finding:
    """Return the finding about a record without a place."""
    text = f"no place in the queue: the QUEUEOFFSETs of the records before and after are {one.following - 1} and {one.following}"
    code, found = "RMQ-CL-QOFFSET-FOREIGN", one.queue_offset
    return queue_offset_finding(context, code, text, one.key, one.position, expected=one.following, found=found)
