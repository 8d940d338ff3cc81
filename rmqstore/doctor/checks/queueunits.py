"""Single entries of a consume queue by queue offset, and when their messages were stored."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rmqstore.errors import RmqstoreError
from rmqstore.reading.entries import Unit, unit_at
from rmqstore.store.mapped import MappedFileQueue
from rmqstore.store.parts import PartKind
from rmqstore.store.root import Store
from rmqstore.verify.context import Context


def unit_reader(store: Store, topic: str, queue_id: int) -> Callable[[int], Unit | None]:
    """Return a function that gives the entry at a queue offset, None where none is on disk. Both raise UnreadableError."""
    directory = store.path_of(PartKind.CONSUMEQUEUE) / topic / str(queue_id)
    return partial(unit_at, MappedFileQueue.scan(directory, configured_size=store.config.consume_queue_file_size))


def stored_at(context: Context, topic: str, queue_id: int, offset: int) -> int | None:
    """Return when the message at a queue offset was stored (ms since epoch), None where that cannot be read."""
    try:
        unit = unit_reader(context.store, topic, queue_id)(offset)
        record = None if unit is None else context.record_at(unit.physical_offset)
    except RmqstoreError:
        return None
    return None if record is None else record.store_timestamp
