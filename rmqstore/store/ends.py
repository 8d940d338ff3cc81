"""The ends of logs and queues, found cheaply: a few reads per queue and a walk from record head to record head over the last data only.

The result is an estimate for display (`info`): nothing between the ends is read. `verify` reads everything.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from operator import attrgetter
from typing import NamedTuple

from rmqstore.errors import StoreChangedError, UnreadableError
from rmqstore.formats import batchconsumequeue, consumequeue
from rmqstore.formats.crc import body_crc
from rmqstore.formats.dledger import END_MAGIC
from rmqstore.formats.layout import fixed_layout, struct_format
from rmqstore.formats.record import (
    BLANK,
    BLANK_MAGIC,
    MESSAGE_MAGIC_V1,
    MESSAGE_MAGIC_V2,
    MIN_RECORD_SIZE_V1,
    RECORD_PREFIX,
    Record,
    RecordError,
    decode_record,
)
from rmqstore.store.mapped import MappedFile, MappedFileQueue
from rmqstore.store.window import open_read_only, read_at, read_descriptor

_PREFIX = struct.Struct(struct_format(RECORD_PREFIX))
_PREFIX_NAMES = list(fixed_layout(RECORD_PREFIX))
_PHYSICAL_OFFSET = _PREFIX_NAMES.index("physical_offset")
_MAGIC = _PREFIX_NAMES.index("magic_code")
_QUEUE_UNIT = struct.Struct(struct_format(consumequeue.UNIT))
_BATCH_UNIT = struct.Struct(struct_format(batchconsumequeue.UNIT))
_BLOCK_UNITS = 64
_CHUNK = 64 * 1024
_LARGEST_SAMPLE = 1024 * 1024
_NEAR = 20_000
"""Records that are stepped over here; for more of them, loading compiled code pays."""

Far = Callable[[MappedFile, int, int, int], Sequence[tuple[int, int]]]
"""(file, position, entry header, how many) → the last (physical offset, size) of the records that follow each other from the position."""


def placed_by_records(files: Sequence[MappedFile]) -> list[MappedFile]:
    """Return the files of a log where the PHYSICALOFFSETs of their first records put them; those without one as they are named."""
    placed = []
    for file in files:
        try:
            first = _PREFIX.unpack(read_at(file, 0, _PREFIX.size)) if file.length >= _PREFIX.size else None
        except (UnreadableError, StoreChangedError):
            first = None
        is_message = first is not None and first[_MAGIC] in (MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2)
        placed.append(replace(file, start=first[_PHYSICAL_OFFSET]) if first is not None and is_message else file)
    return sorted(placed, key=attrgetter("start"))


@dataclass(frozen=True, slots=True)
class LogEnds:
    """Both ends of a commit log: `end_offset` is after the last whole record, `tail` are (offset, size) of records before it."""

    first: Record | None
    last: Record | None
    end_offset: int
    tail: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class QueueEnds:
    """Ends of a consume queue in messages (`min_offset` counts units before the first one too), and the record the last unit points to."""

    min_offset: int
    max_offset: int
    last_physical_offset: int
    last_size: int

    @property
    def entries(self) -> int:
        """Return the number of units that hold an entry."""
        return self.max_offset - self.min_offset


class _Prefix(NamedTuple):
    """Units at the start of a file: how many, the first and the last of them."""

    units: int
    first: bytes
    last: bytes


def queue_ends(files: MappedFileQueue) -> QueueEnds:
    """Return the ends of a file consume queue; brokers write used units as a prefix of each file. Raises UnreadableError."""
    position = _used_end(files.files, _QUEUE_UNIT)
    if position is None:
        return QueueEnds(0, 0, -1, 0)
    file, used = position
    physical_offset, size, _ = _QUEUE_UNIT.unpack(used.last)
    first = files.files[0]
    blanks = 0
    if file is not first or used.first == consumequeue.PRE_BLANK:
        blanks = _prefix(first, _QUEUE_UNIT.size, lambda unit: unit == consumequeue.PRE_BLANK).units
    return QueueEnds(first.start // _QUEUE_UNIT.size + blanks, file.start // _QUEUE_UNIT.size + used.units, physical_offset, size)


def batch_queue_ends(files: MappedFileQueue) -> QueueEnds:
    """Return the ends of a batch queue, from base offset and batch size of its first and last unit. Raises UnreadableError."""
    position = _used_end(files.files, _BATCH_UNIT)
    if position is None:
        return QueueEnds(0, 0, -1, 0)
    last = batchconsumequeue.UNIT.parse(position[1].last)
    first = batchconsumequeue.UNIT.parse(read_at(files.files[0], 0, _BATCH_UNIT.size))
    return QueueEnds(first.msg_base_offset, last.msg_base_offset + last.batch_size, last.physical_offset, last.size)


def _used_end(files: Sequence[MappedFile], unit: struct.Struct) -> tuple[MappedFile, _Prefix] | None:
    """Return the last file with used units, and these."""

    def is_used(data: bytes) -> bool:
        physical_offset, size = unit.unpack(data)[:2]
        return bool(physical_offset >= 0 and size > 0)

    for file in reversed(files):
        used = _prefix(file, unit.size, is_used)
        if used.units:
            return file, used
    return None


def _prefix(file: MappedFile, unit_size: int, holds: Callable[[bytes], bool]) -> _Prefix:
    """Return the units at the start of the file for which `holds(unit)` is true.

    Most queues are short and end within the first block; the end of a longer one is found by binary search.
    """
    count = file.length // unit_size
    with open_read_only(file.location) as descriptor:

        def read(index: int, units: int = 1) -> bytes:
            return read_descriptor(descriptor, file.location, index * unit_size, units * unit_size)

        block = read(0, min(count, _BLOCK_UNITS))
        units = [block[position : position + unit_size] for position in range(0, len(block), unit_size)]
        end = bisect_left(units, True, key=lambda unit: not holds(unit))
        if end < len(units) or count == len(units):
            return _Prefix(end, units[0], units[end - 1]) if end else _Prefix(0, b"", b"")
        end = bisect_left(range(count), True, lo=end, key=lambda index: not holds(read(index)))
        return _Prefix(end, units[0], read(end - 1))


def log_ends(log: MappedFileQueue, *, entry_header: int = 0, hint: int = -1, tail_records: int = 64, far: Far | None = None) -> LogEnds:
    """Return the ends of a commit log.

    `entry_header` bytes are before each record (48 in a DLedger log). `hint` is the physical offset of a late record, for example the
    last one that a queue knows; if a record is there, the walk begins at it and not at the start of its file. `far` continues the walk if
    many records follow, much faster than here. Raises UnreadableError, and what `far` raises.
    """
    with_data = [file for file in log.files[:1] if _starts_with_data(file)]
    for file in reversed(log.files):
        if _starts_with_data(file):
            with_data.append(file)
            break
    if not with_data:
        return LogEnds(None, None, log.min_offset, ())
    file = with_data[-1]
    hinted = hint - entry_header - file.start
    start = hinted if 0 <= hinted < file.length and next(_heads(file, hinted, entry_header), None) is not None else 0
    tail = _tail(file, start, entry_header, tail_records, far)
    last = None
    while tail and last is None:
        last = _whole_record(file, *tail[-1])
        if last is None:
            tail.pop()  # a torn last record: its head exists, its body does not
    end = tail[-1][0] + tail[-1][1] if tail else file.start + start
    if tail and _is_blank(file, end - file.start, entry_header):
        end = file.end
    first = next(_heads(with_data[0], 0, entry_header), None)
    return LogEnds(_whole_record(with_data[0], *first) if first else None, last, end, tuple(tail))


def read_records(log: MappedFileQueue, places: Sequence[tuple[int, int]]) -> Iterator[tuple[Record, bytes]]:
    """Decode the records at (physical offset, size), each with its stored bytes; those over 1 MiB and damaged ones are left out."""
    for offset, size in places:
        file = log.find(offset)
        if file is not None and size <= _LARGEST_SAMPLE and offset + size <= file.end:
            data = read_at(file, offset - file.start, size)
            try:
                yield decode_record(data), data
            except RecordError:
                continue


def _starts_with_data(file: MappedFile) -> bool:
    return any(read_at(file, 0, min(8, file.length)))


def _heads(file: MappedFile, position: int, entry_header: int) -> Iterator[tuple[int, int]]:
    """Yield (physical offset, size) of the records from `position` inside the file, up to the first place that is none."""
    need = entry_header + _PREFIX.size
    with open_read_only(file.path) as descriptor:
        chunk, chunk_start = b"", 0
        while position + need <= file.length:
            if not chunk_start <= position <= chunk_start + len(chunk) - need:
                chunk_start = position
                chunk = read_descriptor(descriptor, file.path, position, min(_CHUNK, file.length - position))
            prefix = _PREFIX.unpack_from(chunk, position - chunk_start + entry_header)
            size, magic = prefix[:2]
            offset = file.start + position + entry_header
            if magic not in (MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2) or prefix[_PHYSICAL_OFFSET] != offset:
                return
            if not MIN_RECORD_SIZE_V1 <= size <= file.length - position - entry_header:
                return
            yield offset, size
            position += entry_header + size


def _tail(file: MappedFile, position: int, entry_header: int, count: int, far: Far | None) -> deque[tuple[int, int]]:
    """Return (physical offset, size) of the last records that follow each other from `position`, `count` at most."""
    heads = _heads(file, position, entry_header)
    tail: deque[tuple[int, int]] = deque(heads if far is None else islice(heads, _NEAR), maxlen=count)
    if far is not None and next(heads, None) is not None:
        offset, _ = tail.pop()
        tail.extend(far(file, offset - entry_header - file.start, entry_header, count))
    return tail


def _is_blank(file: MappedFile, position: int, entry_header: int) -> bool:
    if position + BLANK.sizeof() > file.length:
        return False
    if entry_header:
        return read_at(file, position, 4) == END_MAGIC.to_bytes(4, "big", signed=True)
    return bool(BLANK.parse(read_at(file, position, BLANK.sizeof())).magic_code == BLANK_MAGIC)


def _whole_record(file: MappedFile, offset: int, size: int) -> Record | None:
    try:
        record = decode_record(read_at(file, offset - file.start, size))
    except RecordError:
        return None
    return record if not record.body or body_crc(record.body) == record.body_crc else None
