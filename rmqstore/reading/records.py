"""The record at an offset of the log, in files or in their planned content."""

from __future__ import annotations

from collections.abc import Callable

from rmqstore.formats.layout import fixed_layout
from rmqstore.formats.record import BLANK_SIZE, RECORD_PREFIX, Record, RecordError, decode_record
from rmqstore.store.mapped import MappedFile, MappedFileQueue
from rmqstore.store.window import read_at

LARGEST_RECORD = 64 << 20
"""Bytes; no broker accepts a larger message, so a larger TOTALSIZE is damage."""

_TOTAL_SIZE = fixed_layout(RECORD_PREFIX)["total_size"]

ReadAt = Callable[[MappedFile, int, int], bytes]
"""(file, position, length) → the bytes."""


def record_at(log: MappedFileQueue, offset: int, read: ReadAt = read_at) -> Record | None:
    """Return the record that begins at a physical offset of a log, None if none does; otherwise as `read_record`."""
    file = log.find(offset) if offset >= 0 else None
    return None if file is None else read_record(file, offset, read)


def read_record(file: MappedFile, offset: int, read: ReadAt = read_at) -> Record | None:
    """Return the record of `file` that begins at a physical offset and stores that offset, else None; no checksum is verified.

    `read` gives the bytes, so that a planned log can be read as one on the disk. Raises UnreadableError, StoreChangedError.
    """
    position = offset - file.start
    rest = file.length - position
    if rest < BLANK_SIZE:
        return None
    size = int.from_bytes(read(file, position, _TOTAL_SIZE.width), "big", signed=True)
    if not 0 < size <= min(rest, LARGEST_RECORD):
        return None
    try:
        record = decode_record(read(file, position, size))
    except RecordError:
        return None
    return record if record.physical_offset == offset else None
