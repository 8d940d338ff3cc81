"""The index in RocksDB against the log, both ways (sheet of the newer releases §5.2)."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rmqstore.findings import Finding
from rmqstore.formats.rocksdb import LAST_OFFSET_KEY, LAST_TIME_KEY
from rmqstore.formats.sysflag import SysFlag
from rmqstore.reading.indexdatabase import FAMILY, index_pairs, offset_of
from rmqstore.reading.messagedatabase import message_database
from rmqstore.scan.walk import LogScanner
from rmqstore.store.parts import PartKind
from rmqstore.store.rocksdb.databases import Database
from rmqstore.store.rocksdb.streams import pairs_of_database
from rmqstore.verify.context import Context
from rmqstore.verify.guard import guarded, limited
from rmqstore.wording import counted

MOST_ENTRIES = 20_000_000
"""Entries of an index that is compared: their hashes are in memory, 8 bytes each."""
_CODE = "RMQ-RD-INDEX"
_LONG = 8


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
    index = None if database is None else _read(database, context.store.message_log.min_offset)
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
    for offsets, hashes in _expected(context, index):
        places = np.searchsorted(index.hashes, hashes).clip(max=index.hashes.size - 1)
        found = index.hashes[places] == hashes
        known[places[found]] = True
        lacking = offsets[~found & (offsets <= index.last)]
        missing += len(lacking)
        if first_missing < 0 and missing:
            first_missing = int(lacking.min())
    if missing:
        are = "is" if missing == 1 else "are"
        text = f"{counted(missing, 'key')} of messages of the log {are} not in the index, first of the message here"
        yield context.log_finding(_CODE, text, first_missing, count=missing)
    if not known.all():
        yield from _strange(context, path, database, set(index.hashes[~known].tolist()))


def is_compared(entries: int) -> bool:
    """Return whether an index with so many entries is compared with the log."""
    return entries <= MOST_ENTRIES


def _read(database: Database, min_offset: int) -> _Index | None:
    """Return the index, None if it has more entries than are compared, or none."""
    hashes = array("q")
    first, reach, last, odd = -1, -1, -1, 0
    for _, pair in pairs_of_database(database, FAMILY):
        if pair is None:
            continue
        key, value = pair
        if key == LAST_OFFSET_KEY and len(value) == _LONG:
            last = int.from_bytes(value, "big", signed=True)
        elif key != LAST_TIME_KEY:
            offset = offset_of(key) if len(value) == _LONG else None
            if offset is None:
                odd += 1
            elif offset >= min_offset:  # entries of expired files stay for a while
                first, reach = offset if first < 0 else min(first, offset), max(reach, offset)
                hashes.append(hash(key + value))
                if not is_compared(len(hashes)):
                    return None
    return _Index(np.sort(np.frombuffer(hashes, np.int64)) if hashes else np.zeros(0, np.int64), first, reach, last, odd)


def _expected(context: Context, index: _Index) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """Yield, batch by batch, places of messages in the part of the log that the index is of, and hashes of the entries of them."""
    if not index.hashes.size:
        return
    scanner, end = LogScanner(), min(max(index.last, index.reach) + 1, context.log.end_offset)
    for file in context.store.message_log.files:
        if file.end <= index.first or file.start >= end:
            continue
        for batch in scanner.batches(file):
            records = batch.records
            wanted = (records["position"] >= index.first) & (records["position"] < end)
            wanted &= records["sys_flag"] & int(SysFlag.TRANSACTION_MASK) != int(SysFlag.TRANSACTION_ROLLBACK)
            places, hashes = array("q"), array("q")
            for row in np.flatnonzero(wanted).tolist():
                offset, time = int(records["position"][row]), int(records["store_timestamp"][row])
                for key, value in index_pairs(scanner.topic(int(records["topic"][row])), batch.properties(row), offset, time):
                    places.append(offset)
                    hashes.append(hash(key + value))
            if hashes:
                yield np.frombuffer(places, np.int64), np.frombuffer(hashes, np.int64)


def _strange(context: Context, path: Path, database: Database, hashes: set[int]) -> Iterator[Finding]:
    """Yield entries that no message of the log has, without those of damaged ranges of the log."""
    for _, pair in pairs_of_database(database, FAMILY):
        if pair is None or hash(pair[0] + pair[1]) not in hashes:
            continue
        offset = int.from_bytes(pair[0][-_LONG:], "big", signed=True)
        if not context.log.is_damaged(offset):
            name = pair[0][_LONG:-_LONG].decode("utf-8", "replace")
            yield context.finding(_CODE, f"the message at {offset} has no key {name}", file=path, offset=offset, count=1)
