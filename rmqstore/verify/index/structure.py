"""Header, slots and chains of one index file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rmqstore.findings import Finding
from rmqstore.formats import index as declared
from rmqstore.scan.chains import SHOWN_LINKS, ChainFollower
from rmqstore.scan.kernels.index import (
    ITEM_SIZE,
    LINK_DTYPE,
)
from rmqstore.scan.kernels.raw import first_nonzero
from rmqstore.store.window import data_extents, map_window, open_read_only, read_at, read_descriptor_into
from rmqstore.verify.context import Context
from rmqstore.verify.index.views import HEADER_LAYOUT, WINDOW, IndexView

_SLOT = np.dtype(f">i{declared.SLOT_SIZE}")
_FOLLOWED_BYTES = 5 << 19  # a whole number of items and of slots


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
        text = f"entry {link['item']} links to entry {link['found']}, but the entry before it in slot {link['slot']} is {link['expected']}"
        yield _finding(
            context, view, "RMQ-IX-CHAIN", text, (view.item_position(int(link["item"])), ITEM_SIZE), link["expected"], link["found"]
        )
    if chains.wrong_links > SHOWN_LINKS:
        message = f"{chains.wrong_links} entries in total have a wrong link"
        yield context.finding("RMQ-IX-CHAIN", message, file=view.file.path, found=chains.wrong_links)
    for link in chains.slots:
        text = f"slot {link['slot']} names entry {link['found']}, but its newest entry is {link['expected']}"
        place = declared.slot_position(int(link["slot"])), declared.SLOT_SIZE
        yield _finding(context, view, "RMQ-IX-SLOT", text, place, link["expected"], link["found"])
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
    place = HEADER_LAYOUT[name]
    return _finding(context, view, code, f"{name} of the header does not match the entries", (place.offset, place.width), expected, found)


def _finding(
    context: Context, view: IndexView, code: str, text: str, place: tuple[int, int], expected: int | np.int64, found: int | np.int64
) -> Finding:
    """Return a finding about a number in a file; `place` is its position and length."""
    position, length = place
    return context.finding(code, text, file=view.file.path, position=position, length=length, expected=int(expected), found=int(found))


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
