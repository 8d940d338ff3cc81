"""Index files of tiered storage as tables: local ones of either generation, and the compacted form that is uploaded as a segment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rmqstore.formats import tiered_index
from rmqstore.formats.tiered_index import Generation
from rmqstore.scan.columns import integer_columns
from rmqstore.store.mapped import MappedFile
from rmqstore.store.window import map_window, read_at

SLOT_DTYPE = integer_columns(tiered_index.SLOT)
ITEM_DTYPE = integer_columns(tiered_index.ITEM)
COMPACTED_SLOT_DTYPE = integer_columns(tiered_index.COMPACTED_SLOT)
COMPACTED_ITEM_DTYPE = integer_columns(tiered_index.COMPACTED_ITEM)
HEADER_SIZE: int = tiered_index.HEADER.sizeof()
_WINDOW_ITEMS = 1 << 18
_ITEMS_PER_SLOT = 4


@dataclass(frozen=True, slots=True)
class TieredIndex:
    """One index file. `generation` is None for the compacted form; `items`: entries that the header counts, at most those that fit."""

    file: MappedFile
    generation: Generation | None
    slots: int
    items: int
    counted: int
    begin_timestamp: int
    end_timestamp: int

    @property
    def item_dtype(self) -> np.dtype[np.void]:
        """Return the form of an entry."""
        return COMPACTED_ITEM_DTYPE if self.generation is None else ITEM_DTYPE

    @property
    def slot_dtype(self) -> np.dtype[np.void]:
        """Return the form of a slot."""
        return COMPACTED_SLOT_DTYPE if self.generation is None else SLOT_DTYPE

    @property
    def first_item(self) -> int:
        """Return the number of the first entry."""
        return 0 if self.generation is None else self.generation.first_item

    def position_of(self, item: int) -> int:
        """Return the position in the file (bytes) of the entry with a number."""
        return int(HEADER_SIZE + self.slots * self.slot_dtype.itemsize + item * self.item_dtype.itemsize)

    def read_slots(self) -> npt.NDArray[np.void]:
        """Return all slots. Raises UnreadableError, StoreChangedError."""
        with map_window(self.file, HEADER_SIZE, self.slots * self.slot_dtype.itemsize) as window:
            return window.array.view(self.slot_dtype).copy()

    def windows(self) -> Iterator[tuple[int, npt.NDArray[np.void]]]:
        """Yield the entries in order, at most 2^18 at a time, with the number of the first. Raises UnreadableError, StoreChangedError."""
        for done in range(0, self.items, _WINDOW_ITEMS):
            first, count = self.first_item + done, min(_WINDOW_ITEMS, self.items - done)
            with map_window(self.file, self.position_of(first), count * self.item_dtype.itemsize) as window:
                yield first, window.array.view(self.item_dtype).copy()


def tiered_index_of(file: MappedFile, slots: int | None = None, items: int | None = None) -> TieredIndex | None:
    """Return the layout of an index file by its header and length, None where they do not fit. Raises UnreadableError, StoreChangedError.

    `slots` and `items`: settings of the local files, if they are known; otherwise entries per slot are four, as by default.
    """
    if file.length < HEADER_SIZE:
        return None
    header = tiered_index.HEADER.parse(read_at(file, 0, HEADER_SIZE))
    count = int(header.item_count)
    compacted = _compacted_slots(file, int(header.magic), count)
    if compacted is not None:
        return TieredIndex(file, None, compacted, count, count, header.begin_timestamp, header.end_timestamp)
    found = _local_layout(file, slots, items)
    if found is None:
        return None
    generation, slot_count = found
    room = (file.length - generation.item_position(generation.first_item, slot_count)) // ITEM_DTYPE.itemsize
    return TieredIndex(file, generation, slot_count, max(0, min(count, room)), count, header.begin_timestamp, header.end_timestamp)


def _local_layout(file: MappedFile, slots: int | None, items: int | None) -> tuple[Generation, int] | None:
    for generation in (tiered_index.GENERATION_5_2, tiered_index.GENERATION_5_1):
        if slots is not None and items is not None and generation.file_size(slots, items) == file.length:
            return generation, slots
        one = generation.file_size(1, _ITEMS_PER_SLOT) - generation.file_size(0, 0)
        count, rest = divmod(file.length - generation.file_size(0, 0), one)
        if rest == 0 and count > 0:
            return generation, count
    return None


def _compacted_slots(file: MappedFile, magic: int, count: int) -> int | None:
    """Return the number of slots of a compacted file, whose slots hold the position of their entries; None for the other form."""
    if magic != tiered_index.END_MAGIC or count < 0:
        return None
    for trailer in (0, tiered_index.COMPACTED_TRAILER_5_1):
        space = file.length - HEADER_SIZE - count * COMPACTED_ITEM_DTYPE.itemsize - trailer
        if space <= 0 or space % COMPACTED_SLOT_DTYPE.itemsize:
            continue
        with map_window(file, HEADER_SIZE, space) as window:
            used = int(window.array.view(COMPACTED_SLOT_DTYPE)["length"].astype(np.int64).sum())
        if used == count * COMPACTED_ITEM_DTYPE.itemsize:
            return space // COMPACTED_SLOT_DTYPE.itemsize
    return None
