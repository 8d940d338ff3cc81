"""The index in RocksDB against the log, both ways (sheet of the newer releases §5.2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rmqstore.findings import Finding
from rmqstore.formats.indexentry import FAMILY
from rmqstore.formats.rocksdb import LAST_OFFSET_KEY, LAST_TIME_KEY
from rmqstore.reading.rocksdb.indexdatabase import Entries, index_entries
from rmqstore.reading.rocksdb.messagedatabase import message_database
from rmqstore.scan.entries import EntryHasher, EntryWriter
from rmqstore.scan.walk import LogScanner
from rmqstore.store.parts import PartKind
from rmqstore.store.rocksdb.databases import Database
from rmqstore.verify.context import Context
from rmqstore.verify.guard import guarded, limited
from rmqstore.wording import counted

MOST_ENTRIES = 20_000_000
"""Entries of an index that is compared: their hashes are in memory, 8 bytes each."""
_CODE = "RMQ-RD-INDEX"
_LONG = 8
_TOGETHER = 1 << 20
"""Entries of the log that are compared together: sorted, they are found in the sorted index without waiting for memory."""


@dataclass(frozen=True, slots=True)
class _Index:
    """Sorted hashes of the entries that are of the log, and how many entries have another form.

    `first`, `reach`: smallest and largest physical offset of an entry. `last`: up to there the index has every message; a broker may have
    written some entries after it.
    """

    hashes: npt.NDArray[np.int64]
    first: int
    reach: int
    last: int
    odd: int


def check(context: Context) -> Iterator[Finding]:
    """Yield findings about the index in RocksDB. Reads the column family, and the records of the part of the log that it is of."""
    path = context.store.path_of(PartKind.ROCKSDBSTORE)
    if path.is_dir() and context.log.end_offset:  # without an end the log was not read
        yield from guarded(context, path, lambda: limited(context, path, _check(context, path)))


def _check(context: Context, path: Path) -> Iterator[Finding]:
    database = message_database(context.store, family=FAMILY) if context.store.dledger is None else None
    hasher = EntryHasher(least=context.store.message_log.min_offset)  # entries of expired files stay for a while
    index = None if database is None else _read(database, hasher)
    if database is None or index is None:
        return
    if index.odd:
        text = f"entries of the family {FAMILY} that have another form: {index.odd}"
        yield context.finding(_CODE, text, file=path, found=index.odd)
    if index.last >= context.log.end_offset:
        end = context.log.end_offset
        text = f"the last message of the index is at {index.last}, the log ends at {end}: what comes up to there is not indexed"
        yield context.finding(_CODE, text, file=path, offset=index.last, expected=end, found=index.last)
    known = np.zeros(index.hashes.size, bool)
    missing, first_missing = 0, -1
    for entries in _expected(context, hasher, index):
        places = np.searchsorted(index.hashes, entries["hash"]).clip(max=index.hashes.size - 1)
        found = index.hashes[places] == entries["hash"]
        known[places[found]] = True
        lacking = entries["offset"][~found & (entries["offset"] <= index.last)]
        if lacking.size:
            first_missing = int(lacking.min()) if first_missing < 0 else min(first_missing, int(lacking.min()))
            missing += lacking.size
    if missing:
        are = "is" if missing == 1 else "are"
        text = f"{counted(missing, 'key')} of messages of the log {are} not in the index, first of the message here"
        yield context.log_finding(_CODE, text, first_missing, count=missing)
    if not known.all():
        yield from _strange(context, path, index_entries(database, hasher), index.hashes[~known])


def is_compared(entries: int) -> bool:
    """Return whether an index with so many entries is compared with the log."""
    return entries <= MOST_ENTRIES


def _read(database: Database, hasher: EntryHasher) -> _Index | None:
    """Return the index, None if it has more entries than are compared."""
    pieces: list[npt.NDArray[np.int64]] = []
    count, first, reach, last, odd = 0, -1, -1, -1, 0
    for entries in index_entries(database, hasher):
        if entries.other is not None:
            key, value = entries.other
            if key == LAST_OFFSET_KEY and len(value) == _LONG:
                last = int.from_bytes(value, "big", signed=True)
            elif key != LAST_TIME_KEY:
                odd += 1
        elif entries.rows.size:
            offsets = entries.rows["offset"]
            first, reach = int(offsets.min()) if first < 0 else min(first, int(offsets.min())), max(reach, int(offsets.max()))
            pieces.append(entries.rows["hash"].copy())
            count += entries.rows.size
            if not is_compared(count):
                return None
    hashes = np.concatenate(pieces) if pieces else np.zeros(0, np.int64)
    hashes.sort()
    return _Index(hashes, first, reach, last, odd)


def _expected(context: Context, hasher: EntryHasher, index: _Index) -> Iterator[npt.NDArray[np.void]]:
    """Yield the entries (ENTRY_DTYPE, sorted by their hashes) of messages in the part of the log that the index is of."""
    pieces: list[npt.NDArray[np.void]] = []
    count = 0
    for rows in _of_log(context, hasher, index):
        pieces.append(rows)
        count += len(rows)
        if count >= _TOGETHER:
            yield _sorted(pieces)
            pieces, count = [], 0
    if pieces:
        yield _sorted(pieces)


def _sorted(pieces: list[npt.NDArray[np.void]]) -> npt.NDArray[np.void]:
    """Return the entries by their hashes, each once: a message can have a key twice."""
    rows = np.concatenate(pieces)
    _, first = np.unique(rows["hash"], return_index=True)
    return rows.take(first)


def _of_log(context: Context, hasher: EntryHasher, index: _Index) -> Iterator[npt.NDArray[np.void]]:
    if not index.hashes.size:
        return
    scanner, writer, end = LogScanner(), EntryWriter(), min(max(index.last, index.reach) + 1, context.log.end_offset)
    for file in context.store.message_log.files:
        if file.end <= index.first or file.start >= end:
            continue
        for batch in scanner.batches(file):
            for frames in writer.frames(batch, scanner.topic, least=index.first):
                for rows in hasher.all_hashed(frames):
                    yield rows if not rows.size or rows["offset"][-1] < end else rows.compress(rows["offset"] < end)


def _strange(context: Context, path: Path, entries: Iterator[Entries], hashes: npt.NDArray[np.int64]) -> Iterator[Finding]:
    """Yield the entries with these hashes (sorted), which no message of the log has, without those of damaged ranges of the log."""
    for some in entries:
        places = np.searchsorted(hashes, some.rows["hash"]).clip(max=hashes.size - 1)
        for row in np.flatnonzero(hashes[places] == some.rows["hash"]).tolist():
            offset = int(some.rows["offset"][row])
            if not context.log.is_damaged(offset):
                name = some.key(row)[_LONG:-_LONG].decode("utf-8", "replace")
                yield context.finding(_CODE, f"the message at {offset} has no key {name}", file=path, offset=offset, count=1)
