"""Copies of a compacted log against the messages of the commit log that they were made from (fact sheet queues §5).

A compaction keeps the newest message of each key; it removes that one too if its body is empty, and then older ones of the key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from rmqstore.reading.originals import Original, Reader, copy_of, originals
from rmqstore.store.queues import QueueDirectory
from rmqstore.store.root import Store

_FIRST = 1
"""Messages that a killed broker may have in a queue that has no compacted log yet."""
_KEYS_AT_ONCE = 65536


@dataclass(frozen=True, slots=True)
class Copies:
    """The messages of a compacted log as three columns, ascending: queue offset, offset in the log, size in bytes.

    `traces`: the queue offsets of these messages and of those that entries name, whose damage is another fault.
    """

    queue_offsets: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    traces: npt.NDArray[np.int64]

    @classmethod
    def of(cls, parts: Sequence[npt.NDArray[np.void]], named: Sequence[npt.NDArray[np.int64]]) -> Copies:
        """Return the copies in these columns of a scan, of all files; `named`: queue offsets of entries."""
        names = ("queue_offset", "position", "size")
        columns = [np.concatenate([np.zeros(0, np.int64), *(part[name].astype(np.int64) for part in parts)]) for name in names]
        order = np.argsort(columns[0], kind="stable")
        queue_offsets, offsets, sizes = (column[order] for column in columns)
        return cls(queue_offsets, offsets, sizes, np.unique(np.concatenate([columns[0], *named])))


@dataclass(frozen=True, slots=True)
class Difference:
    """A copy that differs from its message at `original` of the commit log; `byte`: the first one of the message that does."""

    offset: int
    size: int
    byte: int
    original: int


@dataclass(slots=True)
class Missing:
    """Newest messages of their keys without a copy: how many, and queue offset and physical offset of the first."""

    count: int = 0
    queue_offset: int = -1
    physical_offset: int = -1


def compare(store: Store, log: QueueDirectory, queue: QueueDirectory, copies: Copies, *, whole_end: bool) -> Iterator[Difference | Missing]:
    """Yield the copies that differ from their messages, then the messages without a copy, if there are any.

    `queue`: the consume queue of the topic's queue. Messages before the first copy are not missed, because a topic can have become a
    compacted one later; those after the last copy only if `whole_end`: where no start will add them.
    Raises UnreadableError, StoreChangedError.
    """
    newest = Newest()
    rows = list(zip(copies.queue_offsets.tolist(), copies.offsets.tolist(), copies.sizes.tolist(), strict=True))
    at = 0
    with Reader(log.files) as reader:
        for original in originals(store.message_log, queue):
            newest.add(original)
            queue_offset = original.parts.queue_offset
            while at < len(rows) and rows[at][0] < queue_offset:
                at += 1
            if at < len(rows) and rows[at][0] == queue_offset:
                byte = _first_difference(reader, original, *rows[at][1:])
                if byte is not None:
                    yield Difference(*rows[at][1:], byte, original.parts.physical_offset)
    missing = newest.without_copy(copies, whole_end=whole_end)
    if missing.count:
        yield missing


def newest_of(store: Store, queue: QueueDirectory) -> Newest:
    """Return the messages of a consume queue by their keys. Raises UnreadableError, StoreChangedError."""
    newest = Newest()
    for original in originals(store.message_log, queue):
        newest.add(original)
    return newest


def _first_difference(reader: Reader, original: Original, offset: int, size: int) -> int | None:
    """Return the first byte in which a copy differs, None if it does not."""
    data, expected = reader.read(offset, size) or b"", copy_of(original.data, offset)
    if data == expected:
        return None
    return next((byte for byte, (one, other) in enumerate(zip(data, expected, strict=False)) if one != other), min(size, len(expected)))


_MESSAGE = np.dtype([(name, np.int64) for name in ("keys", "queue_offset", "physical_offset", "has_body")])


@dataclass(slots=True)
class Newest:
    """The messages of a queue by their keys. 32 bytes of memory per message."""

    _parts: list[npt.NDArray[np.void]] = field(default_factory=list)
    _rows: list[tuple[int, int, int, bool]] = field(default_factory=list)

    def add(self, original: Original) -> None:
        """Add a message of the queue as `take` does."""
        parts = original.parts
        self.take(original.keys, parts.queue_offset, parts.physical_offset, bool(parts.body))

    def take(self, keys: bytes, queue_offset: int, physical_offset: int, has_body: bool) -> None:
        """Add a message of the queue; without keys it gets no copy."""
        if not keys:
            return
        self._rows.append((hash(keys), queue_offset, physical_offset, has_body))
        if len(self._rows) == _KEYS_AT_ONCE:
            self._pack()

    def _pack(self) -> None:
        self._parts.append(np.array(self._rows, _MESSAGE))
        self._rows = []

    def wanted(self, queue_offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.void]:
        """Return the newest messages of their keys that are to be in a compacted log which has the messages at `queue_offsets`.

        A message without body is one of them where an older one of its key is there: it says that the key is gone.
        """
        self._pack()
        messages = np.concatenate(self._parts)
        self._parts = [messages]
        ordered = messages[np.lexsort((messages["queue_offset"], messages["keys"]))]
        last = np.append(ordered["keys"][1:] != ordered["keys"][:-1], [True] * bool(ordered.size)).astype(bool)
        group = np.cumsum(last) - last
        held = np.bincount(group, np.isin(ordered["queue_offset"], queue_offsets), minlength=1)
        newest = ordered[last]
        return np.asarray(newest[(newest["has_body"] != 0) | (held[: newest.size] > 0)])

    def without_copy(self, copies: Copies, *, whole_end: bool) -> Missing:
        """Return those of them that have no copy, as `compare` counts them."""
        offsets = copies.traces
        wanted = self.wanted(offsets)
        wanted = wanted[~np.isin(wanted["queue_offset"], offsets)]
        if offsets.size:
            wanted = wanted[wanted["queue_offset"] > offsets[0]]
        if not whole_end and (offsets.size or wanted.size <= _FIRST):
            wanted = wanted[wanted["queue_offset"] <= (offsets[-1] if offsets.size else -1)]
        if not wanted.size:
            return Missing()
        first = wanted[np.argmin(wanted["queue_offset"])]
        return Missing(wanted.size, int(first["queue_offset"]), int(first["physical_offset"]))
