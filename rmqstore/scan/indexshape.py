"""The numbers of hash slots and entries of an index file: by the settings, by its length, or by its own entries."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from rmqstore.formats import index as declared
from rmqstore.formats.layout import fixed_layout
from rmqstore.store.brokerconf import BrokerConfig
from rmqstore.store.mapped import MappedFile
from rmqstore.store.window import read_at

_SLOT = np.dtype(f">i{declared.SLOT_SIZE}")
_ITEM = np.dtype([(name, f">i{place.width}") for name, place in fixed_layout(declared.ITEM).items()])
_SEARCHED = 64 << 20
"""Bytes at the start of a file in which its first entry is searched, and whose entries are followed."""
_TRIED = 32
_LOOKED_AT = 64
"""Divisions of a file whose chains are followed, those whose first so many entries are the most plausible."""


def geometry(config: BrokerConfig, length: int) -> tuple[int, int] | None:
    """Return (slots, entries) of an index file of this length by the settings or the defaults, None if they do not fit."""
    slots, items = config.explicit_integer("maxHashSlotNum"), config.explicit_integer("maxIndexNum")
    if slots and items:
        return (slots, items) if declared.file_size(slots, items) == length else None
    if length == declared.file_size(declared.DEFAULT_HASH_SLOT_NUM, declared.DEFAULT_INDEX_NUM):
        return declared.DEFAULT_HASH_SLOT_NUM, declared.DEFAULT_INDEX_NUM
    if slots and (length - declared.file_size(slots, 0)) % declared.ITEM_SIZE == 0:
        return slots, (length - declared.file_size(slots, 0)) // declared.ITEM_SIZE
    return None


def guess_geometry(files: Sequence[MappedFile]) -> tuple[int, int] | None:
    """Return (slots, entries) found by trial: with the right number of slots every entry is in the chain of its own slot.

    Tries all divisions of the length of a file into slots and entries for which entry 0 is empty and entry 1 begins at the header's begin
    offset; the newest file with an answer decides. Raises UnreadableError, StoreChangedError.
    """
    for file in sorted(files, key=lambda each: each.start, reverse=True):
        found = _guess(file)
        if found is not None:
            return found
    return None


def _guess(file: MappedFile) -> tuple[int, int] | None:
    header = declared.HEADER.parse(read_at(file, 0, declared.HEADER_SIZE))
    count = int(header["index_count"])
    if count < 2:
        return None
    data = np.frombuffer(read_at(file, 0, min(file.length, _SEARCHED)), np.uint8)
    # The entries extend to the end of the file, which limits where they can begin. Entry 1 stores the begin offset and has no
    # earlier entry; entry 0 before it is empty.
    skipped = file.length % declared.ITEM_SIZE
    rows = np.frombuffer(data, _ITEM, (len(data) - skipped) // declared.ITEM_SIZE, skipped)
    empty = (rows["key_hash"] == 0) & (rows["phy_offset"] == 0) & (rows["time_diff"] == 0) & (rows["prev_index"] == 0)
    first_items = (rows["phy_offset"][1:] == header["begin_phy_offset"]) & (rows["prev_index"][1:] == 0) & ~empty[1:] & empty[:-1]
    best: tuple[int, int, tuple[int, int]] | None = None
    for row in _likely(rows, np.flatnonzero(first_items), count).tolist():
        slots, rest = divmod(skipped + row * declared.ITEM_SIZE - declared.HEADER_SIZE, declared.SLOT_SIZE)
        items = (file.length - skipped) // declared.ITEM_SIZE - row
        if slots < 1 or rest or items < count:
            continue
        followed = rows[row + 1 : row + count]
        wrong, astray = _astray(data, followed, slots, whole=len(followed) == count - 1)
        last = declared.ITEM.parse(read_at(file, declared.item_position(count - 1, slots), declared.ITEM_SIZE))
        found = (wrong + astray + (int(last.phy_offset) != header["end_phy_offset"]), wrong, (slots, items))
        if wrong * 2 < len(followed) + 1:
            best = found if best is None else min(best, found)
    return best[2] if best else None


def _likely(rows: npt.NDArray[np.void], places: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.int64]:
    """Return those `places` of entry 0 after which most bytes fit entries: links to older entries, and offsets that rise."""
    unlike = np.zeros(len(places), np.int64)
    for number in range(2, min(count, _LOOKED_AT)):
        items = rows[np.minimum(places + number, len(rows) - 1)]
        earlier = rows[np.minimum(places + number - 1, len(rows) - 1)]
        unlike += (items["prev_index"] < 0) | (items["prev_index"] >= number) | (items["phy_offset"] < earlier["phy_offset"])
    return places[np.argsort(unlike, kind="stable")[:_TRIED]]


def _astray(data: npt.NDArray[np.uint8], items: npt.NDArray[np.void], slots: int, *, whole: bool) -> tuple[int, int]:
    """Return how many entries, numbered from 1, have a wrong link, and how many slots do not name the newest entry of their chain.

    A few entries are in chains of their own with almost any number of slots: the slots have to name them as well. They can be checked
    only if `whole`, all entries, are given.
    """
    if not len(items):
        return 0, 0
    numbers = np.arange(1, len(items) + 1)
    slot = items["key_hash"].astype(np.int64) % slots
    order = np.argsort(slot, kind="stable")
    ordered = slot[order]
    follows = np.concatenate([[False], ordered[1:] == ordered[:-1]])
    expected = np.zeros(len(items), np.int64)
    expected[order] = np.where(follows, numbers[np.concatenate([[0], order[:-1]])], 0)
    wrong = int(np.count_nonzero(items["prev_index"] != expected))
    if not whole:
        return wrong, 0
    newest = np.zeros(slots, np.int64)
    newest[slot] = numbers  # the last one counts
    return wrong, int(np.count_nonzero(np.frombuffer(data, _SLOT, slots, declared.slot_position(0)) != newest))
