"""The index of messages in RocksDB (`indexRocksDBEnable`, from 5.4.0 on): the places of the messages that have a key."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rmqstore.errors import UnreadableError
from rmqstore.formats.indexentry import FAMILY, HOUR
from rmqstore.reading.rocksdb.messagedatabase import message_database
from rmqstore.scan.entries import EntryHasher
from rmqstore.scan.kernels.entries import ENTRY_DTYPE, Reading
from rmqstore.store.rocksdb.databases import Database
from rmqstore.store.rocksdb.framing import END, ENTRY, LENGTH
from rmqstore.store.rocksdb.library import linked
from rmqstore.store.rocksdb.streams import RECOVERY, exactly, framed_pairs, output_of
from rmqstore.store.root import Store

MOST_TOPICS = 500
"""Topics of a lookup; their names are words of a command line."""
_CHILD = "rmqstore.store.rocksdb.indexed"
_LONG = struct.Struct(">q")
_BLOCK = 4 << 20
"""Bytes that are read together; more for a longer entry."""
_NONE = np.zeros(0, ENTRY_DTYPE)


@dataclass(frozen=True, slots=True)
class IndexAnswer:
    """The entries with a key, and what the index is of: messages from physical offset `first` to the one at `last`.

    `first` is None if it is only known that messages stored from `first_time` (ms) on are in it.
    """

    offsets: tuple[int, ...]
    first: int | None
    first_time: int
    last: int


def look_up(store: Store, topics: Sequence[str], key: str) -> IndexAnswer | None:
    """Return the answer of the index, None without one, and where it cannot be read or a broker has it open.

    Raises UnreadableError if the library fails, OSError.
    """
    database = message_database(store, limit=0)
    if database is None or len(topics) > MOST_TOPICS:
        return None
    prefixes = [f"@{topic}@{kind}@{key}@".encode("utf-8", "surrogateescape").hex() for topic in topics for kind in ("K", "U")]
    offsets: list[int] = []
    with linked(database) as links, output_of(database, _CHILD, links, RECOVERY, *prefixes) as stream:
        last, hour, first = (_LONG.unpack(exactly(stream, _LONG.size))[0] for _ in range(3))
        while (offset := _LONG.unpack(exactly(stream, _LONG.size))[0]) >= 0:
            offsets.append(offset)
    if last < 0 or hour < 0:
        return None
    return IndexAnswer(tuple(sorted(set(offsets))), None if first < 0 else first, hour + HOUR, last)


def last_indexed(store: Store) -> int | None:
    """Return the physical offset of the last message of the index, None without one and where it cannot be read. Raises OSError."""
    try:
        answer = look_up(store, (), "")
    except UnreadableError:
        return None
    return None if answer is None else answer.last


@dataclass(frozen=True, slots=True)
class Entries:
    """Entries (ENTRY_DTYPE, their places in `frames`) as they are in the stream of a database, or `other`: a key and value of another form.

    `frames` (uint8) lasts until the next ones are read.
    """

    rows: npt.NDArray[np.void]
    frames: npt.NDArray[np.uint8]
    other: tuple[bytes, bytes] | None = None

    def key(self, row: int) -> bytes:
        """Return the key of an entry."""
        start = int(self.rows["at"][row]) + 1 + LENGTH
        data = self.frames[start - LENGTH : start].tobytes()
        return self.frames[start : start + int.from_bytes(data, "big")].tobytes()

    def without(self, left_out: npt.NDArray[np.bool_]) -> Iterator[npt.NDArray[np.uint8]]:
        """Yield the frames but for those of some rows."""
        start = 0
        for row in np.flatnonzero(left_out).tolist():
            yield self.frames[start : int(self.rows["at"][row])]
            start = int(self.rows["at"][row + 1]) if row + 1 < len(self.rows) else len(self.frames)
        yield self.frames[start:]


def index_entries(database: Database, hasher: EntryHasher) -> Iterator[Entries]:
    """Yield the entries of the index in the order of their keys. Raises UnreadableError if the library fails, OSError."""
    with framed_pairs(database, FAMILY) as stream:
        data = np.empty(_BLOCK, np.uint8)
        kept = 0
        while True:
            if kept == len(data):
                data = np.concatenate((data, np.empty(len(data), np.uint8)))
            got = stream.readinto(data[kept:].data)  # type: ignore[attr-defined]
            end, at = kept + got, 0
            while True:
                rows, reached, reason = hasher.hashed(data[:end], at)
                if reached > at:
                    rows["at"] -= at
                    yield Entries(rows, data[at:reached])
                at = reached
                if reason is Reading.UNUSUAL:
                    frame = _frame(data[at:end])
                    if frame is None:
                        break
                    length, pair = frame
                    if pair is not None:
                        yield Entries(_NONE, data[:0], pair)
                    at += length
                elif reason is Reading.DONE:
                    break
            if got == 0:
                if data[at:end].tobytes() != END:
                    raise EOFError
                return
            kept = end - at
            data[:kept] = data[at:end].copy()


def _frame(data: npt.NDArray[np.uint8]) -> tuple[int, tuple[bytes, bytes] | None] | None:
    """Return the length of the first frame and its entry, if it is one; None if it is not all there."""
    kind, start, parts = data[:1].tobytes(), 1, []
    for _ in range(2 if kind == ENTRY else 1):
        length = int.from_bytes(data[start : start + LENGTH].tobytes(), "big")
        end = start + LENGTH + length
        if end > len(data):
            return None
        parts.append(data[start + LENGTH : end].tobytes())
        start = end
    return start, (parts[0], parts[1]) if kind == ENTRY else None
