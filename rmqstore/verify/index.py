"""Index files: header, slots and chains of each file, and a cursor that compares their entries with the keys of the log."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from rmqstore.errors import RmqstoreError
from rmqstore.findings import Finding
from rmqstore.formats import index as declared
from rmqstore.formats.javahash import index_key_hash
from rmqstore.formats.layout import fixed_layout
from rmqstore.reading.records import record_at
from rmqstore.scan.chains import SHOWN_LINKS, ChainFollower
from rmqstore.scan.indexshape import geometry, guess_geometry
from rmqstore.scan.kernels.index import (
    ITEM_ROWS,
    ITEM_SIZE,
    ITEMS_END,
    LINK_DTYPE,
    MATCHED_DTYPE,
    ODDITY_DTYPE,
    ItemOddity,
    match_items,
)
from rmqstore.scan.kernels.raw import first_nonzero
from rmqstore.scan.ranges import in_ranges
from rmqstore.store.mapped import MappedFile
from rmqstore.store.window import data_extents, map_window, open_read_only, read_at, read_descriptor_into, read_into
from rmqstore.verify.context import Context

HEADER_LAYOUT = fixed_layout(declared.HEADER)
_SLOT = np.dtype(f">i{declared.SLOT_SIZE}")
WINDOW = 8 << 20
_CHUNK_ITEMS = 16_384
_LOOK_AHEAD = 64
_LOOK_BACK = 64
_FOLLOWED_BYTES = 5 << 19  # a whole number of items and of slots


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

    def item_position(self, item: int) -> int:
        """Return the position in the file of an entry."""
        return declared.item_position(item, self.slots)

    def item_offset(self, item: int) -> int:
        """Return the physical offset that an entry stores."""
        return int(declared.ITEM.parse(read_at(self.file, self.item_position(item), ITEM_SIZE))["phy_offset"])

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
    header = declared.HEADER.parse(read_at(file, 0, declared.HEADER_SIZE))
    items = min(max(int(header["index_count"]) - 1, 0), capacity - 1)

    def offset(item: int) -> int:
        return int(declared.ITEM.parse(read_at(file, declared.item_position(item, slots), ITEM_SIZE))["phy_offset"])

    # A header with a wrong count must not hide entries: they are dense, so an empty place after the last is the end.
    items = _dense_up_to(file, slots, items, capacity)
    while items > 0 and not any(read_at(file, declared.item_position(items, slots), ITEM_SIZE)):
        items = _last_item(file, slots, items)
    first_hash = int(declared.ITEM.parse(read_at(file, declared.item_position(1, slots), ITEM_SIZE))["key_hash"]) if items else 0
    first_offset = _first_offset(context, offset(1), int(header["begin_phy_offset"]), first_hash) if items else 0
    begin = _begin(context, int(header["begin_timestamp"]), first_offset)
    return IndexView(
        file,
        slots,
        capacity,
        items,
        begin,
        int(header["begin_timestamp"]),
        int(header["end_timestamp"]),
        int(header["begin_phy_offset"]),
        int(header["end_phy_offset"]),
        int(header["hash_slot_count"]),
        int(header["index_count"]),
        _whole_seconds(earlier_end, begin),
        first_offset,
        first_hash,
        offset(items) if items else 0,
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
    for first in range(items + 1, capacity, _CHUNK_ITEMS):
        count = min(_CHUNK_ITEMS, capacity - first)
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


@dataclass(frozen=True, slots=True)
class Chains:
    """The wrong links and slots of one index file (the first ones as rows, all counted), and how many slots are used."""

    links: npt.NDArray[np.void]
    wrong_links: int
    slots: npt.NDArray[np.void]
    wrong_slots: int
    used_slots: int


def follow(view: IndexView) -> Chains:
    """Follow all entries of a file once. Raises UnreadableError and StoreChangedError."""
    chains = ChainFollower(view.slots)
    buffer = np.zeros(_FOLLOWED_BYTES, np.uint8)
    base = buffer.ctypes.data
    with open_read_only(view.file.path) as descriptor:
        for first in range(1, view.items + 1, _FOLLOWED_BYTES // ITEM_SIZE):
            count = min(_FOLLOWED_BYTES // ITEM_SIZE, view.items + 1 - first)
            read_descriptor_into(descriptor, view.file.path, view.item_position(first), buffer[: count * ITEM_SIZE])
            chains.take(base, first, count)
        wrong_slots = 0
        rows: list[tuple[int, ...]] = []
        for first in range(0, view.slots, _FOLLOWED_BYTES // declared.SLOT_SIZE):
            newest = chains.newest[first : first + _FOLLOWED_BYTES // declared.SLOT_SIZE]
            piece = buffer[: newest.size * declared.SLOT_SIZE]
            read_descriptor_into(descriptor, view.file.path, declared.slot_position(first), piece)
            slots = piece.view(_SLOT)
            differing = np.flatnonzero(slots != newest)
            if differing.size:
                explained = [_names_newer(view, first + number, int(slots[number]), int(newest[number])) for number in differing.tolist()]
                differing = differing[~np.array(explained)]
            wrong_slots += differing.size
            shown = differing[: max(SHOWN_LINKS - len(rows), 0)]
            rows += [(0, first + number, newest[number], slots[number]) for number in shown.tolist()]
    return Chains(chains.links, chains.wrong, np.array(rows, LINK_DTYPE), wrong_slots, int(np.count_nonzero(chains.newest)))


def _names_newer(view: IndexView, slot: int, found: int, newest: int) -> bool:
    """Return whether a slot names an entry that was written since the entries were counted, and whose chain continues at `newest`."""
    for _ in range(view.capacity):
        if not view.items < found < view.capacity:
            break
        data = read_at(view.file, view.item_position(found), ITEM_SIZE)
        item = declared.ITEM.parse(data)
        if not any(data) or item.key_hash % view.slots != slot or item.prev_index >= found:
            return False
        found = int(item.prev_index)
    return found == newest


def check_file(context: Context, view: IndexView, chains: Chains) -> Iterator[Finding]:
    """Yield findings about header, slots and chains of one file."""
    for link in chains.links:
        yield context.finding(
            "RMQ-IX-CHAIN",
            f"entry {link['item']} links to entry {link['found']}, but the entry before it in slot {link['slot']} is {link['expected']}",
            file=view.file.path,
            position=view.item_position(int(link["item"])),
            length=ITEM_SIZE,
            expected=int(link["expected"]),
            found=int(link["found"]),
        )
    if chains.wrong_links > SHOWN_LINKS:
        message = f"{chains.wrong_links} entries in total have a wrong link"
        yield context.finding("RMQ-IX-CHAIN", message, file=view.file.path, found=chains.wrong_links)
    for link in chains.slots:
        yield context.finding(
            "RMQ-IX-SLOT",
            f"slot {link['slot']} names entry {link['found']}, but its newest entry is {link['expected']}",
            file=view.file.path,
            position=declared.slot_position(int(link["slot"])),
            length=declared.SLOT_SIZE,
            expected=int(link["expected"]),
            found=int(link["found"]),
        )
    if chains.wrong_slots > SHOWN_LINKS:
        message = f"{chains.wrong_slots} slots in total name a wrong entry"
        yield context.finding("RMQ-IX-SLOT", message, file=view.file.path, found=chains.wrong_slots)
    yield from _check_header(context, view, chains.used_slots)
    yield from _check_trailing(context, view)


def _check_header(context: Context, view: IndexView, used_slots: int) -> Iterator[Finding]:
    first, last = view.first_offset, view.last_offset
    # A file without entries has 0 or 1 (a flush writes 1) and what it took over from the file before.
    if view.items == 0:
        if view.index_count not in (0, 1):
            yield _header_finding(context, view, "RMQ-IX-COUNT", "index_count", 1, view.index_count)
        return
    if view.index_count != view.items + 1:
        yield _header_finding(context, view, "RMQ-IX-COUNT", "index_count", view.items + 1, view.index_count)
    if view.hash_slot_count not in (used_slots, view.items):
        yield _header_finding(context, view, "RMQ-IX-HEADER", "hash_slot_count", used_slots, view.hash_slot_count)
    if view.begin_phy_offset != first:
        yield _header_finding(context, view, "RMQ-IX-HEADER", "begin_phy_offset", first, view.begin_phy_offset)
    if view.end_phy_offset != last:
        yield _header_finding(context, view, "RMQ-IX-HEADER", "end_phy_offset", last, view.end_phy_offset)
    for name, found, offset in (("begin_timestamp", view.begin_timestamp, first), ("end_timestamp", view.end_timestamp, last)):
        record = context.record_at(offset)
        if record is not None and record.store_timestamp != found:
            yield _header_finding(context, view, "RMQ-IX-HEADER", name, record.store_timestamp, found)


def _header_finding(context: Context, view: IndexView, code: str, name: str, expected: int, found: int) -> Finding:
    field_place = HEADER_LAYOUT[name]
    return context.finding(
        code,
        f"{name} of the header does not match the entries",
        file=view.file.path,
        position=field_place.offset,
        length=field_place.width,
        expected=expected,
        found=found,
    )


def _check_trailing(context: Context, view: IndexView) -> Iterator[Finding]:
    """Yield findings where entry 0 and the places after the last entry are not zero."""
    ranges = [(view.item_position(0), view.item_position(1)), (view.item_position(view.items + 1), view.file.length)]
    for start, end in ranges:
        for begin, stop in data_extents(view.file):
            for at in range(max(begin, start), min(stop, end), WINDOW):
                with map_window(view.file, at, min(WINDOW, min(stop, end) - at)) as window:
                    array = window.array
                    found = first_nonzero(array.ctypes.data, 0, array.size)
                if found < array.size:
                    yield context.finding(
                        "RMQ-IX-TRAILING",
                        "bytes other than zero where no entry is",
                        file=view.file.path,
                        position=at + found,
                        length=1,
                    )
                    break


@dataclass(slots=True)
class IndexMatch:
    """The comparison of one commit-log file with the index. Uncovered = keys for which no index file claims to hold entries."""

    matched: int = 0
    oddities: list[tuple[IndexView, npt.NDArray[np.void]]] = field(default_factory=list)
    before: int = 0  # keys before the first index file
    between: int = 0
    behind: int = 0  # keys after the last index file
    between_position: int = 0
    first_key_position: int = -1
    behind_position: int = -1
    leftovers: list[tuple[IndexView, int, int]] = field(default_factory=list)  # entries [from, to) without a key in the log


class IndexCursor:
    """A cursor over the entries of all index files beside the records of one commit-log file."""

    def __init__(self, views: Sequence[IndexView]) -> None:
        self._views = [view for view in views if view.items]
        self.result = IndexMatch()
        self._file = 0
        self._item = 1
        self._chunk_first = 0
        self._chunk_items = 0
        self._chunk_of: IndexView | None = None
        self._chunk = np.zeros(_CHUNK_ITEMS * ITEM_SIZE, np.uint8)
        self._matched = np.zeros(1, MATCHED_DTYPE)
        self._matched["last_offset"] = np.iinfo(np.int64).max  # that of no entry before a key
        self._oddities = np.zeros(256, ODDITY_DTYPE)
        self._addresses = tuple(array.ctypes.data for array in (self._chunk, self._matched, self._oddities))

    def seek(self, offset: int) -> None:
        """Go to the first entry whose physical offset is not below `offset`."""
        for number, view in enumerate(self._views):
            if view.last_offset >= offset or _runs_past(view, offset):
                self._file, self._item = number, 1 if view.first_offset >= offset else _first_item(view, offset)
                return
        self._file, self._item = len(self._views), 1

    def _load(self, view: IndexView) -> tuple[int, bool]:
        """Buffer entries at the cursor, and return (number of them, whether the buffer reaches the last entry)."""
        behind = self._chunk_first + self._chunk_items
        here = self._chunk_of is view and self._chunk_first <= self._item < behind
        if not here or (behind <= view.items and self._item + _LOOK_AHEAD >= behind):
            # Some entries before the cursor show whether one is there for the second time.
            first = max(self._item - _LOOK_BACK, 1)
            self._chunk_of, self._chunk_items = None, min(_CHUNK_ITEMS, view.items + 1 - first)
            read_into(view.file, view.item_position(first), self._chunk[: self._chunk_items * ITEM_SIZE])
            self._chunk_first, self._chunk_of = first, view
            behind = first + self._chunk_items
        return self._chunk_items, behind > view.items

    def match(self, records: npt.NDArray[np.void], keys: npt.NDArray[np.void]) -> None:
        """Compare the keys of the next records with the entries at the cursor."""
        result = self.result
        key = 0
        if result.first_key_position < 0:
            result.first_key_position = int(records["position"][keys["record"][0]])
        while key < keys.size:
            if self._file >= len(self._views):
                positions = records["position"][keys["record"]]
                plain = keys["is_tag"] == 0
                missed = int(np.count_nonzero(plain[key:]))
                if missed and result.behind_position < 0:
                    result.behind_position = int(positions[key:][np.argmax(plain[key:])])
                result.behind += missed
                return
            view = self._views[self._file]
            if self._item == 1:
                positions = records["position"][keys["record"]]
                plain = keys["is_tag"] == 0
                covered = int(np.searchsorted(positions, view.first_offset, side="left"))
                if covered > key and not _is_outlier(view):
                    missed = int(np.count_nonzero(plain[key:covered]))
                    if self._file == 0:
                        result.before += missed
                    elif missed:
                        result.between_position = result.between_position or int(positions[key])
                        result.between += missed
                    key = covered
                    if key >= keys.size:
                        return
                key = self._skip_straddled(view, positions, keys, key)
            count, last = self._load(view)
            chunk, matched, oddities = self._addresses
            key, local, used, state = match_items(
                records.ctypes.data,
                keys.ctypes.data,
                key,
                keys.size,
                chunk,
                self._chunk_first,
                self._item - self._chunk_first,
                count,
                int(last),
                view.begin,
                view.first_seconds,
                matched,
                oddities,
                self._oddities.size,
            )
            self._item = self._chunk_first + local
            if used:
                result.oddities.append((view, self._oddities[:used].copy()))
            if state == ITEMS_END and last:
                self._file += 1
                self._item = 1

    def _skip_straddled(self, view: IndexView, positions: npt.NDArray[np.int64], keys: npt.NDArray[np.void], key: int) -> int:
        """Return the first key in this file: keys of one message may begin in an earlier file, and those are gone if that file is."""
        if key >= keys.size or positions[key] != view.first_offset:
            return key
        same = int(np.searchsorted(positions, view.first_offset, side="right"))
        hits = np.flatnonzero(keys["hash"][key:same] == view.first_hash)
        if hits.size > 1:
            # A message may have the same key twice: as many of its keys are here as there are entries of it, with tags or without.
            items, tags = first_record_items(view), int(np.count_nonzero(keys["is_tag"][key:same]))
            left = same - key - hits
            hits = np.concatenate([hits[(left == items) | (left - tags == items)], hits])
        return key + int(hits[0]) if hits.size else key

    def finish(self, end: int) -> IndexMatch:
        """Collect the entries below physical offset `end` that no key came up for, and return the result."""
        while self._file < len(self._views):
            view = self._views[self._file]
            stop = _first_item(view, end, self._item)
            if stop > self._item:
                self.result.leftovers.append((view, self._item, stop))
            if stop <= view.items:
                break
            self._file += 1
            self._item = 1
        self.result.matched = int(self._matched["items"][0])
        return self.result


def first_record_items(view: IndexView) -> int:
    """Return how many entries the first record of a file has there. Raises UnreadableError, StoreChangedError."""
    _, offsets = next(view.item_offsets(1, min(view.items, _CHUNK_ITEMS) + 1))
    return _equal_run(offsets)


def last_record_items(view: IndexView) -> int:
    """Return how many entries the last record of a file has there. Raises UnreadableError, StoreChangedError."""
    _, offsets = next(view.item_offsets(max(view.items + 1 - _CHUNK_ITEMS, 1), view.items + 1))
    return _equal_run(offsets[::-1])


def _equal_run(offsets: npt.NDArray[np.int64]) -> int:
    """Return how many offsets from the first one on are equal."""
    same = offsets == offsets[0]
    return len(same) if same.all() else int(np.argmin(same))


def _is_outlier(view: IndexView) -> bool:
    """Return whether the offset of entry 1 is after that of entry 2: then it does not show where the file begins."""
    return view.items > 1 and view.item_offset(2) < view.first_offset


def _runs_past(view: IndexView, offset: int) -> bool:
    """Return whether the file reaches `offset` although its last entry does not show it."""
    return view.items > 1 and view.item_offset(view.items - 1) >= offset


def _first_item(view: IndexView, offset: int, start: int = 1) -> int:
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
    around = [number for number in range(low - 3, low + 4) if start <= number <= view.items]
    if all((view.item_offset(number) >= offset) == (number >= low) for number in around):
        return low
    for first, offsets in view.item_offsets(start, view.items + 1):
        reached = offsets >= offset
        # One entry that is out of line is damaged: its successor must have reached the offset too.
        follows = np.append(reached[1:], first + len(offsets) > view.items or view.item_offset(first + len(offsets)) >= offset)
        hits = np.flatnonzero(reached & follows)
        if hits.size:
            return first + int(hits[0])
    return view.items + 1


ODDITY_TEXT: dict[ItemOddity, tuple[str, str]] = {
    ItemOddity.BOGUS: ("RMQ-IX-ITEM", "entry {item} belongs to no key of the log"),
    ItemOddity.HASH: ("RMQ-IX-ITEM", "the hash of entry {item} is not that of the record's key"),
    ItemOddity.OFFSET: ("RMQ-IX-ITEM", "the physical offset of entry {item} is not that of the record with this key"),
    ItemOddity.TIME: ("RMQ-IX-TIME", "the time difference of entry {item} does not match the record's STORETIMESTAMP"),
    ItemOddity.MISSING: ("RMQ-IX-MISSING", "a key of the record is not in the index"),
    ItemOddity.DUPLICATE: ("RMQ-IX-DUPLICATE", "entry {item} indexes the same record as the entry before it"),
}


def of_match(context: Context, match: IndexMatch) -> Iterator[Finding]:
    """Yield the findings of one comparison."""
    for view, rows in match.oddities:
        for row in rows:
            kind = ItemOddity(int(row["oddity"]))
            code, text = ODDITY_TEXT[kind]
            item = int(row["item"])
            missing = kind is ItemOddity.MISSING
            if kind is ItemOddity.BOGUS and context.log.is_damaged(int(row["found"])):
                continue
            yield context.finding(
                code,
                text.format(item=item),
                file=view.file.path,
                position=view.item_position(item),
                length=0 if missing else ITEM_SIZE,
                offset=int(row["position"]),
                expected=int(row["expected"]),
                found=None if missing else int(row["found"]),
            )
    for view, start, stop in match.leftovers:
        undamaged = _undamaged(context, view, start, stop)
        if undamaged.size:
            first, last = int(undamaged[0]), int(undamaged[-1])
            yield context.finding(
                "RMQ-IX-ITEM",
                f"{undamaged.size} entries from entry {first} on point to no record of the log with a key",
                file=view.file.path,
                position=view.item_position(first),
                length=(last + 1 - first) * ITEM_SIZE,
                offset=view.item_offset(first),
            )


def _undamaged(context: Context, view: IndexView, start: int, stop: int) -> npt.NDArray[np.int64]:
    """Return the numbers of the entries in [start, stop) that do not point into a damaged range of the log."""
    kept = [np.zeros(0, np.int64)]
    for first, offsets in view.item_offsets(start, stop):
        kept.append(first + np.flatnonzero(~in_ranges(offsets, context.log.damages)))
    return np.concatenate(kept)


def beyond(context: Context, views: Sequence[IndexView]) -> Iterator[Finding]:
    """Yield findings about entries for records after the end of the log."""
    end = context.log.end_offset
    for view in views:
        first = _first_item(view, end)
        if first <= view.items:
            count = view.items + 1 - first
            yield context.finding(
                "RMQ-IX-BEYOND",
                f"{count} entries from entry {first} on are of records that the log does not have: it ends at {end}",
                file=view.file.path,
                position=view.item_position(first),
                length=count * ITEM_SIZE,
                offset=view.item_offset(first),
                found=view.item_offset(first),
            )


def check_order(context: Context, views: Sequence[IndexView]) -> Iterator[Finding]:
    """Yield findings about files whose entries begin before those of the file before, by name, end."""
    for before, after in itertools.pairwise(view for view in views if view.items):
        if after.first_offset < before.last_offset:
            yield context.finding(
                "RMQ-IX-ORDER",
                f"the entries begin before those of {before.file.path.name} end",
                file=after.file.path,
                position=after.item_position(1),
                offset=after.first_offset,
                expected=before.last_offset,
                found=after.first_offset,
            )


def coverage(context: Context, matches: Sequence[IndexMatch], views: Sequence[IndexView]) -> Iterator[Finding]:
    """Yield findings about keys of the log for which no index file claims to hold entries: before, between and after the files."""
    before = sum(match.before for match in matches)
    between = sum(match.between for match in matches)
    behind = sum(match.behind for match in matches)
    where: dict[str, object] = {"file": views[0].file.path} if views else {"file": "index"}
    if before:
        first = next(match.first_key_position for match in matches if match.first_key_position >= 0)
        yield context.finding(
            "RMQ-IX-INCOMPLETE",
            f"{before} keys of the log are before the first index file",
            offset=first,
            found=before,
            **where,
        )
    if between:
        position = next(match.between_position for match in matches if match.between)
        yield context.finding(
            "RMQ-IX-INCOMPLETE",
            f"{between} keys of the log are between two index files",
            offset=position,
            found=between,
            **where,
        )
    if behind:
        position = next(match.behind_position for match in matches if match.behind)
        indexed = any(view.items for view in views)
        if indexed:
            message = f"{behind} keys of the log are after the last entry of the index"
            yield context.finding("RMQ-IX-BEHIND", message, offset=position, found=behind, file=views[-1].file.path)
        else:
            message = f"none of the {behind} keys of the log has an index entry"
            where = {"file": views[-1].file.path if views else "index"}
            yield context.finding("RMQ-IX-INCOMPLETE", message, offset=position, expected=behind, found=0, **where)
