"""The entries of one queue, by queue offset."""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from rmqstore.formats import batchconsumequeue, consumequeue
from rmqstore.formats.layout import struct_format
from rmqstore.store.mapped import MappedFile, MappedFileQueue
from rmqstore.store.window import open_read_only, read_at, read_descriptor

_UNIT = struct.Struct(struct_format(consumequeue.UNIT))
_BATCH_UNIT = struct.Struct(struct_format(batchconsumequeue.UNIT))
_CHUNK = 4096  # units that are read at once


class QueueEntry(NamedTuple):
    """One entry: `messages` messages from `queue_offset` on are in the record of `size` bytes at `physical_offset`.

    `tags_code` is the hash of the tags, the deliver time (ms) in the schedule topic, or the address of an extension unit.
    """

    queue_offset: int
    messages: int
    physical_offset: int
    size: int
    tags_code: int


class Unit(NamedTuple):
    """The fields of a unit as they are stored."""

    physical_offset: int
    size: int
    tags_code: int


def unit_at(files: MappedFileQueue | None, queue_offset: int) -> Unit | None:
    """Return the unit at a queue offset, None where no file holds it whole; it may never have been written.

    Raises UnreadableError, StoreChangedError.
    """
    at = queue_offset * _UNIT.size
    file = files.find(at) if files is not None and 0 <= at < 1 << 62 else None
    if file is None or at + _UNIT.size > file.end:
        return None
    return Unit(*_UNIT.unpack(read_at(file, at - file.start, _UNIT.size)))


def units(files: MappedFileQueue, begin: int, end: int) -> Iterator[QueueEntry]:
    """Yield the entries of a consume queue with queue offsets in [begin, end); what was never written is left out.

    Raises UnreadableError, StoreChangedError.
    """
    for file in files.files:
        first = file.start // _UNIT.size
        last = min(end, first + file.length // _UNIT.size)
        at = max(begin, first)
        if at >= last:
            continue
        with open_read_only(file.path) as descriptor:
            while at < last:
                count = min(_CHUNK, last - at)
                data = read_descriptor(descriptor, file.path, (at - first) * _UNIT.size, count * _UNIT.size)
                for number, (offset, size, code) in enumerate(_UNIT.iter_unpack(data), at):
                    if size > 0 and size != consumequeue.PRE_BLANK_SIZE and offset >= 0:
                        yield QueueEntry(number, 1, offset, size, code)
                at += count


def batch_units(files: MappedFileQueue, begin: int, end: int) -> Iterator[QueueEntry]:
    """Yield the entries of a batch consume queue that hold a message with a queue offset in [begin, end).

    Files are ordered by queue offset, so those before `begin` are skipped by their first entry. Raises UnreadableError, StoreChangedError.
    """
    wanted = files.files[max(0, bisect_right(files.files, begin, key=lambda file: next(_batch_units(file, 1), (end,))[0]) - 1) :]
    for file in wanted:
        for entry in _batch_units(file, file.length // _BATCH_UNIT.size):
            if entry.queue_offset >= end:
                return
            if entry.queue_offset + entry.messages > begin:
                yield entry


def _batch_units(file: MappedFile, count: int) -> Iterator[QueueEntry]:
    with open_read_only(file.path) as descriptor:
        for at in range(0, count, _CHUNK):
            wanted = min(_CHUNK, count - at)
            data = read_descriptor(descriptor, file.path, at * _BATCH_UNIT.size, wanted * _BATCH_UNIT.size)
            for offset, size, code, _, base, number, _, _ in _BATCH_UNIT.iter_unpack(data):
                if size > 0 and number > 0:
                    yield QueueEntry(base, number, offset, size, code)
