"""The recovery of a DLedger member's own log, which runs before that of RocketMQ: where it stops reading, and whether it gets through.

Source: `DLedgerMmapFileStore.load` and `recover`, the same from 0.1 to 0.3.3.4 (RocketMQ 4.5 to 5.5); compared with that code in
tests/broker/test_ledger.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from rmqstore.formats.dledger import DEFAULT_INDEX_FILE_SIZE, END_MAGIC, ENTRY_HEADER, ENTRY_HEADER_SIZE, ENTRY_MAGIC
from rmqstore.prediction.blockers import BlockerCode, BrokerKilled
from rmqstore.reading.ledger import EntryChain, unit_of
from rmqstore.scan.walk import Batch, LogScanner
from rmqstore.store.mapped import MappedFile, MappedFileQueue, list_directory
from rmqstore.store.root import DLedgerLog
from rmqstore.store.window import read_at
from rmqstore.wording import counted

CHECKED_FILES = 3
"""Data files, from the last one on, that a member reads when it starts."""
_NUMBERS = ("magic", "size", "index", "term", "body_len", "pos")


@dataclass(frozen=True, slots=True)
class LedgerStart:
    """Result of the recovery: the number of the last entry (−1 without one), and the physical offset after which everything is dropped.

    `first` is the file where it begins, None without files; `entries`: how many it takes.
    """

    last_index: int
    end_offset: int
    first: MappedFile | None = None
    entries: int = 0


def recovered(log: DLedgerLog) -> LedgerStart:
    """Return what the recovery of a member does. Raises BrokerKilled where its process ends, UnreadableError, StoreChangedError."""
    size = log.data.file_size or 0
    files = _loaded(log.directory / "data", size)
    index = MappedFileQueue(tuple(_loaded(log.directory / "index", DEFAULT_INDEX_FILE_SIZE)))
    if not files:
        return LedgerStart(-1, 0)
    number = _first_checked(files, index)
    first = files[number]
    last_index, last_term, at = -1, -1, first.start
    while number < len(files):
        file = files[number]
        last_index, last_term, at = _run(file, at, last_index, last_term)
        head = read_at(file, at - file.start, min(ENTRY_HEADER_SIZE, file.end - at))
        magic = int.from_bytes(head[:4], "big", signed=True) if len(head) >= 4 else None
        if magic == END_MAGIC:
            number, at = number + 1, file.end
            continue
        entry = _entry(head)
        if entry is None or not _continues(entry, at, last_index, last_term):
            break
        if at + entry["size"] > file.end:
            break
        last_index, last_term, at = entry["index"], entry["term"], at + entry["size"]
    last = files[-1]
    if last.start - at > size:
        text = f"The processOffset is too small, you should check it manually before truncating the data from {at}"
        raise BrokerKilled(BlockerCode.DLEDGER, text, log.directory / "data" / files[min(number, len(files) - 1)].path.name)
    entry = _entry(read_at(first, 0, min(ENTRY_HEADER_SIZE, first.length)))
    return LedgerStart(last_index, at, first, 0 if last_index < 0 or entry is None else last_index - entry["index"] + 1)


def dropped(log: DLedgerLog, end: int) -> str:
    """Return what a member drops after offset `end`, as the end of a sentence about its log; empty for nothing.

    Raises UnreadableError, StoreChangedError.
    """
    scanner = LogScanner(lead=ENTRY_HEADER_SIZE)
    records = 0
    for file in log.data.files:
        if file.end > end:
            records += sum(len(batch.records) for batch in scanner.batches(file, start=max(end, file.start)))
    if not records:
        return ""
    return (
        f"; this member stops reading at offset {end} and drops {counted(records, 'message')} after it, which the leader sends again "
        "if a majority of the group has them"
    )


def _loaded(directory: Path, size: int) -> Sequence[MappedFile]:
    """Return the files that a member loads, by name. Raises BrokerKilled for an entry that it does not load, and for a gap."""
    found: list[MappedFile] = []
    if not directory.is_dir():
        return found
    for entry in sorted(list_directory(directory), key=lambda entry: entry.name):
        length = Path(entry.path).stat().st_size
        if length != size:
            text = f"{entry.path} {length} length not matched message store config value, please check it manually"
            raise BrokerKilled(BlockerCode.DLEDGER, text, Path(entry.path))
        if not entry.name.isascii() or not entry.name.isdecimal():
            raise BrokerKilled(BlockerCode.DLEDGER, f'For input string: "{entry.name}"', Path(entry.path))
        found.append(MappedFile(Path(entry.path), int(entry.name), length, length))
    for before, after in pairwise(found):
        if after.start - before.start != size:
            raise BrokerKilled(BlockerCode.DLEDGER, "check data file order failed before recovery", after.path)
    return found


def _first_checked(files: Sequence[MappedFile], index: MappedFileQueue) -> int:
    """Return the number of the file where the check begins: the third last one, or one before it whose first entry has its unit."""
    for number in range(max(len(files) - CHECKED_FILES, 0), -1, -1):
        file = files[number]
        entry = _entry(read_at(file, 0, min(ENTRY_HEADER_SIZE, file.length)))
        if entry is not None and entry["magic"] == ENTRY_MAGIC and entry["size"] > ENTRY_HEADER_SIZE and entry["pos"] == file.start:
            unit = unit_of(index, entry["index"])
            if unit is not None and unit.tolist() == (entry["magic"], file.start, entry["size"], entry["index"], entry["term"]):
                return number
    return 0


def _entry(head: bytes) -> dict[str, int] | None:
    """Return the numbers of a header whose sizes agree, None for other bytes."""
    if len(head) < ENTRY_HEADER_SIZE:
        return None
    parsed = ENTRY_HEADER.parse(head)
    entry = {name: int(parsed[name]) for name in _NUMBERS}
    return entry if entry["body_len"] + ENTRY_HEADER_SIZE == entry["size"] else None


def _continues(entry: dict[str, int], at: int, last_index: int, last_term: int) -> bool:
    """Return whether a member takes an entry after the one of `last_index` and `last_term`, −1 for none."""
    return (
        entry["magic"] == ENTRY_MAGIC
        and entry["pos"] == at
        and entry["size"] > ENTRY_HEADER_SIZE
        and (last_index == -1 or entry["index"] == last_index + 1)
        and entry["term"] >= last_term
    )


def _run(file: MappedFile, at: int, last_index: int, last_term: int) -> tuple[int, int, int]:
    """Return (index, term, end) of the last of the entries from `at` on that are all as they should be, and hold records.

    What a member takes without that, such as entries of damaged records, has to be read one by one.
    """
    chain = EntryChain()
    for event in LogScanner(lead=ENTRY_HEADER_SIZE).scan(file, start=at):
        if not isinstance(event, Batch):
            break
        rows = chain.follow(event)
        fits = np.ones(len(rows.starts), np.bool_)
        for name, values in rows.wanted.items():
            fits &= rows.headers[name] == values
        fits &= np.diff(rows.terms, prepend=last_term) >= 0
        fits &= rows.starts == np.append(at, (rows.starts + rows.wanted["size"])[:-1])
        if last_index != -1:
            fits &= rows.numbers == last_index + 1 + np.arange(len(rows.numbers))
        good = len(fits) if fits.all() else int(np.argmin(fits))
        if good:
            last_index, last_term = int(rows.numbers[good - 1]), int(rows.terms[good - 1])
            at = int(rows.starts[good - 1] + rows.wanted["size"][good - 1])
        if good < len(fits):
            break
    return last_index, last_term, at
