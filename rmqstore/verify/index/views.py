"""The index files of a store as the comparison needs them: where their entries are, and what their first and last entry say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rmqstore.errors import RmqstoreError
from rmqstore.findings import Finding
from rmqstore.formats import index as declared
from rmqstore.formats.javahash import index_key_hash
from rmqstore.formats.layout import fixed_layout
from rmqstore.reading.records import record_at
from rmqstore.scan.indexshape import geometry, guess_geometry
from rmqstore.scan.kernels.index import ITEM_ROWS, ITEM_SIZE
from rmqstore.store.mapped import MappedFile
from rmqstore.store.window import data_extents, read_at
from rmqstore.verify.context import Context

HEADER_LAYOUT = fixed_layout(declared.HEADER)
_PHY_OFFSET = fixed_layout(declared.ITEM)["phy_offset"]
WINDOW = 8 << 20
CHUNK_ITEMS = 16_384


@dataclass(frozen=True, slots=True)
class IndexView:
    """One index file as the comparison needs it. `items` is the number of entries, numbered from 1."""

    file: MappedFile
    slots: int
    capacity: int
    items: int
    begin: int  # STORETIMESTAMP of entry 1's record, from which time differences count
    begin_timestamp: int  # as the header has it
    end_timestamp: int
    begin_phy_offset: int
    end_phy_offset: int
    hash_slot_count: int
    index_count: int
    first_seconds: int  # time difference that entry 1 may have as well: counted from the end of the file before
    first_offset: int  # physical offset of entry 1's record
    first_hash: int  # key hash of entry 1
    last_offset: int  # of the last entry
    reach: int  # the highest physical offset of the last two entries: one of them may be damaged

    def item_position(self, item: int) -> int:
        """Return the position in the file of an entry."""
        return declared.item_position(item, self.slots)

    def item_offset(self, item: int) -> int:
        """Return the physical offset that an entry stores."""
        place = _PHY_OFFSET
        return int.from_bytes(read_at(self.file, self.item_position(item) + place.offset, place.width), "big", signed=True)

    def rows(self, start: int, stop: int) -> Iterator[tuple[int, npt.NDArray[np.void]]]:
        """Yield the entries [start, stop), in pieces of (number of the first entry, ITEM_ROWS)."""
        for first in range(start, stop, WINDOW // ITEM_SIZE):
            count = min(WINDOW // ITEM_SIZE, stop - first)
            yield first, np.frombuffer(read_at(self.file, self.item_position(first), count * ITEM_SIZE), ITEM_ROWS)

    def item_offsets(self, start: int, stop: int) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
        """Yield physical offsets of the entries [start, stop), in pieces of (number of the first entry, offsets)."""
        for first, rows in self.rows(start, stop):
            yield first, rows["phy_offset"].astype(np.int64)


def open_views(context: Context) -> tuple[list[IndexView], list[Finding]]:
    """Return the readable index files in the order of their names, and findings about those that are not."""
    findings: list[Finding] = []
    listed = [file for file in context.store.index_files() if file.named_right]
    files = [file.mapped for file in listed]
    guessed: tuple[int, int] | None = None
    tried = False
    views: list[IndexView] = []
    earlier_end = 0
    for file in files:
        try:
            sizes = geometry(context.store.config, file.length)
            if sizes is None and context.store.config.explicit_integer("maxHashSlotNum") is None:
                if not tried:
                    guessed, tried = guess_geometry([each for each in files if each.length >= declared.HEADER_SIZE]), True
                if guessed and declared.file_size(*guessed) == file.length:
                    sizes = guessed
            if sizes is None:
                continue
            view = _open(context, file, *sizes, earlier_end)
        except RmqstoreError as error:
            findings.append(context.finding("RMQ-ST-UNREADABLE", error.message, file=file.path))
            continue
        earlier_end = view.end_timestamp
        views.append(view)
    return views, findings


def _open(context: Context, file: MappedFile, slots: int, capacity: int, earlier_end: int) -> IndexView:
    header = {
        name: int(value) for name, value in declared.HEADER.parse(read_at(file, 0, declared.HEADER_SIZE)).items() if name in HEADER_LAYOUT
    }
    items = min(max(header["index_count"] - 1, 0), capacity - 1)

    def stored(item: int, name: str) -> int:
        return int(declared.ITEM.parse(read_at(file, declared.item_position(item, slots), ITEM_SIZE))[name]) if items else 0

    # A header with a wrong count must not hide entries: they are dense, so an empty place after the last is the end.
    items = _dense_up_to(file, slots, items, capacity)
    while items > 0 and not any(read_at(file, declared.item_position(items, slots), ITEM_SIZE)):
        items = _last_item(file, slots, items)
    first_hash = stored(1, "key_hash")
    first_offset = _first_offset(context, stored(1, "phy_offset"), header["begin_phy_offset"], first_hash) if items else 0
    begin = _begin(context, header["begin_timestamp"], first_offset)
    last_offset = stored(items, "phy_offset")
    return IndexView(
        file,
        slots,
        capacity,
        items,
        begin,
        first_seconds=_whole_seconds(earlier_end, begin),
        first_offset=first_offset,
        first_hash=first_hash,
        last_offset=last_offset,
        reach=max(last_offset, stored(items - 1, "phy_offset")) if items > 1 else last_offset,
        **header,
    )


def _whole_seconds(begin: int, now: int) -> int:
    """Return the time difference that brokers store: cut to what an entry holds, 0 without a begin."""
    return min(max(now - begin, 0) // 1000, 2**31 - 1) if begin > 0 else 0


def _begin(context: Context, begin_timestamp: int, first_offset: int) -> int:
    """Return the begin time of the record, as the header may be damaged; without a record that of the header."""
    record = record_at(context.store.message_log, first_offset)
    return record.store_timestamp if record is not None else begin_timestamp


def _first_offset(context: Context, stored: int, begin_phy_offset: int, key_hash: int) -> int:
    """Return the physical offset of the record of entry 1: of the header where the one that the entry stores is damaged."""
    damaged = stored != begin_phy_offset and not _has_key(context, stored, key_hash) and _has_key(context, begin_phy_offset, key_hash)
    return begin_phy_offset if damaged else stored


def _has_key(context: Context, offset: int, key_hash: int) -> bool:
    """Return whether a record begins at `offset` that has a key with this hash."""
    record = record_at(context.store.message_log, offset)
    keys = declared.message_keys(record.properties, True) if record is not None else []
    return record is not None and any(index_key_hash(record.topic, key) == key_hash for key in keys)


def _dense_up_to(file: MappedFile, slots: int, items: int, capacity: int) -> int:
    """Return the number of the last entry before the first empty place after entry `items`."""
    for first in range(items + 1, capacity, CHUNK_ITEMS):
        count = min(CHUNK_ITEMS, capacity - first)
        places = np.frombuffer(read_at(file, declared.item_position(first, slots), count * ITEM_SIZE), np.uint8).reshape(count, ITEM_SIZE)
        empty = np.flatnonzero(~places.any(axis=1))
        if empty.size:
            return first + int(empty[0]) - 1
    return capacity - 1


def _last_item(file: MappedFile, slots: int, limit: int) -> int:
    """Return the number of the last entry at or below `limit` that is not empty, 0 for none. Holes are not read."""
    start = declared.item_position(1, slots)
    end = declared.item_position(limit, slots) + ITEM_SIZE
    for begin, stop in reversed(list(data_extents(file))):
        stop = min(stop, end)
        while stop > max(begin, start):
            at = max(begin, start, stop - WINDOW)
            filled = np.flatnonzero(np.frombuffer(read_at(file, at, stop - at), np.uint8))
            if filled.size:
                return (at + int(filled[-1]) - start) // ITEM_SIZE + 1
            stop = at
    return 0


def first_record_items(view: IndexView) -> int:
    """Return how many entries the first record of a file has there. Raises UnreadableError, StoreChangedError."""
    _, offsets = next(view.item_offsets(1, min(view.items, CHUNK_ITEMS) + 1))
    return _equal_run(offsets)


def last_record_items(view: IndexView) -> int:
    """Return how many entries the last record of a file has there. Raises UnreadableError, StoreChangedError."""
    _, offsets = next(view.item_offsets(max(view.items + 1 - CHUNK_ITEMS, 1), view.items + 1))
    return _equal_run(offsets[::-1])


def _equal_run(offsets: npt.NDArray[np.int64]) -> int:
    """Return how many offsets from the first one on are equal."""
    same = offsets == offsets[0]
    return len(same) if same.all() else int(np.argmin(same))


def first_item(view: IndexView, offset: int, start: int = 1) -> int:
    """Return the number of the first entry at or after `start` whose physical offset is not below `offset`; items + 1 for none.

    Offsets ascend unless an entry is damaged: a result that its neighbours contradict is found again by reading all entries.
    """
    low, high = start, view.items + 1
    while low < high:
        middle = (low + high) // 2
        if view.item_offset(middle) >= offset:
            high = middle
        else:
            low = middle + 1
    around = view.item_offsets(max(low - 3, start), min(low + 4, view.items + 1))
    if all(((offsets >= offset) == (np.arange(len(offsets)) >= low - first)).all() for first, offsets in around):
        return low
    for first, offsets in view.item_offsets(start, view.items + 1):
        reached = offsets >= offset
        # One entry that is out of line is damaged: its successor must have reached the offset too.
        follows = np.append(reached[1:], first + len(offsets) > view.items or view.item_offset(first + len(offsets)) >= offset)
        hits = np.flatnonzero(reached & follows)
        if hits.size:
            return first + int(hits[0])
    return view.items + 1


def item_finding(context: Context, code: str, message: str, view: IndexView, item: int, count: int = 1, **where: Any) -> Finding:
    """Return a finding about `count` entries from number `item` on."""
    place = {"position": view.item_position(item), "length": count * ITEM_SIZE}
    return context.finding(code, message, file=view.file.path, **place, **where)
