"""Messages by key, through the files of `index/`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rmqstore.formats.record import Record
    from rmqstore.store.root import Store


class Index:
    """The index files of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def lookup(self, topic: str, key: str) -> Iterator[Record]:
        """Yield the messages of a topic with a key, one of KEYS or the unique key, the newest first, as a broker finds them.

        Entries that point to no record of the log are left out; `Store.verify` reports them. Messages that the index lacks are found
        by `Log.records` only. Raises UnreadableError, StoreChangedError.
        """
        from rmqstore.reading.indexchains import offsets_of_key
        from rmqstore.reading.records import record_at

        for offset in dict.fromkeys(offsets_of_key(self._store, topic, key)):
            record = record_at(self._store.message_log, offset)
            if record is not None and record.topic == topic and key in (record.unique_key, *(record.keys or "").split(" ")):
                yield record
