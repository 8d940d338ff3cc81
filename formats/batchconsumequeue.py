"""The unit of a BatchConsumeQueue and of a compacted topic's SparseConsumeQueue: one per record, found by its first queue offset.

Source: `BatchConsumeQueue` (≥5.0.0), `SparseConsumeQueue` (≥5.1.0); fact sheet queues §4, §5.2.
"""

from __future__ import annotations

from construct import Int16sb, Int32sb, Int64sb, Struct

UNIT = Struct(
    "physical_offset" / Int64sb * "physical offset of the record in the commit log (sparse: in the compaction log)",
    "size" / Int32sb * "TOTALSIZE of the record",
    "tags_code" / Int64sb * "hash of TAGS",
    "store_time" / Int64sb * "STORETIMESTAMP of the record (ms)",
    "msg_base_offset" / Int64sb * "queue offset of the first message in the record",
    "batch_size" / Int16sb * "messages in the record",
    "compacted_offset" / Int32sb * "always −1",
    "reserved" / Int32sb * "always 0",
)

UNIT_SIZE: int = UNIT.sizeof()
DEFAULT_FILE_SIZE = 300_000 * UNIT_SIZE
NO_COMPACTED_OFFSET = -1

# Last unit of a sparse queue file that rolls together with its compaction log; missing if the file is exactly full.
SPARSE_END = UNIT.build(
    {
        "physical_offset": -1,
        "size": 0,
        "tags_code": 0,
        "store_time": 0,
        "msg_base_offset": 0,
        "batch_size": 0,
        "compacted_offset": NO_COMPACTED_OFFSET,
        "reserved": 0,
    }
)
