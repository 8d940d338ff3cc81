"""The unit of a consume queue: the place in the commit log of the message of one queue offset.

Source: `ConsumeQueue`; fact sheet queues §2.1–2.4 (all releases).
"""

from __future__ import annotations

from construct import Int32sb, Int64sb, Struct

UNIT = Struct(
    "physical_offset" / Int64sb * "physical offset of the record in the commit log",
    "size" / Int32sb * "TOTALSIZE of the record",
    "tags_code" / Int64sb * "hash of TAGS; deliver time (ms) in the schedule topic; address of the ext unit with ConsumeQueueExt",
)

UNIT_SIZE: int = UNIT.sizeof()
DEFAULT_FILE_SIZE = 300_000 * UNIT_SIZE

# Filler before the first unit of a queue that does not start at offset 0. It passes the broker's test of a valid unit.
PRE_BLANK_SIZE = 0x7FFF_FFFF
PRE_BLANK = UNIT.build({"physical_offset": 0, "size": PRE_BLANK_SIZE, "tags_code": 0})

# Never written: the end of a queue.
ZERO_UNIT = bytes(UNIT_SIZE)


def file_size(configured: int) -> int:
    """Return the length in bytes of a queue file for the setting `mappedFileSizeConsumeQueue`: rounded up to whole units."""
    return -(-configured // UNIT_SIZE) * UNIT_SIZE
