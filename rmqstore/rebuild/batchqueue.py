"""A BatchConsumeQueue that is being rebuilt: consecutive 46-byte units, one per record (fact sheet queues §4, ≥5.0.0).

Units are found by the queue offset in them, so a gap in the queue offsets needs no units; they only have to rise.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from typing import Any

import numpy as np
import numpy.typing as npt

from rmqstore.formats import batchconsumequeue as declared
from rmqstore.formats import properties as names
from rmqstore.formats.javahash import LONG_MAX, LONG_MIN, parse_java_integer
from rmqstore.formats.layout import fixed_layout, struct_format
from rmqstore.rebuild.placing import MESSAGE_COLUMNS, Message, UsefulPlacing
from rmqstore.rebuild.result import History, QueueKind, RebuiltQueue
from rmqstore.rebuild.settings import Mode
from rmqstore.rebuild.table import QueueTable
from rmqstore.rebuild.unitfiles import UnitFiles
from rmqstore.scan.columns import Mark
from rmqstore.scan.walk import Batch

_pack = struct.Struct(struct_format(declared.UNIT)).pack
_BASE = fixed_layout(declared.UNIT)["msg_base_offset"]
_SHORT_MIN, _SHORT_MAX = -(2**15), 2**15 - 1
# A record takes one queue offset at least, and the first record of a rebuild is the first unit: no message before it is missed.
_NOTHING_LOST_BEFORE = -1


class BatchQueue:
    """One queue of a topic with `queue.type=BatchCQ`."""

    def __init__(self, topic: str, queue_id: int, files: UnitFiles, table: QueueTable, number: int, mode: Mode) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.history = History()
        self.started = False
        self.first_offset = 0
        self.next_offset = 0
        self.max_physic_offset = -1
        self.max_start = -1
        """Start of the last message."""
        self._files = files
        self._table = table
        self._number = number
        self._useful = mode is Mode.USEFUL
        self._placing = UsefulPlacing(self, _NOTHING_LOST_BEFORE) if self._useful else _FaithfulPlacing(self)

    def put(self, batch: Batch, rows: npt.NDArray[np.intp]) -> int:
        """Append these records of a batch in log order; return how many of them have an impossible INNER_NUM or INNER_BASE."""
        refused = 0
        columns: list[list[Any]] = [batch.records[name][rows].tolist() for name in (*MESSAGE_COLUMNS, "marks")]
        for row, *values, marks in zip(rows.tolist(), *columns, strict=True):
            message = Message(*values)
            if marks & Mark.INNER_BATCH:
                inner = _inner_batch(batch.properties(row), message.queue_offset)
                if inner is None or (inner[1] <= 0 and self._useful):
                    refused += 1
                    continue
                message = message._replace(queue_offset=inner[0], width=inner[1])
            self._placing.take(message)
        return refused

    def names(self, queue_offset: int) -> bool:
        """Return whether a unit can store the queue offset: all but negative ones."""
        return queue_offset >= 0

    def can_miss(self, count: int, length: int) -> bool:
        """Return True: the number of messages in a lost record is unknown."""
        return True

    def begin(self, message: Message, missing: int) -> None:
        """Start the queue with a message; files always start at 0."""
        self._files.begin(0, b"")
        self.started = True
        self.first_offset = message.queue_offset
        self.append(message)

    def append(self, message: Message) -> None:
        """Append a message and expect the next one directly after it."""
        queue_offset, physical_offset, size, tags_code, store_timestamp, width, _ = message
        unit = _pack(physical_offset, size, tags_code, store_timestamp, queue_offset, width, declared.NO_COMPACTED_OFFSET, 0)
        self._files.fill(unit, 1)
        self.max_start = physical_offset
        self.max_physic_offset = physical_offset + size
        self.next_offset = message.end_offset

    def bridge(self, queue_offset: int) -> None:
        """Do nothing: missing messages need no units."""

    def cut(self, queue_offset: int) -> None:
        """Remove the units of messages from `queue_offset` on; the one before it remains."""
        place = bisect_left(range(self._files.end), queue_offset, key=self._base_at)
        self._files.cut(place)
        self.next_offset = queue_offset

    def hold(self, held: bool) -> None:
        """Do nothing: the mode decides on every record."""

    def leave_ext_unit(self, message: Message) -> Message:
        """Return the message unchanged: batch queues have no extension."""
        return message

    def finish(self) -> RebuiltQueue:
        """Close the files."""
        self._placing.finish()
        self._files.close()
        history = self.history
        return RebuiltQueue(
            self.topic,
            self.queue_id,
            QueueKind.BATCH,
            self.first_offset,
            self.next_offset,
            self.max_start,
            self._files.paths,
            (),
            tuple(history.gaps),
            tuple(history.restarts),
            tuple(history.repeated),
            tuple(history.misnumbered),
            0,
        )

    def _base_at(self, place: int) -> int:
        return int.from_bytes(self._files.read(place)[_BASE.offset : _BASE.end], "big", signed=True)


class _FaithfulPlacing:
    """The broker's own rule: only the place in the log decides whether a message is known (fact sheet queues §4.2)."""

    def __init__(self, queue: BatchQueue) -> None:
        self._queue = queue

    def take(self, message: Message) -> None:
        """Place a message in log order."""
        queue = self._queue
        if message.queue_offset < 0 or message.width < 0:
            queue.history.misnumbered.append(message.left_out)
        elif queue.started and message.physical_offset <= queue.max_start:
            queue.history.repeated.append(message.left_out)
        elif queue.started:
            queue.append(message)
        else:
            queue.begin(message, 0)

    def finish(self) -> None:
        """Do nothing: no message is waiting."""


def _inner_batch(properties: dict[str, str], queue_offset: int) -> tuple[int, int] | None:
    """Return (first queue offset, number of messages) of a record, None if the broker's check refuses it (fact sheet queues §1)."""
    number, base = properties.get(names.INNER_NUM), properties.get(names.INNER_BASE)
    if number is None or base is None:
        return queue_offset, 1
    batch_size = parse_java_integer(number, _SHORT_MIN, _SHORT_MAX)
    base_offset = parse_java_integer(base, LONG_MIN, LONG_MAX)
    return None if batch_size is None or base_offset is None else (base_offset, batch_size)
