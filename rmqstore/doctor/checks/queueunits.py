"""Single entries of a consume queue by queue offset."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rmqstore.formats import consumequeue
from rmqstore.store.mapped import MappedFileQueue
from rmqstore.store.parts import PartKind
from rmqstore.store.root import Store
from rmqstore.store.window import read_at


def unit_reader(store: Store, topic: str, queue_id: int) -> Callable[[int], Any]:
    """Return what gives the entry at a queue offset, None where none is on disk. Both raise UnreadableError."""
    directory = store.path_of(PartKind.CONSUMEQUEUE) / topic / str(queue_id)
    files = MappedFileQueue.scan(directory, configured_size=store.config.consume_queue_file_size)

    def unit_at(offset: int) -> Any:
        position = offset * consumequeue.UNIT_SIZE
        file = files.find(position)
        if file is None or position + consumequeue.UNIT_SIZE > file.end:
            return None
        return consumequeue.UNIT.parse(read_at(file, position - file.start, consumequeue.UNIT_SIZE))

    return unit_at
