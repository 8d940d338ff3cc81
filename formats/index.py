"""The index file: a header, a table of hash slots, and entries that are chained from the newest to the oldest.

Source: `IndexFile`, `IndexHeader`, `IndexService`; fact sheet queues §6, tag entries ≥5.4.0: sheet of the newer releases §5.1.
"""

from __future__ import annotations

from collections.abc import Mapping

from construct import Int32sb, Int64sb, Struct

from rmqstore.formats.properties import KEYS, TAGS, UNIQ_KEY

HEADER = Struct(
    "begin_timestamp" / Int64sb * "STORETIMESTAMP of the first entry (ms)",
    "end_timestamp" / Int64sb * "STORETIMESTAMP of the last entry (ms)",
    "begin_phy_offset" / Int64sb * "physical offset of the first entry's record",
    "end_phy_offset" / Int64sb * "physical offset of the last entry's record",
    "hash_slot_count" / Int32sb * "used slots; before 4.7.1 number of entries",
    "index_count" / Int32sb * "number of entries + 1 = number of the next entry; 0 on disk until the first entry",
)

SLOT = Struct(
    "item_number" / Int32sb * "number of the newest entry of the chain, 0 = empty",
)

ITEM = Struct(
    "key_hash" / Int32sb * "absolute Java hash of `topic#key`",
    "phy_offset" / Int64sb * "physical offset of the record",
    "time_diff" / Int32sb * "seconds from begin_timestamp to the STORETIMESTAMP of the record",
    "prev_index" / Int32sb * "number of the next older entry of the chain, 0 = end",
)

HEADER_SIZE: int = HEADER.sizeof()
SLOT_SIZE: int = SLOT.sizeof()
ITEM_SIZE: int = ITEM.sizeof()
DEFAULT_HASH_SLOT_NUM = 5_000_000
DEFAULT_INDEX_NUM = 20_000_000

# The entry with this number is never used, so a file of N places holds N − 1 entries.
UNUSED_ITEM = 0


def file_size(slots: int, items: int) -> int:
    """Return the bytes of a file with `slots` hash slots (`maxHashSlotNum`) and places for `items` entries (`maxIndexNum`)."""
    return HEADER_SIZE + slots * SLOT_SIZE + items * ITEM_SIZE


def slot_position(slot: int) -> int:
    """Return the position in the file (bytes) of a slot, counted from 0."""
    return HEADER_SIZE + slot * SLOT_SIZE


def item_position(item: int, slots: int) -> int:
    """Return the position in the file (bytes) of the entry with the number `item`."""
    return HEADER_SIZE + slots * SLOT_SIZE + item * ITEM_SIZE


def message_keys(properties: Mapping[str, str], index_tags: bool) -> list[str]:
    """Return the index keys of a record in the order of its entries, each to follow `topic#`. `index_tags`: the writer is ≥5.4.0."""
    keys = [properties[UNIQ_KEY]] if UNIQ_KEY in properties else []
    keys += [key for key in properties.get(KEYS, "").split(" ") if key]
    if index_tags and TAGS in properties:
        keys.append(f"T#{properties[TAGS]}")
    return keys
