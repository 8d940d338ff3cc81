"""The index of a new database of messages (sheet of the newer releases §5.2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from rmqstore.formats.rocksdb import LAST_OFFSET_KEY, LAST_TIME_KEY
from rmqstore.reading.rocksdb.indexdatabase import index_entries, last_indexed
from rmqstore.repair.log.future import FutureLog
from rmqstore.repair.rocksdb.content import Content, Piece, single
from rmqstore.scan.entries import EntryHasher, EntryWriter
from rmqstore.scan.walk import LogScanner
from rmqstore.store.rocksdb.databases import Database
from rmqstore.store.root import Store

_LONG = 8


def index_content(store: Store, log: FutureLog, sound: Database | None) -> Content:
    """Return the entries of all messages; those of a valid index are taken over. Raises UnreadableError, StoreChangedError, OSError."""
    last = last_indexed(store) if sound is not None else None
    since = -1 if last is None or last >= log.end_offset else last
    kept = sound if since >= 0 else None

    def pieces() -> Iterator[Piece]:
        newest = {LAST_OFFSET_KEY: since, LAST_TIME_KEY: -1}
        for entries in index_entries(kept, EntryHasher()) if kept is not None else ():
            if entries.other is None:
                lost = _is_lost(log, entries.rows["offset"])
                yield len(lost) - int(lost.sum()), b"".join(frames.data for frames in entries.without(lost))
            elif entries.other[0] not in newest:
                yield from single(iter([entries.other]))
            elif len(entries.other[1]) == _LONG:
                newest[entries.other[0]] = int.from_bytes(entries.other[1], "big", signed=True)
        for some in _indexed(log, since):
            newest = {LAST_OFFSET_KEY: some.last, LAST_TIME_KEY: some.time}
            yield some.count, some.frames.data
        yield from single((key, number.to_bytes(_LONG, "big", signed=True)) for key, number in newest.items() if number >= 0)

    missing = next(_indexed(log, since), None)
    if missing is not None:
        return Content(pieces, f"its index lacks the messages from offset {missing.first} on")
    there = index_entries(kept, EntryHasher()) if kept is not None and log.damages else ()
    lost = any(_is_lost(log, entries.rows["offset"]).any() for entries in there)
    return Content(pieces, "its index has keys of lost messages" if lost else None)


def _is_lost(log: FutureLog, offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return which physical offsets are beyond the end of the future log, or of lost records."""
    lost = offsets >= log.end_offset
    if log.damages:
        starts, ends = np.array(log.damages, np.int64).T
        at = np.searchsorted(starts, offsets, side="right") - 1
        lost |= (at >= 0) & (offsets < ends[at])
    return lost


@dataclass(frozen=True, slots=True)
class _Indexed:
    """Entries of consecutive messages, `count` different ones; physical offsets of the first and last message, store time (ms) of the last.

    `frames` (uint8) lasts until the next ones.
    """

    frames: npt.NDArray[np.uint8]
    count: int
    first: int
    last: int
    time: int


def _indexed(log: FutureLog, since: int) -> Iterator[_Indexed]:
    """Yield the entries of the messages after physical offset `since`."""
    scanner, writer, hasher = LogScanner(windows=log.window), EntryWriter(), EntryHasher()
    for batch in replace(log, files=tuple(file for file in log.files if file.end > since)).batches(scanner):
        for frames in writer.frames(batch, scanner.topic, least=since + 1):
            rows = np.concatenate(list(hasher.all_hashed(frames)))
            if rows.size:
                first, last = int(rows["offset"][0]), int(rows["offset"][-1])
                row = int(np.searchsorted(batch.records["position"], last))
                yield _Indexed(frames, np.unique(rows["hash"]).size, first, last, int(batch.records["store_timestamp"][row]))
