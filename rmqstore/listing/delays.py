"""The delay levels of a store as rows: up to where each was delivered, and what waits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rmqstore.formats.naming import SCHEDULE_TOPIC
from rmqstore.listing.configured import configuration
from rmqstore.listing.queues import list_queues
from rmqstore.store.root import Store
from rmqstore.verify.parts.config import DELAY_OFFSETS, offsets_of


@dataclass(frozen=True, slots=True)
class DelayRow:
    """One delay level and its queue [min_offset, max_offset) of the schedule topic.

    `offset` is the queue offset of the next message to deliver, None without an entry: a broker then begins with the first one. `waiting`
    are the messages from there on, `delay` the milliseconds of the level, None for a level that the settings do not have.
    """

    level: int
    delay: int | None
    queue_id: int
    offset: int | None
    min_offset: int | None
    max_offset: int | None
    waiting: int | None


def list_delays(store: Store) -> Iterator[DelayRow]:
    """Yield the delay levels that have an offset or a queue.

    Raises UnreadableError where RocksDB has the queues and they cannot be read, or where delayOffset.json is damaged.
    """
    delays = store.config.known_delay_levels
    offsets = {stored.queue_id: stored.offset for stored in offsets_of(configuration(store, DELAY_OFFSETS)[DELAY_OFFSETS])}
    queues = {queue.queue_id: queue for queue in list_queues(store, SCHEDULE_TOPIC, times=False)}
    for queue_id in sorted({*offsets, *queues}):
        level, offset, queue = queue_id + 1, offsets.get(queue_id), queues.get(queue_id)
        delay = delays[queue_id] if queue_id < len(delays) else None
        if queue is None or queue.min_offset is None or queue.max_offset is None:
            yield DelayRow(level, delay, queue_id, offset, None, None, None)
        else:
            waiting = max(0, queue.max_offset - max(offset or 0, queue.min_offset))
            yield DelayRow(level, delay, queue_id, offset, queue.min_offset, queue.max_offset, waiting)
