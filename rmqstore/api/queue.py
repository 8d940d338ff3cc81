"""Consume queues: their entries, and the messages that these point to."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from rmqstore.errors import UnreadableError
from rmqstore.reading.entries import QueueEntry, batch_units, units
from rmqstore.store.ends import QueueEnds, batch_queue_ends, queue_ends

if TYPE_CHECKING:
    from rmqstore.api.log import Log
    from rmqstore.formats.record import Record
    from rmqstore.store.queues import QueueDirectory


class Queue:
    """The consume queue of one topic and queue id, of files with entries for single messages or for batches."""

    def __init__(self, log: Log, directory: QueueDirectory, *, batch: bool) -> None:
        self._log = log
        self._directory = directory
        self.batch = batch

    @property
    def topic(self) -> str:
        """Return the topic, by the name of its directory."""
        return self._directory.topic

    @property
    def queue_id(self) -> int:
        """Return the queue id, by the name of its directory."""
        return self._directory.queue_id

    @cached_property
    def _ends(self) -> QueueEnds:
        return (batch_queue_ends if self.batch else queue_ends)(self._directory.files)

    @property
    def min_offset(self) -> int:
        """Return the queue offset of the first entry."""
        return self._ends.min_offset

    @property
    def max_offset(self) -> int:
        """Return the queue offset after the last entry: that of the next message."""
        return self._ends.max_offset

    def entries(self, begin: int | None = None, end: int | None = None) -> Iterator[QueueEntry]:
        """Yield the entries with messages of queue offsets in [begin, end), in order. Raises UnreadableError, StoreChangedError."""
        read = batch_units if self.batch else units
        return read(self._directory.files, self.min_offset if begin is None else begin, self.max_offset if end is None else end)

    def entry_at(self, queue_offset: int) -> QueueEntry:
        """Return the entry of one message. Raises UnreadableError, also where the queue has none."""
        for entry in self.entries(queue_offset, queue_offset + 1):
            return entry
        raise UnreadableError(
            f"{self.topic}/{self.queue_id} has no entry for queue offset {queue_offset}.",
            f"It has {self.min_offset} to {self.max_offset - 1}; `Store.verify()` reports what is missing.",
        )

    def record_at(self, queue_offset: int) -> Record:
        """Return the record with one message. Raises UnreadableError, also where the entry points to none."""
        return self._log.record_at(self.entry_at(queue_offset).physical_offset)

    def __len__(self) -> int:
        return self.max_offset - self.min_offset

    def __repr__(self) -> str:
        return f"<rmqstore.Queue {self.topic}/{self.queue_id} {self.min_offset}–{self.max_offset}>"
