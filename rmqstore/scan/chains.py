"""The chains of an index file: following them, and finding out by them how many hash slots the file has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from rmqstore.formats import index as declared
from rmqstore.scan.kernels_index import ITEM_ROWS, ITEM_SIZE, LINK_DTYPE, SCRATCH_BYTES, follow_chains
from rmqstore.store.brokerconf import BrokerConfig
from rmqstore.store.mapped import MappedFile
from rmqstore.store.window import read_at

SHOWN_LINKS = 64
_SLOT = np.dtype(f">i{declared.SLOT_SIZE}")


class ChainFollower:
    """Follows the items of one index file in their order. 4 bytes of memory per slot."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._newest = np.zeros(slots + SCRATCH_BYTES // 4, np.int32)
        self._links = np.zeros(SHOWN_LINKS, LINK_DTYPE)
        self._addresses = (self._newest.ctypes.data, slots, self._links.ctypes.data, SHOWN_LINKS)
        self.wrong = 0  # items with a wrong link

    def take(self, base: int, first: int, count: int) -> None:
        """The next `count` items, which lie at address `base`; the first of them is item number `first`."""
        self.wrong = follow_chains(base, first, count, *self._addresses, self.wrong)

    @property
    def newest(self) -> npt.NDArray[np.int32]:
        """Number of the newest item of every slot, 0 for none."""
        return self._newest[: self._slots]

    @property
    def links(self) -> npt.NDArray[np.void]:
        """The first wrong links."""
        return self._links[: self.wrong]


def geometry(config: BrokerConfig, length: int) -> tuple[int, int] | None:
    """(slots, items) of an index file of this length: by the settings, the defaults, or the lengths of its own areas; None if none fits."""
    slots, items = config.explicit_integer("maxHashSlotNum"), config.explicit_integer("maxIndexNum")
    if slots and items:
        return (slots, items) if declared.file_size(slots, items) == length else None
    if length == declared.file_size(declared.DEFAULT_HASH_SLOT_NUM, declared.DEFAULT_INDEX_NUM):
        return declared.DEFAULT_HASH_SLOT_NUM, declared.DEFAULT_INDEX_NUM
    if slots and (length - declared.file_size(slots, 0)) % ITEM_SIZE == 0:
        return slots, (length - declared.file_size(slots, 0)) // ITEM_SIZE
    return None


def guess_geometry(files: Sequence[MappedFile]) -> tuple[int, int] | None:
    """(slots, items) found by trying: with the right number of slots every item stands in the chain of its own slot.

    Tries all divisions of the file length into slots and items for which item 0 is empty and item 1 begins at the header's begin offset.
    """
    for file in sorted(files, key=lambda each: each.start, reverse=True):
        found = _guess(file)
        if found is not None:
            return found
    return None


def _guess(file: MappedFile) -> tuple[int, int] | None:
    header = declared.HEADER.parse(read_at(file, 0, declared.HEADER_SIZE))
    count = int(header["index_count"])
    begin, end = int(header["begin_phy_offset"]), int(header["end_phy_offset"])
    if count < 2 or file.length > 64 << 20:
        return None
    data = np.frombuffer(read_at(file, 0, file.length), np.uint8)
    # The items reach to the end of the file, so that end decides where items can begin. Item 1 stores the begin offset and has no
    # earlier item; item 0 before it is empty.
    rows = np.frombuffer(data, ITEM_ROWS, offset=file.length % ITEM_SIZE)
    empty = (rows["key_hash"] == 0) & (rows["phy_offset"] == 0) & (rows["time_diff"] == 0) & (rows["prev_index"] == 0)
    first_items = (rows["phy_offset"][1:] == begin) & (rows["prev_index"][1:] == 0) & ~empty[1:] & empty[:-1]
    best: tuple[int, int, tuple[int, int]] | None = None
    for row in np.flatnonzero(first_items):
        items = len(rows) - int(row)
        start_of_items = file.length - items * ITEM_SIZE
        slots = (start_of_items - declared.HEADER_SIZE) // declared.SLOT_SIZE
        if slots < 1 or items < count or declared.file_size(slots, items) != file.length:
            continue
        chains = ChainFollower(slots)
        chains.take(data.ctypes.data + declared.item_position(1, slots), 1, count - 1)
        # A few items stand in chains of their own with almost any number of slots: the slots have to name them as well.
        stored = np.frombuffer(data, _SLOT, slots, declared.slot_position(0))
        astray = int(np.count_nonzero(stored != chains.newest)) + (int(rows["phy_offset"][row + count - 1]) != end)
        found = (chains.wrong + astray, chains.wrong, (slots, items))
        best = found if best is None else min(best, found)
    return best[2] if best and best[1] * 2 < count else None
