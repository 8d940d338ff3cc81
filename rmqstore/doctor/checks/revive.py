"""Pop messages that are delivered again, because the revive offset is before check points that were already done.

Fact sheet timer and config §5: a check point lists messages that a group popped, acknowledgements follow it, and what is not acknowledged
goes to the retry topic of the group. The stored offset of a revive queue is that of the last check point that was done; reading continues
after it. With an offset that is lower, check points are done once more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from rmqstore.doctor.areas import Area, Effect, Harm, State, short_queue
from rmqstore.doctor.checks.queueunits import unit_reader
from rmqstore.errors import RmqstoreError
from rmqstore.prediction.outcome import QueueState
from rmqstore.reading.popcheckpoints import REVIVE_TOPIC, Acknowledgement, CheckPoint, Key, parsed
from rmqstore.verify.context import Context
from rmqstore.verify.parts.config import StoredOffset
from rmqstore.wording import counted

GROUP = "group CID_RMQ_SYS_REVIVE_GROUP"
_DONE_MS = 20_000
"""A check point is done about 3 s after its messages become visible again, and the offset is written every 5 s."""
_LATE_MS = 150_000
"""A broker whose revive threads have much to do may be so late; without an offset it has never begun."""
_MOST = 4096
"""Messages of one revive queue that are read."""


class _CheckPoint(NamedTuple):
    position: int
    due: int
    offsets: frozenset[int]


def is_revive_offset(stored: StoredOffset) -> bool:
    """Return whether an offset is that of a revive queue."""
    return stored.owner == GROUP and stored.topic.startswith(REVIVE_TOPIC)


def delivered_again(context: Context, stored: StoredOffset, state: QueueState) -> int:
    """Return how many messages of check points that were done will be sent to retry topics once more. Raises nothing."""
    slack = _DONE_MS if stored.offset <= 0 else _LATE_MS
    first = max(stored.offset + 1, state.min_offset, 0)
    end = min(state.max_offset, first + _MOST)
    try:
        points, acknowledged = _read(context, stored, first, end)
    except RmqstoreError:
        return 0
    if end < state.max_offset:  # acknowledgements of the last ones may not have been read
        points = {key: point for key, point in points.items() if point.position < first + _MOST // 2}
    done = [key for key, point in points.items() if point.due + slack <= context.log.last_timestamp]
    return sum(len(points[key].offsets - acknowledged.get(key, frozenset())) for key in done)


def effect(found: list[tuple[StoredOffset, int]]) -> Iterator[Effect]:
    """Yield the effect of offsets with the number of messages that each of them brings again."""
    if found:
        stored, _ = max(found, key=lambda one: one[1])
        count = sum(number for _, number in found)
        where = short_queue(stored.topic, stored.queue_id)
        verb = "is" if count == 1 else "are"
        text = f"{counted(count, 'pop message')} {verb} delivered again: the revive offset of {where} went back to {stored.offset}"
        yield Effect(Area.PROGRESS, State.LOSES, text, Harm.REPEATED, count)


def _read(context: Context, stored: StoredOffset, first: int, end: int) -> tuple[Mapping[Key, _CheckPoint], Mapping[Key, frozenset[int]]]:
    points: dict[Key, _CheckPoint] = {}
    acknowledged: dict[Key, frozenset[int]] = {}
    unit_at = unit_reader(context.store, stored.topic, stored.queue_id)
    for position in range(first, end):
        unit = unit_at(position)
        record = None if unit is None else context.record_at(unit.physical_offset)
        match None if record is None else parsed(record.body):
            case CheckPoint(key, due, offsets):
                points[key] = _CheckPoint(position, due, offsets)
            case Acknowledgement(key, offsets):
                acknowledged[key] = acknowledged.get(key, frozenset()) | offsets
    return points, acknowledged
