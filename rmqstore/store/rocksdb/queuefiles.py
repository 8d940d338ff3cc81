"""Queues of a RocksDB database as files of consume queues in a temporary directory, so that whatever reads file queues reads them too.

The entries of a queue become the units of one file, as long as the queue: a missing entry is a unit of zeros, and a hole in the file.
"""

from __future__ import annotations

import os
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from rmqstore.errors import UnreadableError
from rmqstore.formats.consumequeue import UNIT, UNIT_SIZE
from rmqstore.formats.javahash import decode_java_utf8
from rmqstore.formats.layout import fixed_layout, struct_format
from rmqstore.formats.rocksdb import QUEUE_END, QUEUE_ENTRY
from rmqstore.store.mapped import MappedFile, MappedFileQueue
from rmqstore.store.rocksdb.databases import Database
from rmqstore.store.rocksdb.library import linked
from rmqstore.store.rocksdb.streams import exactly, output_of, prefixed

_CHILD = "rmqstore.store.rocksdb.entries"
_ENTRY = np.dtype([("queue_offset", ">i8"), *((name, f">i{place.width}") for name, place in fixed_layout(QUEUE_ENTRY).items())])
_UNIT = np.dtype([(name, f">i{place.width}") for name, place in fixed_layout(UNIT).items()])
_NUMBER, _LONG = struct.Struct(">I"), struct.Struct(">q")
_STORED = struct.Struct(struct_format(QUEUE_END))
_MAX, _MIN = b"max", b"min"
_SEPARATOR = 1  # byte between the parts of a key
_FARTHEST = 1 << 36
"""Units between two entries of a queue: one farther away is none that a broker wrote, and no file reaches it."""

Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class StoredOffsets:
    """The last and the first entry of a queue as the family `offset` has them: queue offsets, None if it has none."""

    last: int | None = None
    first: int | None = None


@dataclass(slots=True)
class QueueFiles:
    """The queues of a database. `files` are by topic and queue id, without queues of which no entry is served.

    `stored`: what the database has as their ends. `others`: entries that no broker writes, which are left out.
    """

    directory: Path
    files: dict[Key, MappedFileQueue] = field(default_factory=dict)
    stored: dict[Key, StoredOffsets] = field(default_factory=dict)
    others: int = 0

    @property
    def ends(self) -> dict[Key, int]:
        """The queue offsets after the last entries, as a broker sees them."""
        return {key: 0 if one.last is None else one.last + 1 for key, one in self.stored.items()}


@contextmanager
def queue_files(database: Database, min_offset: int) -> Iterator[QueueFiles]:
    """Yield the queues of a database that `probe` could read whole; their files exist until the end of the context.

    As a broker, this leaves out entries after the last one of the family `offset`, and those of records before `min_offset` of the log.
    Raises UnreadableError, if the library fails or the temporary directory cannot hold the files.
    """
    with tempfile.TemporaryDirectory(prefix="rmqstore-queues-") as directory, linked(database) as links:
        found = QueueFiles(Path(directory))
        with output_of(database, _CHILD, links) as stream:
            try:
                _Writer(found, min_offset).take(stream)
            except OSError as error:
                raise UnreadableError(
                    f"{directory} cannot hold the queues of {database.directory}: {error.strerror}.",
                    "Set TMPDIR to a directory with more free space.",
                ) from error
        yield found


class _Writer:
    """Writes the files of queues, one after the other."""

    def __init__(self, found: QueueFiles, min_offset: int) -> None:
        self._found = found
        self._min_offset = min_offset
        self._key: Key | None = None
        self._descriptor = -1
        self._first = self._last = 0

    def take(self, stream: IO[bytes]) -> None:
        """Read the output of the child to its end. Raises EOFError if it is not complete, OSError."""
        try:
            while True:
                match exactly(stream, 1):
                    case b"L":
                        self._note_stored(prefixed(stream), _STORED.unpack(exactly(stream, _STORED.size)))
                    case b"Q":
                        self._close()
                        self._key = key_of(prefixed(stream))
                    case b"E":
                        (count,) = _NUMBER.unpack(exactly(stream, _NUMBER.size))
                        self._add(np.frombuffer(exactly(stream, count * _ENTRY.itemsize), _ENTRY))
                    case _:
                        (others,) = _LONG.unpack(exactly(stream, _LONG.size))
                        self._found.others += others
                        return
        finally:
            self._close()

    def _note_stored(self, key: bytes, value: tuple[int, int]) -> None:
        # The topic with its length, "max" or "min" and the queue id, each with a separator before it.
        named, kind = key[:-9] + key[-5:] + bytes([_SEPARATOR]), key[-8:-5]
        queue = key_of(named)
        if queue is None or kind not in (_MAX, _MIN):
            self._found.others += 1
            return
        before = self._found.stored.get(queue, StoredOffsets())
        self._found.stored[queue] = StoredOffsets(value[1], before.first) if kind == _MAX else StoredOffsets(before.last, value[1])

    def _add(self, entries: npt.NDArray[np.void]) -> None:
        key = self._key
        if key is None:
            self._found.others += len(entries)
            return
        last = self._found.stored.get(key, StoredOffsets()).last
        if last is None:
            return  # for a broker the queue is empty
        served = entries[(entries["queue_offset"] <= last) & (entries["physical_offset"] >= self._min_offset)]
        if not served.size:
            return
        if self._descriptor < 0:
            self._begin(int(served["queue_offset"][0]))
        offsets = served["queue_offset"].astype(np.int64)
        near = (offsets >= self._first) & (offsets - self._first < _FARTHEST)
        self._found.others += int(len(near) - near.sum())
        offsets, served = offsets[near], served[near]
        units = np.empty(len(served), _UNIT)
        for name in _UNIT.names or ():
            units[name] = served[name]
        begins = np.flatnonzero(np.diff(offsets, prepend=-2) != 1)
        for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(units)], strict=True):
            os.pwrite(self._descriptor, units[begin:end].tobytes(), (int(offsets[begin]) - self._first) * UNIT_SIZE)
        self._last = int(offsets[-1])

    def _begin(self, first: int) -> None:
        path = self._found.directory / str(len(self._found.files))
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._first = self._last = first

    def _close(self) -> None:
        if self._descriptor < 0 or self._key is None:
            return
        os.close(self._descriptor)
        self._descriptor = -1
        path = self._found.directory / str(len(self._found.files))
        length = (self._last - self._first + 1) * UNIT_SIZE
        self._found.files[self._key] = MappedFileQueue((MappedFile(path, self._first * UNIT_SIZE, length, length),))


def key_of(prefix: bytes) -> Key | None:
    """Return the topic and queue id of the key of an entry without its queue offset, None for another form.

    The declaration is `formats.rocksdb.QUEUE_KEY`; with construct, a store of 100,000 queues would take five seconds more.
    """
    length = int.from_bytes(prefix[:4], "big")
    topic = prefix[5 : 5 + length]
    separators = (prefix[4:5], prefix[5 + length : 6 + length], prefix[-1:])
    if len(prefix) != length + 11 or any(one != bytes([_SEPARATOR]) for one in separators):
        return None
    return decode_java_utf8(topic), int.from_bytes(prefix[6 + length : 10 + length], "big", signed=True)
