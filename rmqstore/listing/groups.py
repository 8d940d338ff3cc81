"""The consumer groups of a store as rows: one for each queue that a group has an offset in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from rmqstore.listing.configured import configuration
from rmqstore.listing.queues import QueueRow, list_queues
from rmqstore.store.root import Store
from rmqstore.verify.parts.config import CONSUMER_OFFSETS, LMQ_OFFSETS, StoredOffset, stored_offsets

_GROUP = "group "


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One group in one queue: its offset, the offsets [min_offset, max_offset) of the queue, and how it continues.

    `lag` are the messages that the queue holds from the offset on; `next` is the queue offset of the next message that the group
    gets, None if the queue holds none. `skipped` are messages before `min_offset` that it never gets, because they are no longer there.
    """

    group: str
    topic: str
    queue_id: int
    offset: int
    min_offset: int | None
    max_offset: int | None
    lag: int | None
    next: int | None
    skipped: int
    note: str | None

    def as_json(self) -> dict[str, Any]:
        """Return the object that JSON output shows (docs/json.md)."""
        return {"type": "group", **asdict(self)}


def list_groups(store: Store, group: str | None = None, topic: str | None = None) -> Iterator[GroupRow]:
    """Yield the offsets of consumer groups, by group, topic and queue id.

    Raises UnreadableError where RocksDB has the offsets or the queues, or where their file is damaged.
    """
    stored = offsets_of_groups(store)
    wanted = [one for one in stored if topic in (None, one.topic) and group in (None, group_of(one))]
    queues = {(queue.topic, queue.queue_id): queue for queue in list_queues(store, topic, times=False)}
    for one in sorted(wanted, key=lambda one: (one.owner, one.topic, one.queue_id)):
        yield _row(one, queues.get((one.topic, one.queue_id)))


def offsets_of_groups(store: Store) -> Iterator[StoredOffset]:
    """Yield the offsets of consumer groups. Raises UnreadableError where RocksDB has them, or where their file is damaged."""
    texts = configuration(store, CONSUMER_OFFSETS, LMQ_OFFSETS)
    return (one for one in stored_offsets(store, texts) if one.owner.startswith(_GROUP))


def group_of(stored: StoredOffset) -> str:
    """Return the group whose offset this is."""
    return stored.owner.removeprefix(_GROUP)


def _row(stored: StoredOffset, queue: QueueRow | None) -> GroupRow:
    place = group_of(stored), stored.topic, stored.queue_id, stored.offset
    if queue is None or queue.min_offset is None or queue.max_offset is None:
        why = "the queue has no files" if queue is None else queue.problem
        return GroupRow(*place, None, None, None, None, 0, why)
    first, end = queue.min_offset, queue.max_offset
    following = max(stored.offset, first)
    note = None
    if stored.offset > end:
        note = f"beyond the end by {stored.offset - end}: messages that arrive before the group connects are skipped"
    elif stored.offset < 0:
        note = "negative"
    skipped = max(0, first - stored.offset) if stored.offset >= 0 else 0
    return GroupRow(*place, first, end, max(0, end - following), following if following < end else None, skipped, note)
