"""The numbers of hash slots and entries of an index file: by the settings, by its length, or by its own entries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
_CERTAIN = 8
"""Entries without a fitting header that show a division, and how many of them have to be right for each wrong one."""
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
    offset; with a damaged header those that nearly all entries and slots fit. The newest file with an answer decides.
    Raises UnreadableError, StoreChangedError.
    """
    for file in sorted(files, key=lambda each: each.start, reverse=True):
        found = _guess(file)
        if found is not None:
            return found
    return None


def _guess(file: MappedFile) -> tuple[int, int] | None:
    header = declared.HEADER.parse(read_at(file, 0, declared.HEADER_SIZE))
    data = np.frombuffer(read_at(file, 0, min(file.length, _SEARCHED)), np.uint8)
    # The entries extend to the end of the file, which limits where they can begin. Entry 1 stores the begin offset and has no
    # earlier entry; entry 0 before it is empty.
    skipped = file.length % declared.ITEM_SIZE
    rows = np.frombuffer(data, _ITEM, (len(data) - skipped) // declared.ITEM_SIZE, skipped)
    empty = (rows["key_hash"] == 0) & (rows["phy_offset"] == 0) & (rows["time_diff"] == 0) & (rows["prev_index"] == 0)
    may_begin = (rows["prev_index"][1:] == 0) & ~empty[1:] & empty[:-1]
    places, count = np.flatnonzero(may_begin & (rows["phy_offset"][1:] == header["begin_phy_offset"])), int(header["index_count"])
    found = _best(file, data, rows, dict.fromkeys(_likely(rows, places, count).tolist(), count)) if count >= 2 else None
    if found is None and len(data) == file.length and not empty.all():
        # The header is damaged: the entries extend to the last one that is not empty.
        end = int(np.flatnonzero(~empty)[-1]) + 1
        fits = int(rows["phy_offset"][end - 1]) == header["end_phy_offset"]
        begins = _likely(rows, places if fits and places.size else np.flatnonzero(may_begin), end)
        found = _best(file, data, rows, {row: end - row for row in begins.tolist() if end - row >= 2})
        if found is not None and not fits and not found.wrong * _CERTAIN <= found.entries >= _CERTAIN:
            return None
    return None if found is None else found.shape


@dataclass(frozen=True, slots=True)
class _Found:
    """A division of a file into slots and entries, with how many slots and entries are wrong with it, of so many entries."""

    wrong: int
    wrong_links: int
    shape: tuple[int, int]
    entries: int


def _best(file: MappedFile, data: npt.NDArray[np.uint8], rows: npt.NDArray[np.void], counts: Mapping[int, int]) -> _Found | None:
    """Return the division that most entries fit, None without any. `counts`: the number of entries with entry 0, by the row of that."""
    skipped = file.length % declared.ITEM_SIZE
    header = declared.HEADER.parse(data[: declared.HEADER_SIZE].tobytes())
    possible: list[_Found] = []
    for row, count in counts.items():
        slots, rest = divmod(skipped + row * declared.ITEM_SIZE - declared.HEADER_SIZE, declared.SLOT_SIZE)
        items = (file.length - skipped) // declared.ITEM_SIZE - row
        if slots < 1 or rest or items < count:
            continue
        followed = rows[row + 1 : row + count]
        wrong, astray = _astray(data, followed, slots, whole=len(followed) == count - 1)
        last = declared.ITEM.parse(read_at(file, declared.item_position(count - 1, slots), declared.ITEM_SIZE))
        if wrong * 2 < len(followed) + 1:
            all_wrong = wrong + astray + (int(last.phy_offset) != header["end_phy_offset"])
            possible.append(_Found(all_wrong, wrong, (slots, items), len(followed)))
    return min(possible, key=lambda one: (one.wrong, one.wrong_links, one.shape), default=None)


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
