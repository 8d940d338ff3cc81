"""Deliveries of scheduled messages: the offset where a delay level continues whose stored one says nothing.

A broker that finds an offset beyond the end of its queue sets it to the end, and never delivers what is pending; with 0, or without the
file, it delivers everything again (observed on 4.9.7, 5.3.3 and 5.5.1, fact sheet timer-and-config observed §2). Between them is the first
message that was not delivered. The log shows it: each delivery is a record of its own, with body, born time and number of retries of the
scheduled one, stored when it was due or later, and a level delivers its messages in order. Messages whose delivery the log does not show
are delivered again, never left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rmqstore.formats.naming import SCHEDULE_TOPIC
from rmqstore.repair.derived.rebuild import records_of
from rmqstore.repair.log.future import FutureLog
from rmqstore.scan.columns import Mark
from rmqstore.store.root import Store

_SAME = ("born_timestamp", "body_crc", "body_length", "reconsume_times")
"""Columns that a delivered record has in common with the scheduled one."""
_EARLY_MS = 1000
"""A level looks ahead of the clock by less."""

_Key = tuple[Any, ...]


class _Scheduled(NamedTuple):
    """A scheduled message: when it is to be delivered (ms since epoch), and its place in the log and the queues."""

    due: int
    position: int
    queue_id: int
    queue_offset: int


@dataclass(slots=True)
class Levels:
    """The delay levels by queue id: the `first` queue offset in the log, and the last one of which a delivery is there."""

    first: dict[int, int] = field(default_factory=dict)
    delivered: dict[int, int] = field(default_factory=dict)

    def goes_on(self, queue_id: int, end: int) -> int:
        """Return the queue offset of the first message that was not delivered, `end` where all were or the log has none."""
        if queue_id in self.delivered:
            return min(self.delivered[queue_id] + 1, end)
        return min(self.first.get(queue_id, end), end)

    def was_reset(self, queue_id: int) -> bool:
        """Return whether offset 0 is not where the level continues: it has delivered messages, perhaps after the last write of offsets."""
        return queue_id in self.delivered

    def any_delivered(self, ends: Mapping[int, int]) -> bool:
        """Return whether messages were delivered that are still in one of these queues."""
        return any(end > 0 and queue_id in self.delivered for queue_id, end in ends.items())


def levels_of(store: Store, log: FutureLog) -> Levels:
    """Return what was delivered of the schedule topic in the future `log`, which is read. Raises UnreadableError, StoreChangedError."""
    levels, pending = Levels(), _Pending()
    found = records_of(store, log, keys=False)
    for batch in found:
        records = batch.records
        marked = (records["marks"] & int(Mark.SCHEDULED)) != 0
        for row in records[marked]:
            topic, queue_id = found.scanner.queue(int(row["queue"]))
            if topic == SCHEDULE_TOPIC:
                levels.first.setdefault(queue_id, int(row["queue_offset"]))
                pending.add(row, queue_id)
        for row in records[~marked & pending.may_hold(records["born_timestamp"])]:
            one = pending.take(row)
            if one is not None:
                levels.delivered[one.queue_id] = max(levels.delivered.get(one.queue_id, -1), one.queue_offset)
    return levels


class _Pending:
    """Scheduled messages of which no delivery was seen yet; of equal ones the first is that which is due first."""

    def __init__(self) -> None:
        self._messages: dict[_Key, list[_Scheduled]] = {}
        self._born: set[int] = set()

    def add(self, row: Any, queue_id: int) -> None:
        one = _Scheduled(int(row["tags_code"]), int(row["position"]), queue_id, int(row["queue_offset"]))
        heappush(self._messages.setdefault(_key(row), []), one)
        self._born.add(int(row["born_timestamp"]))

    def may_hold(self, born: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which of these born times scheduled messages have."""
        if not self._born:
            return np.zeros(len(born), np.bool_)
        return np.fromiter((time in self._born for time in born.tolist()), np.bool_, len(born))

    def take(self, row: Any) -> _Scheduled | None:
        """Return the message that this record delivers, which is not pending any more; None where there is none."""
        key = _key(row)
        equal = self._messages.get(key)
        if not equal or equal[0].position >= row["position"] or equal[0].due > row["store_timestamp"] + _EARLY_MS:
            return None
        one = heappop(equal)
        if not equal:
            del self._messages[key]
        return one


def _key(row: Any) -> _Key:
    return tuple(int(row[name]) for name in _SAME)
