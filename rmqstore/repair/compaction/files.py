"""The files of a compacted log and of its queue, written as a broker lays them out (fact sheet queues §5.1, §5.2)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rmqstore.formats import batchconsumequeue
from rmqstore.formats.layout import struct_format
from rmqstore.formats.message import BLANK_MAGIC, BLANK_SIZE
from rmqstore.reading.originals import copy_of
from rmqstore.repair.plan.staging import StagedFile, Staging

MESSAGE = np.dtype([(name, np.int64) for name in ("queue_offset", "position", "size", "store_timestamp", "tags_code", "is_copy")])
"""A message of a queue: `position` is its offset in the commit log or, for a copy, in the present compacted log; sizes in bytes."""
_unit = struct.Struct(struct_format(batchconsumequeue.UNIT)).pack
_blank = struct.Struct(">iI").pack

Messages = npt.NDArray[np.void]


@dataclass(frozen=True, slots=True)
class Lengths:
    """Bytes of each file of a log and of its queue."""

    log: int
    queue: int

    @property
    def units(self) -> int:
        """The entries of a full queue file; the unit after them ends it."""
        return self.queue // batchconsumequeue.UNIT_SIZE - 1

    def fit(self, messages: Messages) -> bool:
        """Return whether one file has room for these messages."""
        return len(messages) <= self.units and int(messages["size"].sum()) + BLANK_SIZE <= self.log

    def divided(self, messages: Messages) -> Iterator[Messages]:
        """Yield the messages of each file, if they fill one after the other."""
        first = total = 0
        for row, size in enumerate(messages["size"].tolist()):
            if row - first >= self.units or total + size + BLANK_SIZE > self.log:
                yield messages[first:row]
                first, total = row, 0
            total += size
        if first < len(messages):
            yield messages[first:]


def build(
    staging: Staging, name: str, start: int, messages: Messages, lengths: Lengths, read: Callable[[np.void], bytes], *, is_last: bool
) -> tuple[StagedFile, StagedFile]:
    """Stage the file at `start` of a log with these messages (MESSAGE), and its queue file; `read` returns the bytes of a message.

    Every file but the last is closed. Raises OSError, UnreadableError, StoreChangedError.
    """
    of_log, of_queue = staging.open(f"{name} log", lengths.log), staging.open(f"{name} queue", lengths.queue)
    place, units = 0, bytearray()
    for message in messages:
        data = copy_of(read(message), start + place)
        of_log[place : place + len(data)] = np.frombuffer(data, np.uint8)
        units += _unit(
            start + place,
            len(data),
            message["tags_code"],
            message["store_timestamp"],
            message["queue_offset"],
            1,
            batchconsumequeue.NO_COMPACTED_OFFSET,
            0,
        )
        place += len(data)
    if not is_last:
        of_log[place : place + BLANK_SIZE] = np.frombuffer(_blank(lengths.log - place, BLANK_MAGIC), np.uint8)
        units += batchconsumequeue.SPARSE_END
    of_queue[: len(units)] = np.frombuffer(units, np.uint8)
    del of_log, of_queue
    return staging.close(f"{name} log"), staging.close(f"{name} queue")
