"""The unit of a ConsumeQueueExt: tag hash, store time and filter bitmap of a queue entry, addressed by the tagsCode of its queue unit.

Source: `ConsumeQueueExt`; fact sheet queues §3 (all releases, written with `enableConsumeQueueExt`).
"""

from __future__ import annotations

from construct import Bytes, Check, Int16sb, Int64sb, Rebuild, Struct, len_, this

UNIT_PREFIX = Struct(
    "size" / Int16sb * "size of the unit: 20 + length of the bitmap",
    "tags_code" / Int64sb * "hash of TAGS, or deliver time (ms)",
    "msg_store_time" / Int64sb * "STORETIMESTAMP of the record (ms)",
    "bit_map_size" / Int16sb * "length of the bitmap in bytes",
)

UNIT_PREFIX_SIZE: int = UNIT_PREFIX.sizeof()

UNIT = Struct(
    "size" / Rebuild(Int16sb, UNIT_PREFIX_SIZE + len_(this.filter_bit_map)) * UNIT_PREFIX.size.docs,
    UNIT_PREFIX.tags_code,
    UNIT_PREFIX.msg_store_time,
    "bit_map_size" / Rebuild(Int16sb, len_(this.filter_bit_map)) * UNIT_PREFIX.bit_map_size.docs,
    "filter_bit_map" / Bytes(this.bit_map_size) * "bit b of consumer filters is in byte b / 8, mask 1 << b % 8",
    Check(this.size == UNIT_PREFIX_SIZE + this.bit_map_size),
)

DEFAULT_FILE_SIZE = 48 * 1024 * 1024

# Written if the next unit does not fit; the rest of the file is not changed. A unit fits if 4 bytes stay free.
END_MARK = b"\xff\xff"
END_SPACE = 4

_ADDRESS_BASE = -(2**63)
MAX_ADDRESS = -(2**31) - 1


def is_address(tags_code: int) -> bool:
    """Return whether the tagsCode of a queue unit is the address of an ext unit: hashes and deliver times never are."""
    return tags_code <= MAX_ADDRESS


def encode_address(offset: int) -> int:
    """Return the tagsCode that addresses the ext unit at `offset` (bytes from the start of the ext queue)."""
    return offset + _ADDRESS_BASE


def decode_address(tags_code: int) -> int:
    """Return the offset (bytes from the start of the ext queue) of the ext unit that a tagsCode addresses."""
    return tags_code - _ADDRESS_BASE
