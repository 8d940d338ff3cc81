"""The segments of tiered storage: the coda of a commit log segment.

Source: `MessageFormatUtil`, `CommitLogInputStream` (≥5.1.0); fact sheet queues §10. A commit log segment holds records of one queue, with
PHYSICALOFFSET counted in the tiered log of that queue, a consume queue segment 20-byte units with such offsets, and an index segment one
compacted index file.
"""

from __future__ import annotations

from construct import Int32sb, Int32ub, Int64sb, Struct

CODA_MAGIC = 0xCBD43194

CODA = Struct(
    "size" / Int32sb * "16",
    "magic" / Int32ub * "CBD43194",
    "max_store_timestamp" / Int64sb * "store time of the last record (ms)",
)
"""After the last record of a full commit log segment of 5.1.x; later releases write none."""

CODA_SIZE: int = CODA.sizeof()
