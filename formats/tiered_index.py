"""The local index of the tiered store, in both generations: one of 5.1.x (`0000`, `1111`, `2222`) and one since 5.2.0 (named by time).

Source: `TieredIndexFile` (5.1.x), `IndexStoreFile`, `IndexItem` (≥5.2.0); fact sheet queues §10.
Both share header, slot and entry; they differ in numbering, the empty slot, the unit of time and the length of the file (`Generation`).
"""

from __future__ import annotations

from dataclasses import dataclass

from construct import Int32sb, Int32ub, Int64sb, Struct

BEGIN_MAGIC = 0xBCC50289
END_MAGIC = 0xBCC50285

HEADER = Struct(
    "magic" / Int32ub * "BCC50289 while entries are added; ≥5.2.0: BCC50285 when full",
    "begin_timestamp" / Int64sb * "store time of the first entry (ms), −1 = none",
    "end_timestamp" / Int64sb * "store time of the last entry (ms), −1 = none",
    "slot_count" / Int32sb * "≥5.2.0: used slots; 5.1.x: 0, in a compacted file number of slots",
    "item_count" / Int32sb * "number of entries",
)

SLOT = Struct(
    "item_number" / Int32sb * "number of the newest entry of the chain; empty: 0, in 5.1.x −1",
    "unused" / Int32sb * "0",
)

ITEM = Struct(
    "key_hash" / Int32sb * "absolute Java hash of `topic#key`",
    "topic_id" / Int32sb * "number of the topic in tieredStoreMetadata.json",
    "queue_id" / Int32sb * "queue id",
    "offset" / Int64sb * "offset of the record in the tiered commit log of its queue",
    "size" / Int32sb * "TOTALSIZE of the record",
    "time_diff" / Int32sb * "time from begin_timestamp: seconds, in 5.1.x ms",
    "prev_index" / Int32sb * "number of the next older entry of the chain; end: 0, in 5.1.x −1",
)

COMPACTED_SLOT = Struct(
    "position" / Int32sb * "position of the first entry of the slot in the file",
    "length" / Int32sb * "bytes of all entries of the slot",
)

COMPACTED_ITEM = Struct(*ITEM.subcons[:-1])

COMPACTED_TRAILER_5_1 = 4
"""Bytes after the entries of a compacted file of 5.1.x: BEGIN_MAGIC."""

SEALED_MARK = Struct(
    "magic" / Int32ub * "last 4 bytes of a file of 5.1.x: BCC50285 when sealed, −1 before",
)


@dataclass(frozen=True, slots=True)
class Generation:
    """The differences between the two generations of the local file."""

    releases: str
    first_item: int
    empty_slot: int
    milliseconds_per_time_diff: int
    extra_bytes: int

    def file_size(self, slots: int, items: int) -> int:
        """Return the length in bytes of a local file that is not compacted."""
        return int(HEADER.sizeof() + slots * SLOT.sizeof() + items * ITEM.sizeof() + self.extra_bytes)

    def item_position(self, item: int, slots: int) -> int:
        """Return the position in the file (bytes) of the entry with the number `item`."""
        return int(HEADER.sizeof() + slots * SLOT.sizeof() + item * ITEM.sizeof())


# 5.1.x reserves 40 bytes for the header, as the index file of the commit log does, uses 28 of them, and ends with SEALED_MARK.
GENERATION_5_1 = Generation("5.1.x", 0, -1, 1, 16)
GENERATION_5_2 = Generation("≥5.2.0", 1, 0, 1000, 0)

DEFAULT_SLOT_NUM = 5_000_000
DEFAULT_ITEM_NUM = 20_000_000


def slot_position(slot: int) -> int:
    """Return the position in the file (bytes) of a slot, counted from 0; the same in both generations and in the compacted form."""
    return int(HEADER.sizeof() + slot * SLOT.sizeof())
