"""The messages of the commit log that a compacted log has copies of, by the entries of their consume queue (fact sheet queues §5)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import NamedTuple

from rmqstore.formats.crc import body_crc
from rmqstore.formats.layout import fixed_layout
from rmqstore.formats.message import RECORD_PREFIX
from rmqstore.formats.properties import KEYS
from rmqstore.reading.entries import units
from rmqstore.reading.parts import Parts, parts_of
from rmqstore.reading.records import LARGEST_RECORD
from rmqstore.store.ends import queue_ends
from rmqstore.store.mapped import MappedFile, MappedFileQueue
from rmqstore.store.queues import QueueDirectory
from rmqstore.store.window import open_read_only, read_descriptor

_PLACE = fixed_layout(RECORD_PREFIX)["physical_offset"]
_KEYS = KEYS.encode() + b"\x01"


class Original(NamedTuple):
    """A message of the commit log: its bytes, and their parts."""

    data: bytes
    parts: Parts

    @property
    def keys(self) -> bytes:
        """The keys, as `keys_in` returns them."""
        return keys_in(self.parts.properties)


def keys_in(properties: bytes) -> bytes:
    """Return the whole property KEYS, by which a compaction distinguishes messages; empty without one: such a message gets no copy."""
    found = b""
    for piece in properties.split(b"\x02"):
        if piece.startswith(_KEYS):
            found = piece[len(_KEYS) :]
    return found.strip()


def copy_of(data: bytes, offset: int) -> bytes:
    """Return the bytes of the copy of a message at an offset of a compacted log: only PHYSICALOFFSET differs."""
    return data[: _PLACE.offset] + offset.to_bytes(_PLACE.width, "big", signed=True) + data[_PLACE.end :]


class Reader:
    """Reads ranges of the files of a log; a file stays open until one of another is wanted. A context manager."""

    def __init__(self, log: MappedFileQueue) -> None:
        self._log = log
        self._open = ExitStack()
        self._file: MappedFile | None = None
        self._descriptor = -1

    def read(self, offset: int, size: int) -> bytes | None:
        """Return `size` bytes at an offset of the log, None where no file has all of them. Raises UnreadableError, StoreChangedError."""
        file = self._file
        if file is None or not file.start <= offset < file.end:
            file = self._log.find(offset) if offset >= 0 else None
            if file is None:
                return None
            self._open.close()
            self._descriptor, self._file = self._open.enter_context(open_read_only(file.path)), file
        if offset + size > file.end:
            return None
        return read_descriptor(self._descriptor, file.path, offset - file.start, size)

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()


def originals(log: MappedFileQueue, queue: QueueDirectory) -> Iterator[Original]:
    """Yield the messages of `log` that entries of a consume queue point at, by queue offset; what is damaged is left out.

    A message counts if topic, queue, QUEUEOFFSET, PHYSICALOFFSET and the checksum of its body are right. Raises UnreadableError,
    StoreChangedError.
    """
    ends = queue_ends(queue.files)
    topic = queue.topic.encode()
    with Reader(log) as reader:
        for entry in units(queue.files, ends.min_offset, ends.max_offset):
            data = reader.read(entry.physical_offset, entry.size) if entry.size <= LARGEST_RECORD else None
            parts = None if data is None else parts_of(data)
            if data is None or parts is None or (parts.physical_offset, parts.queue_offset) != (entry.physical_offset, entry.queue_offset):
                continue
            if parts.topic == topic and parts.queue_id == queue.queue_id and (not parts.body or body_crc(parts.body) == parts.body_crc):
                yield Original(data, parts)
