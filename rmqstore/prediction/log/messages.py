"""A message to be dispatched: the fields that its queue unit is made from."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from rmqstore.prediction.log.record_check import Request


class Message(NamedTuple):
    """Fields of a record; `size` in bytes, `store_timestamp` in ms since epoch, `batch` (first queue offset, messages) of a decoded one."""

    physical_offset: int
    size: int
    tags_code: int
    queue_offset: int
    store_timestamp: int
    batch: tuple[int, int] | None = None

    @classmethod
    def of(cls, record: np.void, request: Request | None = None) -> Self:
        """Return the message of a row of RECORD_DTYPE; `request` if it was decoded."""
        fields = ("physical_offset", "size", "tags_code", "queue_offset", "store_timestamp")
        physical_offset, size, tags_code, queue_offset, store_timestamp = (int(record[name]) for name in fields)
        batch = None if request is None else (request.base_offset, request.batch_size)
        return cls(physical_offset, size, tags_code, queue_offset, store_timestamp, batch)
