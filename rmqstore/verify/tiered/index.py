"""The structure of tiered index files: chains of local ones, slots of compacted ones. Their entries are kept by queue."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rmqstore.findings import Finding
from rmqstore.formats.tiered_index import BEGIN_MAGIC, END_MAGIC, HEADER
from rmqstore.formats.tiered_names import SegmentType
from rmqstore.reading.tieredindex import HEADER_SIZE, TieredIndex, tiered_index_of
from rmqstore.store.mapped import MappedFile, list_directory
from rmqstore.store.parts import PartKind
from rmqstore.store.root import Store
from rmqstore.store.window import read_at
from rmqstore.verify.context import Context
from rmqstore.verify.tiered.items import ItemStore
from rmqstore.verify.tiered.state import Tiered

CODE = "RMQ-TI-INDEX"
_SLOTS, _ITEMS = "tieredStoreIndexFileMaxHashSlotNum", "tieredStoreIndexFileMaxIndexNum"
_OLD_OUTPUT = "2222"
"""Output of a compaction of 5.1.x that was not uploaded: brokers delete it."""


def check_file(context: Context, file: MappedFile, items: ItemStore, *, known: bool) -> Iterator[Finding]:
    """Yield findings about the structure of a file, and add its entries to `items`. Raises UnreadableError, StoreChangedError, OSError.

    `known`: whether its length is that of the settings or of a segment, so that another length is a finding.
    """
    settings = context.store.config
    if file.length < HEADER_SIZE:
        yield _finding(context, file, f"{file.length} bytes are less than the header of an index file", 0, file.length)
        return
    header = HEADER.parse(read_at(file, 0, HEADER_SIZE))
    if header.magic not in (BEGIN_MAGIC, END_MAGIC):
        if any(read_at(file, 0, HEADER_SIZE)):
            yield _finding(context, file, f"the magic code is {header.magic:08X}", 0, 4, expected=BEGIN_MAGIC, found=header.magic)
        return  # zeros: a file that a broker created, and wrote nothing into
    index = tiered_index_of(file, settings.explicit_integer(_SLOTS), settings.explicit_integer(_ITEMS))
    if index is None:
        if known:
            text = f"{file.length} bytes do not fit a header that counts {header.item_count} entries"
            yield _finding(context, file, text, 0, HEADER_SIZE)
        return
    if index.counted != index.items:
        text = f"the header counts {index.counted} entries, the file has space for {index.items}"
        yield _finding(context, file, text, HEADER_SIZE - 4, 4, expected=index.items, found=index.counted)
    yield from _compacted(context, index) if index.generation is None else _chains(context, index)
    for first, rows in index.windows():
        if not rows.size:
            continue
        positions = index.position_of(first) + np.arange(rows.size, dtype=np.int64) * index.item_dtype.itemsize
        items.add(file, positions, rows)


def layout_is_unknown(context: Context, file: MappedFile) -> bool:
    """Return whether a local file has entries, and neither settings nor its length show where they are."""
    settings = context.store.config
    if file.length < HEADER_SIZE or HEADER.parse(read_at(file, 0, HEADER_SIZE)).magic not in (BEGIN_MAGIC, END_MAGIC):
        return False
    return tiered_index_of(file, settings.explicit_integer(_SLOTS), settings.explicit_integer(_ITEMS)) is None


def local_files(store: Store) -> list[MappedFile]:
    """Return the local index files that a broker reads, by name. Raises UnreadableError."""
    path = store.path_of(PartKind.TIERED_INDEX)
    found = (entry for entry in list_directory(path) if entry.name.isdecimal() and entry.name != _OLD_OUTPUT and entry.is_file())
    return [MappedFile(entry.path, 0, entry.length, 0) for entry in found if entry.length]


def segments(tiered: Tiered) -> list[MappedFile]:
    """Return the index segments as far as a broker reads them."""
    lists = () if tiered.files is None else tiered.files.lists
    return [file for path, kind in lists if kind is SegmentType.INDEX for file in tiered.read_by_broker(path, kind)]


def _finding(context: Context, file: MappedFile, text: str, position: int, length: int, **where: int) -> Finding:
    return context.finding(CODE, text, file=Path(file.location), position=position, length=length, **where)


def _chains(context: Context, index: TieredIndex) -> Iterator[Finding]:
    """Yield slots that do not name their newest entry, and entries that do not name the one before in their slot."""
    generation = index.generation
    assert generation is not None
    parts = [(rows["key_hash"].astype(np.int64), rows["prev_index"].astype(np.int64)) for _, rows in index.windows()]
    hashes, previous = (np.concatenate([np.zeros(0, np.int64), *(part[number] for part in parts)]) for number in range(2))
    negative = np.flatnonzero(hashes < 0)
    if negative.size:
        yield _item(context, index, int(negative[0]), f"{negative.size} entries have a negative hash, which no key has")
        return
    slots = hashes % index.slots
    order = np.argsort(slots, kind="stable")
    expected = np.full(hashes.size, generation.empty_slot, np.int64)
    same = slots[order[1:]] == slots[order[:-1]]
    expected[order[1:][same]] = order[:-1][same] + index.first_item
    newest = np.full(index.slots, generation.empty_slot, np.int64)
    newest[slots[order]] = order + index.first_item  # the last one of each slot stays
    for row in np.flatnonzero(previous != expected):
        text = f"the entry before it in slot {slots[row]} is {expected[row]}, it names {previous[row]}"
        yield _item(context, index, int(row), text, expected=int(expected[row]), found=int(previous[row]))
    stored = index.read_slots()["item_number"].astype(np.int64)
    stored = np.where(stored < generation.first_item, generation.empty_slot, stored)
    for slot in np.flatnonzero(stored != newest):
        position = HEADER_SIZE + int(slot) * index.slot_dtype.itemsize
        text = f"slot {slot} names entry {stored[slot]}, its newest one is {newest[slot]}"
        yield _finding(context, index.file, text, position, 4, expected=int(newest[slot]), found=int(stored[slot]))


def _compacted(context: Context, index: TieredIndex) -> Iterator[Finding]:
    """Yield slots whose entries are not those with their hashes; in the order of the slots they fill the file."""
    stored = index.read_slots()
    size = index.item_dtype.itemsize
    lengths, positions = stored["length"].astype(np.int64), stored["position"].astype(np.int64)
    used = np.flatnonzero(lengths)
    begins = (positions[used] - index.position_of(0)) // size
    owners = np.full(index.items, -1, np.int64)
    for slot, begin, count in zip(used.tolist(), begins.tolist(), (lengths[used] // size).tolist(), strict=True):
        if begin >= 0 and begin + count <= index.items and (owners[begin : begin + count] < 0).all():
            owners[begin : begin + count] = slot
            continue
        text = f"slot {slot} has {lengths[slot]} bytes from position {positions[slot]} on, which are not its own"
        yield _finding(context, index.file, text, HEADER_SIZE + slot * stored.dtype.itemsize, stored.dtype.itemsize)
    hashes = _hashes(index)
    wrong = np.flatnonzero((owners >= 0) & (hashes % index.slots != owners))
    for row in wrong:
        yield _item(context, index, int(row), f"the entry has hash {hashes[row]} and is in slot {owners[row]}")


def _hashes(index: TieredIndex) -> npt.NDArray[np.int64]:
    parts = [rows["key_hash"].astype(np.int64) for _, rows in index.windows()]
    return np.concatenate([np.zeros(0, np.int64), *parts])


def _item(context: Context, index: TieredIndex, row: int, text: str, **where: int) -> Finding:
    return _finding(context, index.file, text, index.position_of(index.first_item + row), index.item_dtype.itemsize, **where)
